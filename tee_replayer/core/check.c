/* What an action may do: the register policy of the profile, and the bounds of the manifest. Every action is
 * checked when the trace is loaded, before the GPU is touched, and once more when it runs. */
#include "gr_target.h"
#include "internal.h"

/* What each opcode asks for. */
enum {
    READS = 1,          /* `arg` is a register that may be read */
    WRITES = 2,         /* `arg` is a register that may be written */
    KEEPS = 4,          /* `b` is a kept value */
    HAS_VALUE = 8,      /* `value` (pages, bytes, a timeout) is not zero */
    HAS_TIMEOUT = 0x10, /* `b` is not zero */
    HAS_SPACE = 0x20,   /* `arg` is an address space and a part of a virtual page */
    HAS_VA = 0x40,      /* `value` virtual pages from a page on */
    HAS_PAGES = 0x80,   /* `value` carve-out pages from `b` on */
    FROM_IMAGE = 0x100, /* `value` bytes of the image from `b` on */
    TO_MEMORY = 0x200,  /* `value` bytes behind the image from `a` on */
    HAS_SLOT = 0x400,   /* `arg` is a slot */
    HAS_LINE = 0x800,   /* `arg` is an interrupt line */
    SETS_BITS = 0x1000, /* those of `value` under the mask `a` */
    KNOWN = 0x8000,     /* there is such an opcode */
};
/* Opcodes come in groups of at most six, 16 apart. */
#define GROUP 6
#define AT(op) (((op) >> 4) * GROUP + ((op)&15))
static const uint16_t needs[] = {
    [AT(GR_OP_REG_READ_ONCE)] = KNOWN | READS,
    [AT(GR_OP_REG_READ_WAIT)] = KNOWN | READS | HAS_TIMEOUT,
    [AT(GR_OP_REG_WRITE)] = KNOWN | WRITES | SETS_BITS,
    [AT(GR_OP_REG_READ_KEEP)] = KNOWN | READS | KEEPS,
    [AT(GR_OP_REG_WRITE_KEPT)] = KNOWN | WRITES | KEEPS,
    [AT(GR_OP_SET_GPU_PGTABLE)] = KNOWN | HAS_SPACE,
    [AT(GR_OP_MAP_GPU_MEM)] = KNOWN | HAS_SPACE | HAS_VALUE | HAS_VA | HAS_PAGES,
    [AT(GR_OP_UNMAP_GPU_MEM)] = KNOWN | HAS_SPACE | HAS_VALUE | HAS_VA,
    [AT(GR_OP_UPLOAD)] = KNOWN | HAS_VALUE | FROM_IMAGE | TO_MEMORY,
    [AT(GR_OP_CLEAR)] = KNOWN | HAS_VALUE | TO_MEMORY,
    [AT(GR_OP_COPY_TO_GPU)] = KNOWN | HAS_SLOT,
    [AT(GR_OP_COPY_FROM_GPU)] = KNOWN | HAS_SLOT,
    [AT(GR_OP_WAIT_IRQ)] = KNOWN | HAS_VALUE | HAS_LINE,
    [AT(GR_OP_IRQ_ENTER)] = KNOWN | HAS_LINE,
    [AT(GR_OP_IRQ_EXIT)] = KNOWN | HAS_LINE,
    [AT(GR_OP_INTERVAL)] = KNOWN,
    [AT(GR_OP_JOB)] = KNOWN,
    [AT(GR_OP_REPLAY_START)] = KNOWN,
};

static const struct gr_register registers[] = {GR_REGISTER_ROWS};
static const struct gr_limits limits[] = {GR_REGISTER_LIMITS};
_Static_assert(READS == GR_ACCESS_READ && WRITES == GR_ACCESS_WRITE, "the same bits");

/* What a write may do; NULL when the register does not allow all of `access`. */
static const struct gr_limits *find_register(uint32_t index, uint32_t access)
{
    index = GR_FIRST_OF_BLOCK(index); /* the same registers in other places have the same rights */
    uint32_t low = 0, high = sizeof registers / sizeof registers[0];
    while (high - low > 1) { /* the row, if there is one, is in [low, high) */
        const uint32_t middle = (low + high) / 2;
        if (registers[middle].first <= index)
            low = middle;
        else
            high = middle;
    }
    const struct gr_register row = registers[low];
    return index - row.first < row.count && (row.access & access) == access ? &limits[row.limits] : NULL;
}

/* `count` items from `first` on lie below `end`. */
static bool is_below(uint64_t first, uint64_t count, uint64_t end)
{
    return first + count <= end; /* no overflow: both are at most 44 bits wide */
}

enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *a)
{
    *a = gr_action_at(r, index);
    const uint32_t op = a->op, arg = a->arg;
    r->report.action = index;
    r->report.op = op;
    r->report.offset = arg;
    r->limits = NULL;
    if ((op & 15) >= GROUP || AT(op) >= sizeof needs / sizeof needs[0] || !needs[AT(op)])
        return GR_STATUS_ACTION;
    const uint32_t need = needs[AT(op)];
    if (need & (READS | WRITES)) {
        /* A write under a partial mask keeps the other bits. */
        const struct gr_limits *row =
            find_register(arg, need & SETS_BITS && ~a->a ? READS | WRITES : need & (READS | WRITES));
        r->report.offset = arg * 4;
        if (!row || (need & SETS_BITS && a->value & a->a & ~row->bits))
            return GR_STATUS_REGISTER;
        if (need & WRITES)
            r->limits = row;
    }
    if ((need & HAS_VALUE && a->value == 0) || (need & HAS_TIMEOUT && a->b == 0) ||
        (need & KEEPS && a->b >= GR_KEEP_SLOTS))
        return GR_STATUS_ACTION;
    if ((need & HAS_SPACE && gr_action_address_space(a) >= GR_ADDRESS_SPACES) ||
        (need & HAS_VA && !is_below(gr_action_va_page(a), a->value, r->va_bytes / GR_PAGE_BYTES)) ||
        (need & HAS_PAGES && !is_below(a->b, a->value, r->carveout_bytes / GR_PAGE_BYTES)) ||
        (need & FROM_IMAGE && !is_below(a->b, a->value, r->image_bytes)) ||
        (need & TO_MEMORY && (a->a < r->image_bytes || !is_below(a->a, a->value, r->carveout_bytes))) ||
        (need & HAS_SLOT && arg >= r->slot_count) || (need & HAS_LINE && arg >= GR_INTERRUPT_LINES))
        return GR_STATUS_RANGE;
    return GR_STATUS_OK;
}
