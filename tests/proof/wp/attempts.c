/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: an attempt and whether there is another (run), the state after gr_load. */
#include "run.h"

/*@ requires r->state == GR_STATE_LOADED ==> ready(r);
    requires \valid(r);
    assigns RUN(r), r->deadline_us AND_KEPT(r);
*/
enum gr_status gr_run(struct gr_replayer *r);
#include "shipped/attempts.c"
