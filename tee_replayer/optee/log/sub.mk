# SPDX-License-Identifier: BSD-2-Clause

# The replay log. Its crypto is that of bare-metal firmware: the core's has no way from a secret to its public key.
subdirs-y += bearssl aws-lc
cflags-y += -Wno-unused-function -Wno-switch-default
cppflags-y += -isystem $(sub-dir)/bearssl/inc -isystem $(sub-dir)/bearssl/src \
  -isystem $(sub-dir)/aws-lc/s2n-bignum/include -isystem $(sub-dir)/aws-lc/include
