/* SPDX-License-Identifier: BSD-2-Clause */
/* What a trust policy's days mean where the clock is not set. */
#ifndef GRAMOPHONE_CLOCK_H
#define GRAMOPHONE_CLOCK_H

#ifdef GRAMOPHONE_CLOCK
#define GR_IS_NO_TIME(now_s) ((now_s) == GR_NO_TIME)
#else
#define GR_IS_NO_TIME(now_s) ((void)(now_s), false)
#endif

#endif
