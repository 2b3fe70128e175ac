/* SPDX-License-Identifier: BSD-2-Clause */
/* Operators on the CPU: their operands are checked as the format's table of operators says, when the trace is
 * loaded and each time an operator runs. Each access goes through the page table and is checked by itself.
 * There is none of this in a replayer without operators. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"
#include "operands.h"

struct gr_operand {
    const uint8_t *slot;
    uint64_t page; /* virtual address of the page that `at` is, 1 for none */
    uint8_t *at;
    bool is_written, is_packed;
};

struct gr_work {
    struct gr_replayer *r;
    enum gr_status status; /* the first failure */
    uint32_t first, count, repetitions, accesses;
    struct gr_operand operands[GR_MAX_OPERANDS];
};

#ifndef GR_WITH_FLOATS /* around work in floating point; a platform that must allow it has its own */
#define GR_WITH_FLOATS(work) work
#endif

#define OPERANDS_OF(NAME, name) GR_OPERANDS_##NAME,
/* cppcheck-suppress syntaxError ; it takes the macro for one without arguments */
static const struct gr_operator_type operator_types[] = {GRAMOPHONE_OPERATORS(OPERANDS_OF)};
#define OR_HAS_PACKED(NAME, name) || GR_HAS_PACKED_##NAME
/* Whether any of these operators has packed operands: what asks for one is not there otherwise. */
static const bool has_packed = 0 GRAMOPHONE_OPERATORS(OR_HAS_PACKED);
#define DECLARED(NAME, name) void gr_operator_##name(struct gr_work *w);
GRAMOPHONE_OPERATORS(DECLARED)

static const struct gr_operator_type *operator_type(uint32_t op)
{
    for (uint32_t i = 0; i < sizeof operator_types / sizeof operator_types[0]; i++) {
        if (operator_types[i].op == op)
            return &operator_types[i];
    }
    return NULL;
}

static const uint8_t *operand_slot(const struct gr_replayer *r, uint32_t index)
{
    return gr_aligned(r->slots + (size_t)index * GR_SLOT_BYTES);
}

GR_INLINE uint32_t operand_dimension(const uint8_t *slot, uint32_t i)
{
    return gr_load32(slot + GR_SLOT_AT_DIMS + 4 * i);
}

GR_INLINE uint32_t operand_stride(const uint8_t *slot, uint32_t i)
{
    return gr_load32(slot + GR_SLOT_AT_STRIDES + 4 * i);
}

/* Where a slot ends. No overflow: it is at most va_bytes (gr_slot_is_valid). */
static uint64_t operand_end(const uint8_t *slot)
{
    uint64_t end = gr_load64(slot + GR_SLOT_AT_ADDRESS) + gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]);
    for (uint32_t i = 0; i < slot[GR_SLOT_AT_RANK]; i++)
        end += (uint64_t)(operand_dimension(slot, i) - 1) * operand_stride(slot, i);
    return end;
}

static bool is_apart(const uint8_t *a, const uint8_t *b)
{
    return gr_load16(a + GR_SLOT_AT_ADDRESS_SPACE) != gr_load16(b + GR_SLOT_AT_ADDRESS_SPACE) ||
           operand_end(a) <= gr_load64(b + GR_SLOT_AT_ADDRESS) ||
           operand_end(b) <= gr_load64(a + GR_SLOT_AT_ADDRESS);
}

/* Whether elements of a row touch, and each row begins where vectors can be loaded from a device's memory; of
 * a packed operand the first row only. */
static bool has_aligned_rows(const uint8_t *slot, bool is_packed)
{
    const uint32_t last = slot[GR_SLOT_AT_RANK] - 1u;
    uint64_t places = gr_load64(slot + GR_SLOT_AT_ADDRESS);
    for (uint32_t i = 0; i < last && !(has_packed && is_packed); i++)
        places |= operand_stride(slot, i);
    return operand_stride(slot, last) == gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]) &&
           places % GR_ROW_ALIGNMENT == 0;
}

/* Whether a slot is such an operand. `first` is the first operand's; `sizes` are those that have names, 0
 * where it is not known yet. */
