/* SPDX-License-Identifier: BSD-2-Clause */
/* Of operate.c, all of it, with all operators: any slots that gr_slot_is_valid lets pass, any
 * indices, and page tables that answer otherwise each time. A page has 32 bytes and the carve-out eight
 * pages: what an operator may access of them has a value, and nothing else has one. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "__fc_builtin.h"
#include "driver.h"
#include "gr_target.h"
#include "operands.h"

/* The image, another network's page if there are several, this one's three, and page tables. */
enum {
    PAGE = 32,
    IMAGE_END = 2 * PAGE,
#ifdef GRAMOPHONE_NETWORKS
    WORK_AT = 3 * PAGE,
    WORK_END = 6 * PAGE,
#else
    WORK_AT = IMAGE_END,
    WORK_END = 5 * PAGE,
#endif
    PAGES = 8,
    END = PAGES * PAGE
};
#undef GR_PAGE_BYTES
#define GR_PAGE_BYTES PAGE

enum { SLOTS = 14, ACTIONS = 3, SHAPES = 2 };
static const uint8_t dtypes[] = {GR_DTYPE_FLOAT32, GR_DTYPE_FLOAT16, GR_DTYPE_INT8}; /* of each size */
static uint8_t *memory;
static uint32_t element_bytes, rows_bytes; /* of an element; of all rows, 0: of any */
static bool is_copying;
static uint32_t slots[SLOTS * GR_SLOT_BYTES / 4], actions[ACTIONS * GR_ACTION_BYTES / 4];

/* What may be written has any value already. */
/*@ requires work: memory + WORK_AT <= (uint8_t *)to && (uint8_t *)to + bytes <= memory + WORK_END;
    requires value: \initialized((uint8_t *)from + (0 .. bytes - 1));
    requires apart: to == from ||
      \separated((uint8_t *)to + (0 .. bytes - 1), (uint8_t *)from + (0 .. bytes - 1));
    assigns \result \from to;
*/
void *proof_copy(void *restrict to, const void *restrict from, size_t bytes);
#define memcpy proof_copy
/*@ requires room: \valid((uint8_t *)to + (0 .. bytes - 1));
    assigns ((uint8_t *)to)[0 .. bytes - 1] \from byte;
    assigns \result \from to;
*/
void *memset(void *to, int byte, size_t bytes);
/*@ requires slot: index < SLOTS; assigns \result \from index; */
uint64_t gr_slot_bytes(const struct gr_replayer *r, uint32_t index);
/*@ requires \valid(r); assigns \result \from \nothing; */
enum gr_status gr_settle(struct gr_replayer *r);

static uint32_t any(void)
{
    return Frama_C_unsigned_int_interval(0, UINT32_MAX);
}

uint64_t gr_port_now_us(void)
{
    return Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
}

/* Nothing, or a place in any page, or in one behind the carve-out, as far from the page's beginning as the
 * address is (proved of V3D, and admitted of the Mali). */
uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va)
{
    (void)r;
    (void)space;
    if (Frama_C_interval(0, 1))
        return UINT64_MAX;
    return (uint64_t)Frama_C_interval(0, 2 * PAGES) * PAGE + va % PAGE;
}

#ifdef GRAMOPHONE_NETWORKS
/* The image's pages that are the network's: any of them. */
bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end)
{
    (void)r;
    if (first >= end || end > IMAGE_END)
        return false;
    return Frama_C_interval(0, 1);
}
#endif

/* Eva keeps the limits of words that are read at once; the format's loads go byte by byte. */
static uint32_t word(const uint8_t *p)
{
    return *(const uint32_t *)p;
}
static uint64_t two_words(const uint8_t *p)
{
    return *(const uint64_t *)p;
}
#define gr_load32 word
#define gr_load64 two_words

/* Operators lie in other files: any accesses, in front of each. */
static void access_any(struct gr_work *w);
#define GR_WITH_FLOATS(work) (access_any(&w), (work))

/*@ predicate may_lie(uint8_t *at, integer bytes, integer to_write) =
      memory + WORK_AT <= at <= memory + WORK_END - bytes ||
      (to_write == 0 && memory <= at <= memory + IMAGE_END - bytes);
*/
#include "shipped/operate.c"

static void set(uint32_t slot, uint32_t at, uint32_t value)
{
    slots[(slot * GR_SLOT_BYTES + at) / 4] = value;
}

static void set_type(uint32_t slot, uint8_t dtype, uint32_t rank, uint64_t address)
{
    uint8_t *at = (uint8_t *)slots + slot * GR_SLOT_BYTES;
    Frama_C_make_unknown((char *)at, GR_SLOT_BYTES);
    at[GR_SLOT_AT_DTYPE] = dtype;
    at[GR_SLOT_AT_RANK] = (uint8_t)rank;
    *(uint64_t *)(at + GR_SLOT_AT_ADDRESS) = address;
}

