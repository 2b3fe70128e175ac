/* SPDX-License-Identifier: BSD-2-Clause */
/* Replay: execute the actions, and after a divergence reset the GPU and start again. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"
#include "own.h"

/* Whether the GPU has reported a fault. No trace can clear what it is seen by. */
GR_NOINLINE static enum gr_status check_fault(struct gr_replayer *r)
{
    const uint32_t fault = gr_driver_fault();
    if (!fault)
        return GR_STATUS_OK;
    r->report.expected = gr_driver_fault_place(fault);
    r->report.seen = fault;
    return GR_STATUS_FAULT;
}

/* Wait until no job runs; then no fault can come any more. */
static enum gr_status settle(struct gr_replayer *r)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        /* The clock first: after a late return the GPU is asked once more. */
        const bool is_late = gr_port_now_us() - start >= GR_IDLE_TIMEOUT_US, is_idle = gr_driver_is_idle();
        if (is_idle || is_late) {
            const enum gr_status status = check_fault(r);
            return status == GR_STATUS_OK && !is_idle ? GR_STATUS_BUSY : status;
        }
    }
}

/* Write the bits of `value` under `mask`; the register keeps its others, of those that a trace may set. The
 * limits are looked up twice, and what is written is kept inside them: one skipped instruction lets no other
 * value pass. */
static enum gr_status write_register(struct gr_replayer *r, uint32_t index, uint32_t value, uint32_t mask)
{
    const struct gr_limits *limits = r->limits, *again = gr_find_register(index, GR_ACCESS_WRITE);
    if (!limits || !again)
        return GR_STATUS_REGISTER;
    if (~mask)
        value = (value & mask) | (gr_port_read32(index * 4) & ~mask & limits->bits);
    const uint32_t kept = (value & again->bits) | again->always;
    if (value != ((value & limits->bits) | limits->always) || value != kept)
        return GR_STATUS_REGISTER;
    enum gr_status status = limits->idle ? settle(r) : GR_STATUS_OK;
    if (status == GR_STATUS_OK)
        status = gr_driver_check_write(r, index * 4, kept);
    if (status == GR_STATUS_OK)
        gr_port_write32(index * 4, kept);
    return status;
}

/* Wait for `us`, or until a register has the value expected under the mask. `on_timeout` is the status when
 * the time is over; if that is GR_STATUS_OK, no register is read. */
GR_NOINLINE static enum gr_status wait_for(struct gr_replayer *r, const struct gr_action *a, uint32_t us,
                                           enum gr_status on_timeout)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        /* The clock first: after a late return the register is read once more. */
        const uint64_t now = gr_port_now_us();
        if (on_timeout != GR_STATUS_OK) {
            r->report.seen = gr_port_read32(a->arg * 4u) & a->a;
            if (r->report.seen == r->report.expected)
                return GR_STATUS_OK;
        }
        if (now - start >= us)
            return on_timeout;
        if (now >= r->deadline_us)
            return GR_STATUS_BUDGET;
    }
}

static enum gr_status wait_irq(struct gr_replayer *r, const struct gr_action *a)
{
    const uint64_t now = gr_port_now_us(), left = now < r->deadline_us ? r->deadline_us - now : 0;
    const uint32_t us = a->value < left ? a->value : (uint32_t)left;
    if (gr_port_wait_irq(a->arg, us))
        return check_fault(r);
    return us < left ? GR_STATUS_NO_IRQ : GR_STATUS_BUDGET;
}