static bool fits(const struct gr_operand_type *type, const uint8_t *slot, const uint8_t *first,
                 uint32_t *sizes)
{
    const uint32_t kind = slot[GR_SLOT_AT_KIND];
    if (type->flags & GR_OPERAND_WRITTEN && kind != GR_SLOT_KIND_INTERNAL &&
        (kind != GR_SLOT_KIND_OUTPUT || type->flags & GR_OPERAND_SCRATCH))
        return false;
    if (slot[GR_SLOT_AT_DTYPE] != (type->dtype ? type->dtype : first[GR_SLOT_AT_DTYPE]) ||
        (type->rank && slot[GR_SLOT_AT_RANK] != type->rank))
        return false;
    for (uint32_t i = 0; i < type->rank; i++) {
        const uint32_t found = operand_dimension(slot, i);
        uint32_t wanted = type->dims[i];
        if (wanted & GR_SIZE_NAMED) {
            uint32_t *size = &sizes[wanted % GR_SIZES];
            if (!*size)
                *size = found;
            wanted = *size;
        }
        if (found != wanted)
            return false;
    }
    return !(type->flags & GR_OPERAND_WHOLE) || has_aligned_rows(slot, type->flags & GR_OPERAND_PACKED);
}

static bool is_beside(const struct gr_action *a)
{
    return a->op == GR_OP_OPERATE && a->flags & GR_OPERATE_BESIDE;
}

/* Whether an action lies between the one that starts a job and the wait for it, or among others that do. */
static bool is_in_place(const struct gr_replayer *r, uint32_t index)
{
    if (index == GR_FIRST_ACTION(r) || index + 1 >= GR_END_ACTION(r))
        return false;
    const struct gr_action before = gr_action_at(r, index - 1), after = gr_action_at(r, index + 1);
    const bool starts = before.op == GR_OP_REG_WRITE && before.value && GR_STARTS_JOB(before.arg);
    return (starts || is_beside(&before)) && (after.op == GR_OP_WAIT_IRQ || is_beside(&after));
}

enum gr_status gr_check_operator(const struct gr_replayer *r, const struct gr_action *a, uint32_t index)
{
    const struct gr_operator_type *op = operator_type(a->value);
    if (is_beside(a) && !is_in_place(r, index))
        return GR_STATUS_ACTION;
    const uint32_t first = a->arg, count = a->a;
    if (!op || count < op->fixed)
        return GR_STATUS_ACTION;
    const uint32_t more = count - op->fixed, repetitions = op->repeated ? more / op->repeated : 0;
    if (more != repetitions * op->repeated || repetitions < op->least || repetitions > op->most)
        return GR_STATUS_ACTION;
    if (first + count > GR_END_SLOT(r))
        return GR_STATUS_RANGE;
    uint32_t sizes[GR_SIZES] = {0};
    uint64_t rows = 0, cells = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t in_group = i < op->fixed ? i : op->fixed + (i - op->fixed) % op->repeated;
        const struct gr_operand_type *type = &op->operands[in_group];
        const uint8_t *slot = operand_slot(r, first + i);
        if (i >= op->fixed && in_group == op->fixed)
            memset(&sizes[GR_SIZE_LOCAL], 0, sizeof sizes - GR_SIZE_LOCAL * sizeof sizes[0]);
        if (!fits(type, slot, operand_slot(r, first), sizes) ||
            (is_beside(a) && type->flags & GR_OPERAND_WRITTEN &&
             slot[GR_SLOT_AT_KIND] != GR_SLOT_KIND_INTERNAL) ||
            (!type->rank && gr_slot_bytes(r, first + i) != gr_slot_bytes(r, first)))
            return GR_STATUS_ACTION;
        if (type->flags & GR_OPERAND_ROWS)
            rows += operand_dimension(slot, 0);
        if (type->flags & GR_OPERAND_CELLS)
            cells += (uint64_t)operand_dimension(slot, 0) * operand_dimension(slot, 2) *
                     operand_dimension(slot, 3);
    }
    if (cells > rows)
        return GR_STATUS_ACTION;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t in_group = i < op->fixed ? i : op->fixed + (i - op->fixed) % op->repeated;
        for (uint32_t k = 0; k < count; k++) {
            if (op->operands[in_group].flags & GR_OPERAND_WRITTEN && i != k &&
                !is_apart(operand_slot(r, first + i), operand_slot(r, first + k)))
                return GR_STATUS_RANGE;
        }
    }
    return GR_STATUS_OK;
}

static uint8_t *failed(struct gr_work *w, enum gr_status status)
{
    if (w->status == GR_STATUS_OK)
        w->status = status;
    return NULL;
}

/* Where an element lies, by its indices; NULL when it may not be accessed. What was checked when the page was
 * looked up is checked once more before a write. */
