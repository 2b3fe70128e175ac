# SPDX-License-Identifier: BSD-2-Clause
srcs-y += gramophone_ta.c
srcs-y += rollback.c
srcs-y += log_tail.c
