/* What an action may do: the register policy of the profile, and the bounds of the manifest. Every action is
 * checked when the trace is loaded, before the GPU is touched, and once more when it runs. */
#include "gr_target.h"
#include "internal.h"

static const struct gr_register registers[] = {GR_REGISTER_ROWS};

static const struct gr_register *find_register(uint32_t index, uint32_t access)
{
    for (size_t i = 0; i < sizeof registers / sizeof registers[0]; i++) {
        const struct gr_register *row = &registers[i];
        if (index - row->first < row->count)
            return (row->access & access) == access ? row : NULL;
    }
    return NULL;
}

bool gr_may_write(uint32_t index, uint32_t value)
{
    const struct gr_register *row = find_register(index, GR_ACCESS_WRITE);
    return row && (value & ~row->bits) == 0 && (value & row->always) == row->always;
}

uint32_t gr_writable_bits(uint32_t index)
{
    const struct gr_register *row = find_register(index, GR_ACCESS_WRITE);
    return row ? row->bits : 0;
}

bool gr_action_at(const struct gr_replayer *r, uint32_t index, struct gr_action *action)
{
    return gr_action_load(action, gr_aligned(r->actions + (size_t)index * GR_ACTION_BYTES), GR_ACTION_BYTES);
}

static bool is_within(uint64_t at, uint64_t bytes, uint64_t from, uint64_t to)
{
    return at >= from && at <= to && bytes <= to - at;
}

static enum gr_status check_write(const struct gr_action *a)
{
    if (a->a == UINT32_MAX)
        return gr_may_write(a->arg, a->value) ? GR_STATUS_OK : GR_STATUS_REGISTER;
    /* The bits that stay are only known when it runs. */
    return find_register(a->arg, GR_ACCESS_READ | GR_ACCESS_WRITE) &&
                   (a->value & a->a & ~gr_writable_bits(a->arg)) == 0
               ? GR_STATUS_OK
               : GR_STATUS_REGISTER;
}

enum gr_status gr_check_action(const struct gr_replayer *r, const struct gr_action *a)
{
    bool good = true;
    switch (a->op) {
    case GR_OP_REG_READ_ONCE:
    case GR_OP_REG_READ_WAIT:
    case GR_OP_REG_READ_KEEP:
        if (!find_register(a->arg, GR_ACCESS_READ))
            return GR_STATUS_REGISTER;
        if (a->op == GR_OP_REG_READ_ONCE)
            good = !(a->flags & GR_REG_READ_ONCE_IGNORE) || a->a == 0;
        else
            good = a->op == GR_OP_REG_READ_WAIT ? a->b != 0 : a->b < GR_KEEP_SLOTS;
        break;
    case GR_OP_REG_WRITE: return check_write(a);
    case GR_OP_REG_WRITE_KEPT:
        if (!find_register(a->arg, GR_ACCESS_WRITE))
            return GR_STATUS_REGISTER;
        good = a->b < GR_KEEP_SLOTS;
        break;
    case GR_OP_SET_GPU_PGTABLE:
        if (a->arg >= GR_ADDRESS_SPACES)
            return GR_STATUS_RANGE;
        break;
    case GR_OP_MAP_GPU_MEM:
        if (!is_within(a->b, a->value, 0, r->carveout_bytes / GR_PAGE_BYTES))
            return GR_STATUS_RANGE;
        good = a->flags != 0;
        /* fall through */
    case GR_OP_UNMAP_GPU_MEM:
        if (gr_action_address_space(a) >= GR_ADDRESS_SPACES ||
            !is_within(gr_action_va_page(a), a->value, 0, r->va_bytes / GR_PAGE_BYTES))
            return GR_STATUS_RANGE;
        good = good && a->value != 0;
        break;
    case GR_OP_UPLOAD:
        if (!is_within(a->b, a->value, 0, r->image_bytes))
            return GR_STATUS_RANGE;
        /* fall through */
    case GR_OP_CLEAR:
        if (!is_within(a->a, a->value, r->image_bytes, r->carveout_bytes))
            return GR_STATUS_RANGE;
        good = a->value != 0;
        break;
    case GR_OP_COPY_TO_GPU:
    case GR_OP_COPY_FROM_GPU:
        if (a->arg >= r->slot_count)
            return GR_STATUS_RANGE;
        break;
    case GR_OP_WAIT_IRQ: good = a->value != 0; /* fall through */
    case GR_OP_IRQ_ENTER:
    case GR_OP_IRQ_EXIT:
        if (a->arg >= GR_INTERRUPT_LINES)
            return GR_STATUS_RANGE;
        break;
    default: break; /* an unknown opcode does not get here (gr_action_load) */
    }
    return good ? GR_STATUS_OK : GR_STATUS_ACTION;
}
