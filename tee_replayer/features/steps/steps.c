/* SPDX-License-Identifier: BSD-2-Clause */
/* Replays that stop between jobs: what a step keeps, and how a replay goes on after others had the GPU. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

bool gr_resumes(const struct gr_replayer *r, uint32_t network)
{
    const struct gr_action a = gr_action_at(r, GR_START_OF(r, network));
    return a.op == GR_OP_REPLAY_START && a.flags & GR_REPLAY_START_RESUME;
}

bool gr_goes_away(struct gr_replayer *r, uint32_t network, bool keeps)
{
    struct gr_progress *p = &r->progress[network];
    p->is_away = true;
    if (gr_resumes(r, network))
        return true;
    if (!keeps)
        p->under_way.is_begun = false;
    return false;
}

/* What the trace says is of one job, so it says nothing of a step with several. */
void gr_job_begins(struct gr_replayer *r, const struct gr_action *a)
{
    struct gr_under_way *w = &GR_PROGRESS(r)->under_way;
    w->can_repeat = a->flags & GR_JOB_REPEAT && r->report.jobs == w->jobs;
}

/* It begins a job, and the ones before have ended. Where jobs overlap, a step ends later. */
bool gr_step_ends(struct gr_replayer *r, const struct gr_action *a, uint32_t index)
{
    struct gr_under_way *w = &GR_PROGRESS(r)->under_way;
    const bool ends = r->report.phase == GR_PHASE_REPLAY && r->report.jobs != w->jobs &&
                      gr_driver_begins_job(a) && gr_driver_is_idle();
    if (ends)
        w->next = index;
    return ends;
}

/* What it had done is gone. */
void gr_attempt_begins(struct gr_replayer *r)
{
    GR_PROGRESS(r)->under_way.next = 0;
    r->report.jobs = 0;
}

/* Whether an action does something to memory, which is kept, or lets a caller's data through. */
static bool is_of_memory(const struct gr_action *a)
{
    return a->op == GR_OP_MAP_GPU_MEM || a->op == GR_OP_UNMAP_GPU_MEM || a->op >> 4 == GR_OP_UPLOAD >> 4;
}

/* After a reset, set what the prologue has set in registers before its first job. The trace says that this is
 * all that its jobs need; whatever it says, each access is checked as ever. */
static enum gr_status set_registers(struct gr_replayer *r)
{
    if (!gr_prepare(r, false))
        return GR_STATUS_RESET;
    for (uint32_t i = GR_FIRST_ACTION(r); i < GR_REPLAY_START(r); i++) {
        struct gr_action action;
        enum gr_status status = gr_fetch_action(r, i, &action);
        if (status == GR_STATUS_OK && gr_port_now_us() >= r->deadline_us)
            status = GR_STATUS_BUDGET;
        if (status == GR_STATUS_OK && gr_driver_begins_job(&action))
            break;
        if (status == GR_STATUS_OK && !is_of_memory(&action))
            status = gr_execute(r, &action);
        if (status != GR_STATUS_OK)
            return status;
        r->report.actions++;
    }
    GR_PROGRESS(r)->is_away = false;
    return GR_STATUS_OK;
}

enum gr_status gr_come_back(struct gr_replayer *r)
{
    return GR_PROGRESS(r)->is_away ? set_registers(r) : GR_STATUS_OK;
}

uint32_t gr_goes_on_with(struct gr_replayer *r)
{
    struct gr_under_way *w = &GR_PROGRESS(r)->under_way;
    const uint32_t from = w->next ? w->next : GR_REPLAY_START(r);
    if (!w->next)
        r->report.jobs = 0;
    w->jobs = r->report.jobs;
    w->next = 0;
    w->can_repeat = false;
    return from;
}

GR_NOINLINE bool gr_step(struct gr_replayer *r)
{
    struct gr_under_way *w = &GR_PROGRESS(r)->under_way;
    r->report.status = gr_check_bound(r);
    if (r->report.status != GR_STATUS_OK)
        return false;
    if (!w->is_begun)
        *w = (struct gr_under_way){.is_begun = true};
    const uint32_t from = w->next, jobs = w->jobs;
    const uint64_t start = gr_port_now_us(), left = GR_BUDGET_US(r) - w->spent_us;
    r->deadline_us = start + left;
    r->report.retries = w->retries;
    r->report.actions = w->actions;
    r->report.jobs = w->jobs;
    r->report.status = gr_try_once(r);
    w->actions = r->report.actions;
    w->jobs = r->report.jobs;
    const uint64_t took = gr_port_now_us() - start;
    r->report.replay_us = w->spent_us + took;
    w->spent_us += took < left ? took : left;
    if (r->report.status == GR_STATUS_OK) {
        if (w->next) {
            r->report.status = GR_STATUS_STATE; /* no result yet */
            return true;
        }
        r->report.status = gr_ends_early(r) ? GR_STATUS_FLOW : gr_store_keep(r);
    } else if (gr_may_try_again(r)) {
        w->retries++;
        w->next = from;
        w->jobs = jobs;
        return true;
    }
    w->is_begun = false;
    return false;
}

void gr_abandon(struct gr_replayer *r)
{
    if (GR_PROGRESS(r)->under_way.is_begun)
        gr_restart(r);
}

bool gr_yield(struct gr_replayer *r)
{
    if (r->state != GR_STATE_LOADED)
        return true;
    if (r->touched && !gr_driver_reset(r))
        return false;
    r->touched = false;
    gr_leave(r, UINT32_MAX);
    return true;
}

/* A replay that is under way is given up, with what it has left in memory. */
GR_NOINLINE enum gr_status gr_run(struct gr_replayer *r)
{
    if (r->state == GR_STATE_LOADED)
        gr_abandon(r);
    while (gr_step(r)) {
    }
    return r->report.status;
}