static uint8_t *element(struct gr_work *w, uint32_t operand, const uint32_t *index, bool to_write)
{
    const struct gr_replayer *r = w->r;
    if (w->status != GR_STATUS_OK || operand >= w->count)
        return failed(w, GR_STATUS_RANGE);
    struct gr_operand *o = &w->operands[operand];
    if (to_write && !o->is_written)
        return failed(w, GR_STATUS_RANGE);
    uint64_t va = gr_load64(o->slot + GR_SLOT_AT_ADDRESS);
    for (uint32_t i = 0; i < o->slot[GR_SLOT_AT_RANK]; i++) {
        if (index[i] >= operand_dimension(o->slot, i))
            return failed(w, GR_STATUS_RANGE);
        va += (uint64_t)index[i] * operand_stride(o->slot, i);
    }
    const uint64_t inside = va % GR_PAGE_BYTES; /* no element lies in two pages: its size divides `va` */
    if (va - inside != o->page) {
        const uint64_t place =
            gr_driver_translate(r, gr_load16(o->slot + GR_SLOT_AT_ADDRESS_SPACE), va - inside);
        if (place >= GR_WORK_END(r) ||
            (place < GR_WORK_AT(r) && (o->is_written || !gr_reaches(r, place, place + 1))))
            return failed(w, GR_STATUS_RANGE);
        o->page = va - inside;
        o->at = r->memory.base + place;
    }
    uint8_t *at = o->at + inside;
    const uint64_t offset = (uint64_t)(at - r->memory.base);
    if (offset >= GR_WORK_END(r) ||
        (offset < GR_WORK_AT(r) && (to_write || !gr_reaches(r, offset, offset + 1))))
        return failed(w, GR_STATUS_RANGE);
    if (++w->accesses % GR_ROUNDS_A_LOOK == 0 && gr_port_now_us() >= r->deadline_us)
        return failed(w, GR_STATUS_BUDGET);
    return at;
}

uint32_t gr_repetitions(const struct gr_work *w)
{
    return w->repetitions;
}

uint32_t gr_size(const struct gr_work *w, uint32_t operand, uint32_t dimension)
{
    return operand_dimension(w->operands[operand].slot, dimension);
}

bool gr_goes_on(struct gr_work *w)
{
    if (gr_port_now_us() >= w->r->deadline_us)
        failed(w, GR_STATUS_BUDGET);
    return w->status == GR_STATUS_OK;
}

/* Whether an operator may access these bytes of the carve-out. */
static bool may_access(const struct gr_replayer *r, uint64_t first, uint64_t end, bool to_write)
{
    return first < end &&
           ((first >= GR_WORK_AT(r) && end <= GR_WORK_END(r)) || (!to_write && gr_reaches(r, first, end)));
}

/* Whether a slot has so many rows of so many elements of four bytes. */
static bool has_rows(const uint8_t *slot, uint32_t rows, uint32_t columns)
{
    const uint32_t last = slot[GR_SLOT_AT_RANK] - 1u;
    return last < 2 && gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]) == 4 && columns &&
           operand_dimension(slot, last) == columns && rows == (last ? operand_dimension(slot, 0) : 1u);
}

/* Pages are looked up once; where the operand begins and ends in memory is then found once more. */
void *gr_rows(struct gr_work *w, uint32_t operand, uint32_t rows, uint32_t columns, bool to_write)
{
    const struct gr_replayer *r = w->r;
    if (w->status != GR_STATUS_OK || operand >= w->count)
        return failed(w, GR_STATUS_RANGE);
    const struct gr_operand *o = &w->operands[operand];
    if (o->is_written != to_write || !has_rows(o->slot, rows, columns) ||
        !has_aligned_rows(o->slot, o->is_packed))
        return failed(w, GR_STATUS_RANGE);
    const uint32_t space = gr_load16(o->slot + GR_SLOT_AT_ADDRESS_SPACE);
    const uint64_t va = gr_load64(o->slot + GR_SLOT_AT_ADDRESS), inside = va % GR_PAGE_BYTES;
    const uint64_t bytes = inside + (operand_end(o->slot) - va);
    const uint64_t place = gr_driver_translate(r, space, va - inside);
    if (place >= GR_WORK_END(r) || !may_access(r, place, place + bytes, o->is_written))
        return failed(w, GR_STATUS_RANGE);
    for (uint64_t at = 0; at < bytes; at += GR_PAGE_BYTES) {
        if (gr_driver_translate(r, space, va - inside + at) != place + at)
            return failed(w, GR_STATUS_RANGE);
    }
    const uint8_t *again = operand_slot(r, w->first + operand);
    uint8_t *first = r->memory.base + place + inside;
    const uint64_t offset = (uint64_t)(first - r->memory.base);
    const uint64_t end = offset + (operand_end(again) - gr_load64(again + GR_SLOT_AT_ADDRESS));
    if (!has_rows(again, rows, columns) || !may_access(r, offset, end, to_write) ||
        gr_driver_translate(r, space, gr_load64(again + GR_SLOT_AT_ADDRESS)) != offset)
        return failed(w, GR_STATUS_RANGE);
    return first;
}

uint32_t gr_row_step(const struct gr_work *w, uint32_t operand)
{
    return operand_stride(w->operands[operand].slot, 0);
}