static enum gr_status execute(struct gr_replayer *r, const struct gr_action *a)
{
    uint8_t *base = r->memory.base;
    const uint32_t offset = a->arg * 4u;
    r->report.expected = a->value & a->a;
    r->report.seen = 0;
    switch (a->op) {
    case GR_OP_REG_READ_ONCE: return wait_for(r, a, 0, GR_STATUS_DIVERGED);
    case GR_OP_REG_READ_WAIT: return wait_for(r, a, a->b, GR_STATUS_TIMEOUT);
    case GR_OP_REG_WRITE: return write_register(r, a->arg, a->value, a->a);
    case GR_OP_REG_READ_KEEP: GR_PROGRESS(r)->kept[a->b] = gr_port_read32(offset); break;
    case GR_OP_REG_WRITE_KEPT: return write_register(r, a->arg, GR_PROGRESS(r)->kept[a->b], UINT32_MAX);
    case GR_OP_SET_GPU_PGTABLE: gr_driver_set_table(r, gr_action_address_space(a)); break;
    case GR_OP_MAP_GPU_MEM: return gr_driver_map(r, a);
    case GR_OP_UNMAP_GPU_MEM: return gr_driver_unmap(r, a);
    case GR_OP_UPLOAD: memcpy(base + a->a, base + a->b, a->value); break;
    case GR_OP_CLEAR: memset(base + a->a, 0, a->value); break;
    case GR_OP_COPY_TO_GPU:
    case GR_OP_COPY_FROM_GPU:
#ifdef GRAMOPHONE_STEPS
        GR_PROGRESS(r)->under_way.can_repeat = false; /* a log is told once of what is copied */
#endif
        return gr_copy_slot(r, a->arg, a->op == GR_OP_COPY_TO_GPU);
#ifdef GRAMOPHONE_OPERATORS
    case GR_OP_OPERATE: {
        /* What a job still writes is no operand, and what faulted has left none. The trace may say that it
         * lies apart; the wait that follows then looks for a fault. */
        const enum gr_status status = a->flags & GR_OPERATE_BESIDE ? GR_STATUS_OK : settle(r);
        return status == GR_STATUS_OK ? gr_operate(r, a) : status;
    }
#endif
    case GR_OP_WAIT_IRQ: return wait_irq(r, a);
    case GR_OP_INTERVAL: return wait_for(r, a, a->value, GR_STATUS_OK);
    case GR_OP_JOB:
#ifdef GRAMOPHONE_STEPS
        /* What the trace says is of one job, so it says nothing of a step with several. */
        GR_PROGRESS(r)->under_way.can_repeat =
            a->flags & GR_JOB_REPEAT && r->report.jobs == GR_PROGRESS(r)->under_way.jobs;
#endif
        r->report.jobs++;
        break;
    default: break; /* markers */
    }
    return GR_STATUS_OK;
}

#ifdef GRAMOPHONE_STEPS
/* Whether a step ends before this action: it begins a job, and the ones before have ended. Where jobs
 * overlap, it ends later. */
static bool is_checkpoint(const struct gr_replayer *r, const struct gr_action *a)
{
    return r->report.phase == GR_PHASE_REPLAY && r->report.jobs != GR_PROGRESS(r)->under_way.jobs &&
           gr_driver_begins_job(a) && gr_driver_is_idle();
}
#endif

static enum gr_status execute_range(struct gr_replayer *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct gr_action action;
        enum gr_status status = gr_fetch_action(r, i, &action);
        if (status == GR_STATUS_OK && gr_port_now_us() >= r->deadline_us)
            status = GR_STATUS_BUDGET;
#ifdef GRAMOPHONE_STEPS
        if (status == GR_STATUS_OK && is_checkpoint(r, &action)) {
            GR_PROGRESS(r)->under_way.next = i;
            return check_fault(r);
        }
#endif
        if (status == GR_STATUS_OK)
            status = execute(r, &action);
        if (status != GR_STATUS_OK)
            return status;
        r->report.actions++;
    }
    return GR_STATUS_OK;
}

#ifdef GRAMOPHONE_STEPS
/* Whether an action does something to memory, which is kept, or lets a caller's data through. */
static bool is_of_memory(const struct gr_action *a)
{
    return a->op == GR_OP_MAP_GPU_MEM || a->op == GR_OP_UNMAP_GPU_MEM || a->op >> 4 == GR_OP_UPLOAD >> 4;
}

