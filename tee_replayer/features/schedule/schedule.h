/* SPDX-License-Identifier: BSD-2-Clause */
/* How long a network's replays take, for the queue of requests. */
#ifndef GRAMOPHONE_SCHEDULE_H
#define GRAMOPHONE_SCHEDULE_H

#ifdef GRAMOPHONE_SCHEDULE

#define GR_TAKES(r, number, us) ((void)((r)->queue.takes_us[number] = (us)))

/* Of a driver: whether gr_driver_switch ever succeeds. */
GR_INTERNAL bool gr_driver_can_switch(void);

#else

#define GR_TAKES(r, number, us) ((void)(us))

#endif

#endif
