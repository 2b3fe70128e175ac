# SPDX-License-Identifier: BSD-2-Clause

# The replay log. Its crypto is BearSSL's: the core's has no way from a secret to its public key.
subdirs-y += bearssl
cflags-y += -Wno-unused-function -Wno-switch-default
cppflags-y += -isystem $(sub-dir)/bearssl/inc -isystem $(sub-dir)/bearssl/src
