/* SPDX-License-Identifier: BSD-2-Clause */
/* What an action may do: the register policy of the profile, and the bounds of the manifest. Every action is
 * checked when the trace is loaded, before the GPU is touched, and once more when it runs. */
#include "gr_target.h"
#include "internal.h"

/* What each opcode needs (GR_NEED_*), from the action table. Opcodes come in groups, 16 apart. */
#define AT(op) (((op) >> 4) * GR_OP_GROUP + ((op)&15))
#define NEEDS_OF(op, bits) [AT(op)] = (bits),
static const uint16_t needs[] = {GR_OP_NEEDS(NEEDS_OF)};

/* From the highest index down; the last row has no register, and ends every search. */
static const struct gr_register registers[] = {GR_REGISTER_ROWS};
static const struct gr_limits limits[] = {GR_REGISTER_LIMITS};
_Static_assert(GR_NEED_READS == GR_ACCESS_READ && GR_NEED_WRITES == GR_ACCESS_WRITE, "the same bits");

const struct gr_limits *gr_find_register(uint32_t index, uint32_t access)
{
    index = GR_FIRST_OF_BLOCK(index); /* the same registers in other places have the same rights */
    const struct gr_register *row = registers;
    while (row->first > index)
        row++;
    return index - row->first < row->count && (row->access & access) == access ? &limits[row->limits] : NULL;
}

/* `count` items that start at `first` lie below `end`. */
static bool is_below(uint64_t first, uint64_t count, uint64_t end)
{
    return first + count <= end; /* no overflow: both are at most 44 bits wide */
}

/* The image is what was signed, and stays so: no mapping lets the GPU write to it. Where page tables can
 * forbid execution, only the image can be executed, so nothing that was not signed: no input, no result. */
static bool may_map(const struct gr_replayer *r, const struct gr_action *a)
{
    const uint64_t image_pages = r->image_end / GR_PAGE_BYTES;
    if (!gr_maps_own(r, a) || (a->flags & GR_MAP_GPU_MEM_WRITE && a->b < GR_READ_ONLY_END(r) / GR_PAGE_BYTES))
        return false;
    return !GR_MMU_FORBIDS_EXECUTION || !(a->flags & GR_MAP_GPU_MEM_EXECUTE) ||
           is_below(a->b, a->value, image_pages);
}

enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *a)
{
    *a = gr_action_at(r, index);
    const uint32_t op = a->op, arg = a->arg;
    r->report.action = index;
    r->report.op = op;
    r->report.offset = arg;
    r->limits = NULL;
    if (!gr_is_own_action(r, index) || (op & 15) >= GR_OP_GROUP || AT(op) >= sizeof needs / sizeof needs[0] ||
        !needs[AT(op)] || !gr_action_valid(a))
        return GR_STATUS_ACTION;
    const uint32_t need = needs[AT(op)];
    if (need & (GR_NEED_READS | GR_NEED_WRITES)) {
        /* A write under a partial mask keeps the other bits. */
        const struct gr_limits *row = gr_find_register(arg, need & GR_NEED_SETS_BITS && ~a->a
                                                                ? GR_NEED_READS | GR_NEED_WRITES
                                                                : need & (GR_NEED_READS | GR_NEED_WRITES));
        r->report.offset = arg * 4;
        if (!row ||
            (need & GR_NEED_SETS_BITS && a->a & ((a->value & ~row->bits) | (~a->value & row->always))))
            return GR_STATUS_REGISTER;
        if (need & GR_NEED_WRITES)
            r->limits = row;
    }
    if ((need & GR_NEED_HAS_VALUE && a->value == 0) || (need & GR_NEED_HAS_TIMEOUT && a->b == 0) ||
        (need & GR_NEED_KEEPS && a->b >= GR_KEEP_SLOTS) || (op == GR_OP_REG_READ_ONCE && a->flags && a->a) ||
        (op == GR_OP_MAP_GPU_MEM && !a->flags))
        return GR_STATUS_ACTION;
    const uint32_t space = need & GR_NEED_HAS_VA ? gr_action_address_space(a) : arg;
    if ((need & GR_NEED_HAS_SPACE && space >= GR_ADDRESS_SPACES) ||
        (need & GR_NEED_HAS_VA && !is_below(gr_action_va_page(a), a->value, r->va_bytes / GR_PAGE_BYTES)) ||
        (need & GR_NEED_HAS_PAGES && !is_below(a->b, a->value, r->carveout_bytes / GR_PAGE_BYTES)) ||
        (need & GR_NEED_FROM_IMAGE &&
         (!is_below(a->b, a->value, r->image_bytes) || !gr_may_read(r, a->b, (uint64_t)a->b + a->value))) ||
        (need & GR_NEED_TO_MEMORY && (a->a < GR_WORK_AT(r) || !is_below(a->a, a->value, GR_WORK_END(r)))) ||
        (need & GR_NEED_HAS_SLOT && !GR_IS_OWN_SLOT(r, arg)) ||
        (need & GR_NEED_HAS_LINE && arg >= GR_INTERRUPT_LINES) || (op == GR_OP_MAP_GPU_MEM && !may_map(r, a)))
        return GR_STATUS_RANGE;
    return need & GR_NEED_OPERATES ? gr_check_operator(r, a, index) : gr_check_stream(r, a);
}
