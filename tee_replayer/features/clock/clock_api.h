/* SPDX-License-Identifier: BSD-2-Clause */
/* What the day is, of a port that knows it. */
#ifndef GRAMOPHONE_CLOCK_API_H
#define GRAMOPHONE_CLOCK_API_H

#ifdef GRAMOPHONE_CLOCK
/* Seconds since 1970 (UTC), of a clock that the normal world cannot set; 0: it is not set. */
GR_API uint64_t gr_port_utc_s(void);
#define GR_NO_TIME UINT64_MAX
#endif

#endif