/* A slot of any place, dimensions and strides. */
static void set_any(uint32_t slot, uint8_t dtype, uint32_t bytes)
{
    set_type(slot, dtype, Frama_C_interval(1, GR_MAX_RANK),
             Frama_C_unsigned_long_long_interval(0, ((uint64_t)1 << GR_VA_BITS) / bytes) * bytes);
    //@ loop unroll GR_MAX_RANK;
    for (uint32_t i = 0; i < GR_MAX_RANK; i++) {
        set(slot, GR_SLOT_AT_DIMS + 4 * i, any());
        set(slot, GR_SLOT_AT_STRIDES + 4 * i, Frama_C_unsigned_int_interval(1, UINT32_MAX / bytes) * bytes);
    }
}

/* Whatever was done, the same state follows. */
static void forget(struct gr_replayer *r)
{
    Frama_C_make_unknown((char *)r, sizeof *r);
    Frama_C_make_unknown((char *)actions, sizeof actions);
    Frama_C_make_unknown((char *)memory, IMAGE_END);
    Frama_C_make_unknown((char *)memory + WORK_AT, WORK_END - WORK_AT);
    r->memory.base = memory;
    r->image_end = IMAGE_END;
    r->actions = (const uint8_t *)actions;
    r->slots = (const uint8_t *)slots;
#ifdef GRAMOPHONE_NETWORKS
    r->network = 0;
    r->networks[0] = (struct gr_own){.work_at = WORK_AT,
                                     .work_end = WORK_END,
                                     .end_slot = SLOTS,
                                     .first_action = 0,
                                     .end_action = ACTIONS};
#else
    r->slot_count = SLOTS;
    r->action_count = ACTIONS;
    r->carveout_bytes = WORK_END;
#endif
}

/* A page as it was looked up before, whichever; 0: none. */
static void remember(struct gr_work *w, uint32_t operand, uint32_t page)
{
    w->status = GR_STATUS_OK;
    w->accesses = Frama_C_unsigned_int_interval(0, UINT32_MAX);
    w->operands[operand].page = 1;
    if (page) {
        w->operands[operand].page =
            Frama_C_unsigned_long_long_interval(0, ((uint64_t)1 << GR_VA_BITS) / PAGE) * PAGE;
        w->operands[operand].at = memory + (page - 1) * PAGE;
    }
}

static void access_any(struct gr_work *w)
{
    gr_repetitions(w);
    gr_goes_on(w);
    //@ loop unroll GR_MAX_OPERANDS;
    for (uint32_t i = 0; i < w->count && !is_copying; i++) {
        gr_size(w, i, Frama_C_unsigned_int_interval(0, GR_MAX_RANK - 1));
        gr_row_step(w, i);
        if (i && i + 1 < w->count)
            continue; /* the first and the last are enough */
        remember(w, i, 0);
        gr_rows(w, i, any(), any(), Frama_C_interval(0, 1));
        remember(w, i, 0);
        gr_get(w, i, any(), any(), any(), any());
        remember(w, i, 0);
        gr_put(w, i, any(), any(), any(), any());
        remember(w, i, 0);
    }
    gr_get(w, Frama_C_unsigned_int_interval(w->count, UINT32_MAX), 0, 0, 0, 0);
    w->status = Frama_C_nondet(GR_STATUS_OK, GR_STATUS_BUDGET);
    gr_rows(w, Frama_C_unsigned_int_interval(w->count, UINT32_MAX), 1, 1, false);
    w->status = GR_STATUS_OK;
}

/* Slots of any place and shape, and an action that works with so many of them. */
static void run(struct gr_replayer *r, uint32_t op, uint32_t first, uint32_t count)
{
    struct gr_action a;
    forget(r);
    element_bytes = 4;
    /* Elements of four bytes, as all operators have them but for the one that copies. */
    //@ loop unroll SLOTS;
    for (uint32_t i = 0; i < SLOTS; i++)
        set_any(i, (uint8_t)Frama_C_interval(1, GR_DTYPE_UINT8), element_bytes);
    Frama_C_make_unknown((char *)&a, sizeof a);
    a.value = op;
    a.a = count;
    gr_check_operator(r, &a, Frama_C_unsigned_int_interval(0, ACTIONS - 1)); /* of any slots */
    a.arg = (uint16_t)first;
    if (gr_check_operator(r, &a, Frama_C_unsigned_int_interval(0, ACTIONS - 1)) != GR_STATUS_OK)
        return;
    //@ assert slots: first + count <= SLOTS;
    //@ assert operands: count <= GR_MAX_OPERANDS;
    if (op != GR_OPERATOR_COPY)
        gr_operate(r, &a);
}

static void run_each(struct gr_replayer *r)
{
    struct gr_action a;
    //@ loop unroll 32;
    for (uint32_t i = 0; i <= sizeof operator_types / sizeof operator_types[0]; i++) {
        const uint32_t op = i ? operator_types[i - 1].op : 0;
        //@ loop unroll GR_MAX_OPERANDS + 2;
        for (uint32_t count = 0; count <= GR_MAX_OPERANDS + 1; count++) {
            run(r, op, SLOTS - count, count); /* the last ones */
            run(r, op, SLOTS - count + 1, count);
        }
        /* More of them are refused by each of the two. */
        Frama_C_make_unknown((char *)&a, sizeof a);
        a.value = op;
        a.a = Frama_C_unsigned_int_interval(GR_MAX_OPERANDS + 1, UINT32_MAX);
        const enum gr_status status = gr_check_operator(r, &a, Frama_C_unsigned_int_interval(0, ACTIONS - 1));
        //@ assert refused: status != GR_STATUS_OK;
        gr_operate(r, &a);
    }
}

