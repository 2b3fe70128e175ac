/* SPDX-License-Identifier: BSD-2-Clause */
/* A replay in one piece. Where it can stop between jobs, features/steps has its place. */
#include "driver.h"
#include "internal.h"

GR_NOINLINE enum gr_status gr_run(struct gr_replayer *r)
{
    const enum gr_status bound = gr_check_bound(r);
    if (bound != GR_STATUS_OK)
        return r->report.status = bound;
    const uint64_t start = gr_port_now_us();
    r->deadline_us = start + GR_BUDGET_US(r);
    r->report.retries = 0;
    r->report.actions = 0;
    for (;;) {
        r->report.status = gr_try_once(r);
        r->report.replay_us = gr_port_now_us() - start;
        if (r->report.status == GR_STATUS_OK)
            return r->report.status = gr_ends_early(r) ? GR_STATUS_FLOW : gr_store_keep(r);
        if (!gr_may_try_again(r))
            return r->report.status;
        r->report.retries++;
    }
}
