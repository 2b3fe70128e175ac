/* SPDX-License-Identifier: BSD-2-Clause */
/* Of steps.c, with run.c and networks: gr_step, gr_run and gr_yield in any state of a replay that is under
 * way. */
#include "run_seam.h"

int main(void)
{
    struct gr_replayer r;
    //@ loop unroll 2;
    for (uint32_t i = 0; i < 2; i++) {
        is_any_action = i;
        forget(&r);
        gr_step(&r);
        //@ assert next: \forall integer k; 0 <= k < GR_NETWORKS ==> r.progress[k].under_way.next < ACTIONS;
        forget(&r);
        gr_run(&r);
    }
    forget(&r);
    gr_yield(&r);
    //@ assert count: r.network_count == GR_NETWORKS;
    forget(&r);
    r.state = GR_STATE_LOADED;
    if (gr_yield(&r)) {
        //@ assert away: !r.touched;
        //@ assert registers: \forall integer k; 0 <= k < GR_NETWORKS ==> r.progress[k].is_away == 1;
    }
    forget(&r);
    gr_restart(&r);
    gr_resumes(&r, r.network);
    return 0;
}
#include "run.c"
#include "shipped/steps.c"
