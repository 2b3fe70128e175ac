/* SPDX-License-Identifier: BSD-2-Clause */
/* Replay: execute the actions, and after a divergence reset the GPU and start again. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

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
enum gr_status gr_settle(struct gr_replayer *r)
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
    enum gr_status status = limits->idle ? gr_settle(r) : GR_STATUS_OK;
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
    const enum gr_status status = gr_read_ahead(r, a->arg);
    if (status != GR_STATUS_OK)
        return status;
    const uint64_t now = gr_port_now_us(), left = now < r->deadline_us ? r->deadline_us - now : 0;
    const uint32_t us = a->value < left ? a->value : (uint32_t)left;
    if (gr_port_wait_irq(a->arg, us))
        return check_fault(r);
    return us < left ? GR_STATUS_NO_IRQ : GR_STATUS_BUDGET;
}

enum gr_status gr_execute(struct gr_replayer *r, const struct gr_action *a)
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
    case GR_OP_COPY_FROM_GPU: GR_IS_COPIED(r); return gr_copy_slot(r, a->arg, a->op == GR_OP_COPY_TO_GPU);
    case GR_OP_OPERATE: return gr_operate(r, a);
    case GR_OP_WAIT_IRQ: return wait_irq(r, a);
    case GR_OP_INTERVAL: return wait_for(r, a, a->value, GR_STATUS_OK);
    case GR_OP_JOB:
        gr_job_begins(r, a);
        r->report.jobs++;
        break;
    default: return gr_run_stream(r, a); /* or a marker */
    }
    return GR_STATUS_OK;
}

static enum gr_status execute_range(struct gr_replayer *r, uint32_t from, uint32_t to)
{
    GR_BEGINS_AT(r, from);
    for (uint32_t i = from; i < to; i++) {
        struct gr_action action;
        enum gr_status status = gr_fetch_action(r, i, &action);
        if (status == GR_STATUS_OK && gr_port_now_us() >= r->deadline_us)
            status = GR_STATUS_BUDGET;
        if (status == GR_STATUS_OK && gr_step_ends(r, &action, i))
            return check_fault(r);
        if (status == GR_STATUS_OK)
            status = gr_fetch_pieces(r, &action);
        if (status == GR_STATUS_OK && gr_lacks_pieces(r, i))
            status = GR_STATUS_FLOW;
        if (status == GR_STATUS_OK)
            status = gr_execute(r, &action);
        if (status != GR_STATUS_OK)
            return status;
        r->report.actions++;
    }
    return GR_STATUS_OK;
}

/* Nothing of an earlier run stays, nor of an attempt that failed: neither data nor mappings. From the start:
 * no job of any trace runs without the replayer's table. What the GPU writes back in its reset is wiped with
 * the rest. */
bool gr_prepare(struct gr_replayer *r, bool is_new)
{
    const bool resets = gr_needs_reset(r);
    r->touched = true;
    if (resets && !gr_driver_reset(r))
        return false;
    if (is_new) {
        gr_wipe(r->memory.base + GR_WORK_AT(r), GR_WIPED_END(r) - GR_WORK_AT(r));
        gr_wipe_tables(r);
        for (uint32_t i = 0; i < GR_KEPT; i++)
            GR_PROGRESS(r)->kept[i] = 0;
        if (GR_ADDRESS_SPACES > 1)
            GR_PROGRESS(r)->tables = GR_ADDRESS_SPACES; /* the roots, of drivers that take others as needed */
    }
    if (resets) {
        r->code = 0;
        gr_driver_set_table(r, 0);
    }
    return true;
}

static enum gr_status run_prologue(struct gr_replayer *r)
{
    gr_attempt_begins(r);
    if (!gr_prepare(r, true))
        return GR_STATUS_RESET;
    GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_PROLOGUE));
    const enum gr_status status = execute_range(r, GR_FIRST_ACTION(r), GR_REPLAY_START(r));
    if (status != GR_STATUS_OK)
        return status;
    GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_PROLOGUE_DONE));
    GR_PROGRESS(r)->started = true;
    GR_IS_SET_UP(r);
    return GR_STATUS_OK;
}

enum gr_status gr_try_once(struct gr_replayer *r)
{
    GR_COUNT_JOBS(r);
    gr_take_over(r);
    r->report.phase = GR_PHASE_PROLOGUE;
    enum gr_status status = GR_PROGRESS(r)->started ? gr_come_back(r) : run_prologue(r);
    if (status != GR_STATUS_OK)
        return status;
    r->report.phase = GR_PHASE_REPLAY;
    const uint32_t from = gr_goes_on_with(r);
    if (from == GR_REPLAY_START(r))
        GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_REPLAY));
    status = execute_range(r, from, GR_END_ACTION(r));
    if (status != GR_STATUS_OK || GR_HAS_STOPPED(r))
        return status;
    GR_TELL_COPY(r, gr_log_part(r->log, GR_LOG_REPLAY_DONE));
    return gr_settle(r);
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
    GR_FORGET(GR_PROGRESS(r));
}

void gr_leave(struct gr_replayer *r, uint32_t keeper)
{
    for (uint32_t i = 0; i < GR_COUNT(r); i++) {
        if (!gr_goes_away(r, i, i == keeper))
            r->progress[i].started = false;
    }
}

/* The GPU stops using the carve-out, whatever the cause. */
bool gr_may_try_again(struct gr_replayer *r)
{
    const bool may_help =
        is_divergence(r) && r->report.retries < GR_RETRIES(r) && r->report.retries < GR_RETRY_LIMIT;
    gr_driver_reset(r);
    gr_leave(r, GR_NUMBER(r));
    if (!may_help || !GR_CAN_REPEAT(r))
        GR_PROGRESS(r)->started = false;
    return may_help;
}

enum gr_status gr_check_bound(struct gr_replayer *r)
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