/* After a reset, set what the prologue has set in registers before its first job. The trace says that this is
 * all that its jobs need; whatever it says, each access is checked as ever. */
static enum gr_status set_registers(struct gr_replayer *r)
{
    r->touched = true;
#ifdef GRAMOPHONE_NETWORKS
    if (!gr_prepare_network(r, false))
        return GR_STATUS_RESET;
#else
    if (!gr_driver_reset(r))
        return GR_STATUS_RESET;
    r->code = 0;
    gr_driver_set_table(r, 0);
#endif
    for (uint32_t i = GR_FIRST_ACTION(r); i < GR_REPLAY_START(r); i++) {
        struct gr_action action;
        enum gr_status status = gr_fetch_action(r, i, &action);
        if (status == GR_STATUS_OK && gr_port_now_us() >= r->deadline_us)
            status = GR_STATUS_BUDGET;
        if (status == GR_STATUS_OK && gr_driver_begins_job(&action))
            break;
        if (status == GR_STATUS_OK && !is_of_memory(&action))
            status = execute(r, &action);
        if (status != GR_STATUS_OK)
            return status;
        r->report.actions++;
    }
    GR_PROGRESS(r)->is_away = false;
    return GR_STATUS_OK;
}
#endif

static enum gr_status try_once(struct gr_replayer *r)
{
#ifndef GRAMOPHONE_STEPS
    r->report.jobs = 0;
#endif
#ifdef GRAMOPHONE_NETWORKS
    gr_take_over(r);
#endif
    r->report.phase = GR_PHASE_PROLOGUE;
    if (!GR_PROGRESS(r)->started) {
#ifdef GRAMOPHONE_STEPS
        GR_PROGRESS(r)->under_way.next = 0; /* what it had done is gone */
        r->report.jobs = 0;
#endif
        r->touched = true;
#ifdef GRAMOPHONE_NETWORKS
        if (!gr_prepare_network(r, true))
            return GR_STATUS_RESET;
#else
        if (!gr_driver_reset(r))
            return GR_STATUS_RESET;
        /* Nothing of an earlier run stays, nor of an attempt that failed: neither data nor mappings. */
        gr_wipe(r->memory.base + r->image_end, r->low_bytes - r->image_end);
        for (uint32_t i = 0; i < GR_KEPT; i++)
            r->kept[i] = 0;
        if (GR_ADDRESS_SPACES > 1)
            r->tables = GR_ADDRESS_SPACES; /* the roots, of drivers that take others as needed */
        r->code = 0;
        /* From the start: no job of any trace runs without the replayer's table. */
        gr_driver_set_table(r, 0);
#endif
        GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_PROLOGUE));
        const enum gr_status status = execute_range(r, GR_FIRST_ACTION(r), GR_REPLAY_START(r));
        if (status != GR_STATUS_OK)
            return status;
        GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_PROLOGUE_DONE));
        GR_PROGRESS(r)->started = true;
#ifdef GRAMOPHONE_STEPS
        GR_PROGRESS(r)->is_away = false;
#endif
    }
#ifdef GRAMOPHONE_STEPS
    if (GR_PROGRESS(r)->is_away) {
        const enum gr_status status = set_registers(r);
        if (status != GR_STATUS_OK)
            return status;
    }
#endif
    r->report.phase = GR_PHASE_REPLAY;
#ifdef GRAMOPHONE_STEPS
    struct gr_under_way *w = &GR_PROGRESS(r)->under_way;
    const uint32_t from = w->next ? w->next : GR_REPLAY_START(r);
    if (!w->next) {
        r->report.jobs = 0;
        GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_REPLAY));
    }
    w->jobs = r->report.jobs;
    w->next = 0;
    w->can_repeat = false;
    const enum gr_status status = execute_range(r, from, GR_END_ACTION(r));
    if (status != GR_STATUS_OK || w->next)
        return status;
#else
    GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_REPLAY));
    const enum gr_status status = execute_range(r, GR_REPLAY_START(r), GR_END_ACTION(r));
    if (status != GR_STATUS_OK)
        return status;
