# SPDX-License-Identifier: BSD-2-Clause

# The replay log.
cflags-y += -Wno-unused-function -Wno-switch-default
