/* SPDX-License-Identifier: BSD-2-Clause */
/* Of attempts.c, with run.c and networks: gr_run in any state of a loaded trace; after gr_leave for nobody no
 * network has started. */
#include "run_seam.h"

int main(void)
{
    struct gr_replayer r;
    //@ loop unroll 2;
    for (uint32_t i = 0; i < 2; i++) {
        is_any_action = i;
        forget(&r);
        gr_run(&r);
    }
    //@ assert count: r.network_count == GR_NETWORKS;
    forget(&r);
    gr_restart(&r);
    gr_leave(&r, UINT32_MAX);
    //@ assert none: \forall integer k; 0 <= k < GR_NETWORKS ==> r.progress[k].started == 0;
    return 0;
}
#include "run.c"
#include "shipped/attempts.c"
