/* Replay: execute the actions, and on a divergence reset the GPU and start over. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

uint32_t gr_action_names(const struct gr_action *a)
{
    return a->op <= GR_OP_REG_WRITE_KEPT ? a->arg * 4u : a->arg;
}

static enum gr_status write_register(uint32_t index, uint32_t value)
{
    if (!gr_may_write(index, value))
        return GR_STATUS_REGISTER;
    gr_port_write32(index * 4, value);
    return GR_STATUS_OK;
}

static enum gr_status read_wait(struct gr_replayer *r, const struct gr_action *a)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        /* The clock first: a register that got its value in time is read once more after a late return. */
        const uint64_t now = gr_port_now_us();
        r->report.seen = gr_port_read32(a->arg * 4u) & a->a;
        if (r->report.seen == r->report.expected)
            return GR_STATUS_OK;
        if (now - start >= a->b)
            return GR_STATUS_TIMEOUT;
        if (now >= r->deadline_us)
            return GR_STATUS_BUDGET;
    }
}

static enum gr_status wait_irq(const struct gr_replayer *r, const struct gr_action *a)
{
    const uint64_t now = gr_port_now_us();
    const uint64_t left = r->deadline_us > now ? r->deadline_us - now : 0;
    if (gr_port_wait_irq(a->arg, a->value < left ? a->value : (uint32_t)left))
        return GR_STATUS_OK;
    return a->value < left ? GR_STATUS_NO_IRQ : GR_STATUS_BUDGET;
}

static enum gr_status interval(const struct gr_replayer *r, uint32_t us)
{
    const uint64_t start = gr_port_now_us();
    for (uint64_t now = start; now - start < us; now = gr_port_now_us()) {
        if (now >= r->deadline_us)
            return GR_STATUS_BUDGET;
    }
    return GR_STATUS_OK;
}

static enum gr_status execute(struct gr_replayer *r, const struct gr_action *a)
{
    const enum gr_status status = gr_check_action(r, a);
    if (status != GR_STATUS_OK)
        return status;
    r->report.expected = a->value & a->a;
    switch (a->op) {
    case GR_OP_REG_READ_ONCE:
        r->report.seen = gr_port_read32(a->arg * 4u) & a->a;
        return r->report.seen == r->report.expected ? GR_STATUS_OK : GR_STATUS_DIVERGED;
    case GR_OP_REG_READ_WAIT: return read_wait(r, a);
    case GR_OP_REG_WRITE: {
        uint32_t value = a->value;
        if (a->a != UINT32_MAX)
            value = (value & a->a) | (gr_port_read32(a->arg * 4u) & ~a->a & gr_writable_bits(a->arg));
        return write_register(a->arg, value);
    }
    case GR_OP_REG_READ_KEEP: r->kept[a->b] = gr_port_read32(a->arg * 4u); return GR_STATUS_OK;
    case GR_OP_REG_WRITE_KEPT: return write_register(a->arg, r->kept[a->b]);
    case GR_OP_SET_GPU_PGTABLE: gr_driver_set_table(r); return GR_STATUS_OK;
    case GR_OP_MAP_GPU_MEM: gr_driver_map(r, a->a, a->value, a->b, a->flags); return GR_STATUS_OK;
    case GR_OP_UNMAP_GPU_MEM: gr_driver_unmap(r, a->a, a->value); return GR_STATUS_OK;
    case GR_OP_UPLOAD: memcpy(r->memory.base + a->a, r->memory.base + a->b, a->value); return GR_STATUS_OK;
    case GR_OP_CLEAR: memset(r->memory.base + a->a, 0, a->value); return GR_STATUS_OK;
    case GR_OP_COPY_TO_GPU: return gr_copy_slot(r, a->arg, true);
    case GR_OP_COPY_FROM_GPU: return gr_copy_slot(r, a->arg, false);
    case GR_OP_WAIT_IRQ: return wait_irq(r, a);
    case GR_OP_INTERVAL: return interval(r, a->value);
    case GR_OP_JOB: r->report.jobs++; return GR_STATUS_OK;
    default: return GR_STATUS_OK; /* markers */
    }
}

static enum gr_status execute_range(struct gr_replayer *r, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++) {
        struct gr_action action;
        r->report.action = i;
        if (!gr_action_at(r, i, &action))
            return GR_STATUS_ACTION;
        r->report.op = action.op;
        r->report.offset = gr_action_names(&action);
        const enum gr_status status = execute(r, &action);
        if (status != GR_STATUS_OK)
            return status;
        r->report.actions++;
        if (gr_port_now_us() >= r->deadline_us)
            return GR_STATUS_BUDGET;
    }
    return GR_STATUS_OK;
}

static enum gr_status try_once(struct gr_replayer *r)
{
    r->report.jobs = 0;
    if (!r->started) {
        r->report.phase = GR_PHASE_PROLOGUE;
        r->touched = true;
        gr_driver_reset(r);
        const enum gr_status status = execute_range(r, 0, r->replay_start);
        if (status != GR_STATUS_OK)
            return status;
        r->started = true;
    }
    r->report.phase = GR_PHASE_REPLAY;
    return execute_range(r, r->replay_start, r->action_count);
}

/* Whether a failure is the GPU's doing, so that another try may help; tells a memory fault from other ones.
 */
static bool is_divergence(struct gr_replayer *r)
{
    const enum gr_status status = r->report.status;
    if (status != GR_STATUS_DIVERGED && status != GR_STATUS_TIMEOUT && status != GR_STATUS_NO_IRQ)
        return false;
    const uint32_t fault = gr_driver_fault();
    if (fault) {
        r->report.status = GR_STATUS_FAULT;
        r->report.expected = 0;
        r->report.seen = fault;
    }
    return true;
}

enum gr_status gr_run(struct gr_replayer *r)
{
    if (r->state != GR_STATE_LOADED)
        return r->report.status = GR_STATUS_STATE;
    for (uint32_t i = 0; i < r->slot_count; i++) {
        if (!r->bound[i] && gr_needs_data(r, i)) {
            r->report.offset = i;
            return r->report.status = GR_STATUS_UNBOUND;
        }
    }
    const volatile uint32_t *state = &r->state; /* read once more: a glitch would have to hit twice */
    if (*state != GR_STATE_LOADED)
        return r->report.status = GR_STATUS_FLOW;
    const uint64_t start = gr_port_now_us();
    r->deadline_us = start + r->time_budget_us;
    r->report.retries = 0;
    r->report.actions = 0;
    for (;;) {
        r->report.status = try_once(r);
        r->report.replay_us = gr_port_now_us() - start;
        if (r->report.status == GR_STATUS_OK)
            return GR_STATUS_OK;
        const bool again = is_divergence(r) && r->report.retries < r->retry_limit;
        /* Whatever it was, the GPU does nothing more with the carve-out. */
        gr_driver_reset(r);
        r->started = false;
        if (!again)
            return r->report.status;
        r->report.retries++;
    }
}