#endif
    GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_REPLAY_DONE));
    return settle(r);
}

/* Whether a failure is the GPU's doing, so that another attempt may help; a fault is told from its
 * consequences. */
static bool is_divergence(struct gr_replayer *r)
{
    const enum gr_status status = r->report.status;
    if (status != GR_STATUS_DIVERGED && status != GR_STATUS_TIMEOUT && status != GR_STATUS_NO_IRQ &&
        status != GR_STATUS_BUSY && status != GR_STATUS_FAULT)
        return false;
    const enum gr_status cause = check_fault(r);
    if (cause != GR_STATUS_OK)
        r->report.status = cause;
    return true;
}

void gr_restart(struct gr_replayer *r)
{
    GR_PROGRESS(r)->started = false;
#ifdef GRAMOPHONE_STEPS
    GR_PROGRESS(r)->under_way.is_begun = false;
#endif
}

#ifndef GRAMOPHONE_NETWORKS
/* As that of networks, of the only one. */
GR_INLINE void gr_leave(struct gr_replayer *r, uint32_t keeper)
{
#ifdef GRAMOPHONE_STEPS
    r->is_away = true;
    if (gr_says_resume(r, r->replay_start))
        return;
    if (keeper)
        r->under_way.is_begun = false;
#else
    (void)keeper;
#endif
    r->started = false;
}
#endif

/* After a failure: the GPU stops using the carve-out, whatever the cause; whether another attempt may help.
 */
static bool may_try_again(struct gr_replayer *r)
{
    const bool may_help =
        is_divergence(r) && r->report.retries < GR_RETRIES(r) && r->report.retries < GR_RETRY_LIMIT;
    gr_driver_reset(r);
#ifdef GRAMOPHONE_NETWORKS
    gr_leave(r, r->network);
#else
    gr_leave(r, 0);
#endif
#ifdef GRAMOPHONE_STEPS
    if (!may_help || r->report.phase != GR_PHASE_REPLAY || !GR_PROGRESS(r)->under_way.can_repeat)
        GR_PROGRESS(r)->started = false;
#endif
    return may_help;
}

/* Whether a replay may begin. */
static enum gr_status check_bound(struct gr_replayer *r)
{
    if (r->state != GR_STATE_LOADED)
        return GR_STATUS_STATE;
    for (uint32_t i = GR_FIRST_SLOT(r); i < GR_END_SLOT(r); i++) {
        if (gr_lacks_data(r, i)) {
            r->report.offset = i;
            return GR_STATUS_UNBOUND;
        }
    }
    return GR_STATUS_OK;
}

/* A replay has gone well. */
static enum gr_status finish(struct gr_replayer *r)
{
#ifdef GRAMOPHONE_STORE
    return gr_store_keep(r);
#else
    (void)r;
    return GR_STATUS_OK;
#endif
}

#ifdef GRAMOPHONE_STEPS
GR_NOINLINE bool gr_step(struct gr_replayer *r)
{
    struct gr_under_way *w = &GR_PROGRESS(r)->under_way;
    r->report.status = check_bound(r);
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
    r->report.status = try_once(r);
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
        r->report.status = finish(r);
    } else if (may_try_again(r)) {
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
#else
GR_NOINLINE enum gr_status gr_run(struct gr_replayer *r)
{
    const enum gr_status bound = check_bound(r);
    if (bound != GR_STATUS_OK)
        return r->report.status = bound;
    const uint64_t start = gr_port_now_us();
    r->deadline_us = start + GR_BUDGET_US(r);
    r->report.retries = 0;
    r->report.actions = 0;
    for (;;) {
        r->report.status = try_once(r);
        r->report.replay_us = gr_port_now_us() - start;
        if (r->report.status == GR_STATUS_OK)
            return r->report.status = finish(r);
        if (!may_try_again(r))
            return r->report.status;
        r->report.retries++;
    }
}
#endif