/* An operand of any place and shape, of elements of each size; what the latest look-up found is any page. */
static void access_each(struct gr_replayer *r)
{
    //@ loop unroll 3;
    for (uint32_t i = 0; i < sizeof dtypes; i++) {
        //@ loop unroll PAGES + 1;
        for (uint32_t page = 0; page <= PAGES; page++) {
            //@ loop unroll 4;
            for (uint32_t written = 0; written < 4; written++) {
                const uint32_t index[GR_MAX_RANK] = {any(), any(), any(), any(), any(), any()};
                struct gr_work w = {.r = r, .count = 1};
                forget(r);
                element_bytes = gr_dtype_bytes(dtypes[i]);
                set_any(0, dtypes[i], element_bytes);
                w.operands[0].slot = (const uint8_t *)slots;
                w.operands[0].is_written = written % 2;
                remember(&w, 0, page);
                element(&w, 0, index, written / 2);
            }
        }
    }
}

/* Slots of six elements, the first three at a page's end: in one piece, and in two rows that are apart. */
static void set_shape(uint32_t slot, uint8_t dtype, uint32_t shape)
{
    static const uint32_t ranks[] = {1, 2}, dims[][2] = {{6}, {2, 3}}, strides[][2] = {{1}, {4, 1}};
    const uint32_t bytes = gr_dtype_bytes(dtype);
    set_type(slot, dtype, ranks[shape], PAGE - 3 * bytes);
    //@ loop unroll 2;
    for (uint32_t i = 0; i < 2; i++) {
        set(slot, GR_SLOT_AT_DIMS + 4 * i, dims[shape][i]);
        set(slot, GR_SLOT_AT_STRIDES + 4 * i, strides[shape][i] * bytes);
    }
}

static void copy_each(struct gr_replayer *r)
{
    struct gr_action a = {.op = GR_OP_OPERATE, .value = GR_OPERATOR_COPY, .a = 2};
    is_copying = true;
    //@ loop unroll 3;
    for (uint32_t i = 0; i < sizeof dtypes; i++) {
        //@ loop unroll SHAPES;
        for (uint32_t to = 0; to < SHAPES; to++) {
            forget(r);
            element_bytes = gr_dtype_bytes(dtypes[i]);
            set_shape(0, dtypes[i], to);
            set_shape(1, dtypes[i], (to + i) % SHAPES);
            gr_operate(r, &a);
        }
    }
    is_copying = false;
}

/* Rows of floats, dense or apart; those that are no operand's as well. */
static void have_rows(struct gr_replayer *r, uint32_t rank, uint32_t rows, uint32_t columns, uint32_t step)
{
    //@ loop unroll 4;
    for (uint32_t place = 0; place < 4; place++) {
        //@ loop unroll 2;
        for (uint32_t is_written = 0; is_written < 2; is_written++) {
            struct gr_work w = {.r = r, .count = 1};
            forget(r);
            set_type(0, GR_DTYPE_FLOAT32, rank, 3 * PAGE + place * 8);
            set(0, GR_SLOT_AT_DIMS, rank == 2 ? rows : columns);
            set(0, GR_SLOT_AT_STRIDES, rank == 2 ? step : 4);
            set(0, GR_SLOT_AT_DIMS + 4, columns);
            set(0, GR_SLOT_AT_STRIDES + 4, 4);
            rows_bytes = (rows - 1) * step + columns * 4;
            w.operands[0].slot = (const uint8_t *)slots;
            w.operands[0].is_written = is_written;
            w.operands[0].is_packed = Frama_C_interval(0, 1);
            remember(&w, 0, 0);
            gr_rows(&w, 0, rows, columns, Frama_C_interval(0, 1));
            rows_bytes = 0;
        }
    }
}

static void have_each(struct gr_replayer *r)
{
    //@ loop unroll 32;
    for (uint32_t columns = 1; columns <= 25; columns++)
        have_rows(r, 1, 1, columns, 4);
    //@ loop unroll 4;
    for (uint32_t rows = 1; rows <= 4; rows++) {
        //@ loop unroll 8;
        for (uint32_t columns = 1; columns <= 8; columns++) {
            have_rows(r, 2, rows, columns, columns * 4);
            have_rows(r, 2, rows, columns, (columns * 4 + 15) / 16 * 16);
            have_rows(r, 2, rows, columns, (columns * 4 + 31) / 16 * 16);
        }
    }
}

int main(void)
{
    uint8_t carveout[END];
    struct gr_replayer r;
    memory = carveout;
    have_each(&r);
    access_each(&r);
    copy_each(&r);
    run_each(&r);
    return 0;
}