uint32_t gr_get(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, uint32_t l)
{
    const uint32_t index[GR_MAX_RANK] = {i, j, k, l};
    const uint8_t *at = element(w, operand, index, false);
    return at ? gr_load32(__builtin_assume_aligned(at, 4)) : 0;
}

void gr_put(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, uint32_t bits)
{
    const uint32_t index[GR_MAX_RANK] = {i, j, k};
    uint8_t *at = element(w, operand, index, true);
    if (at)
        memcpy(__builtin_assume_aligned(at, 4), &bits, sizeof bits);
}

/* How many elements lie without a gap, the innermost dimensions' first. */
static uint64_t elements_in_a_row(const uint8_t *slot)
{
    uint64_t elements = 1;
    for (uint32_t i = slot[GR_SLOT_AT_RANK];
         i && operand_stride(slot, i - 1) == elements * gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]); i--)
        elements *= operand_dimension(slot, i - 1);
    return elements;
}

/* Where the element with number `at` in C order lies, NULL when it may not be accessed; `*most` becomes no
 * more than the elements that follow it in its row and its page, itself among them. */
static uint8_t *elements_from(struct gr_work *w, uint32_t operand, uint64_t at, bool to_write, uint64_t *most)
{
    const struct gr_operand *o = &w->operands[operand];
    uint32_t index[GR_MAX_RANK] = {0};
    uint64_t left = at;
    for (uint32_t i = o->slot[GR_SLOT_AT_RANK]; i--; left /= operand_dimension(o->slot, i))
        index[i] = (uint32_t)(left % operand_dimension(o->slot, i));
    uint8_t *first = element(w, operand, index, to_write);
    if (!first)
        return NULL;
    const uint64_t row = elements_in_a_row(o->slot), in_row = row - at % row;
    const uint64_t in_page =
        (GR_PAGE_BYTES - (uint64_t)(first - o->at)) / gr_dtype_bytes(o->slot[GR_SLOT_AT_DTYPE]);
    if (*most > in_row)
        *most = in_row;
    if (*most > in_page)
        *most = in_page;
    return first;
}

void gr_operator_copy(struct gr_work *w)
{
    const uint8_t *to = w->operands[0].slot;
    const uint32_t bytes = gr_dtype_bytes(to[GR_SLOT_AT_DTYPE]);
    uint64_t elements = 1;
    for (uint32_t i = 0; i < to[GR_SLOT_AT_RANK]; i++)
        elements *= operand_dimension(to, i);
    for (uint64_t i = 0, n; i < elements; i += n) {
        n = elements - i;
        const uint8_t *source = elements_from(w, 1, i, false, &n);
        uint8_t *target = elements_from(w, 0, i, true, &n);
        if (!source || !target)
            return;
        /* Apart by address, they may still be one page: then element by element, which are whole or apart. */
        const uint64_t between = (uint64_t)(target > source ? target - source : source - target);
        if (between < n * bytes)
            n = 1;
        memcpy(target, source, (size_t)(n * bytes));
    }
}

enum gr_status gr_operate(struct gr_replayer *r, const struct gr_action *a)
{
    const struct gr_operator_type *op = operator_type(a->value);
    struct gr_work w;
    memset(&w, 0, sizeof w);
    /* Wait for the job: its output may be an operand. The trace may say that the operands are apart; the wait
     * that follows then checks for a fault. */
    const enum gr_status status = a->flags & GR_OPERATE_BESIDE ? GR_STATUS_OK : gr_settle(r);
    if (status != GR_STATUS_OK)
        return status;
    if (!op || a->a > GR_MAX_OPERANDS)
        return GR_STATUS_ACTION;
    w.r = r;
    w.status = GR_STATUS_OK;
    w.first = a->arg;
    w.count = a->a;
    w.repetitions = op->repeated ? (w.count - op->fixed) / op->repeated : 0;
    for (uint32_t i = 0; i < w.count; i++) {
        const uint32_t in_group = i < op->fixed ? i : op->fixed + (i - op->fixed) % op->repeated;
        w.operands[i] = (struct gr_operand){
            .slot = operand_slot(r, a->arg + i),
            .page = 1,
            .is_written = op->operands[in_group].flags & GR_OPERAND_WRITTEN,
            .is_packed = has_packed && op->operands[in_group].flags & GR_OPERAND_PACKED,
        };
    }
    switch (a->value) {
#define CALLED(NAME, name)                                                                                   \
    case GR_OPERATOR_##NAME: GR_WITH_FLOATS(gr_operator_##name(&w)); break;
        GRAMOPHONE_OPERATORS(CALLED)
    default: return GR_STATUS_ACTION;
    }
    return w.status;
}
