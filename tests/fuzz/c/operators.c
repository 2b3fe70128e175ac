/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: operators on the CPU (tee_replayer/features/operators/operate.c,
 * tee_replayer/features/operators). An input: the action (operator, first slot, operands; from 128 on the
 * operator works beside a job, and from 192 on nothing waits for that), slots, pages of the image, a clock's
 * step; a byte for each page of the address space, its frame (255: none; frames behind the carve-out are a
 * driver's mistake); a row for each slot; then what lies behind the image, repeated as often as it takes.
 *
 * What is checked as it is when a trace is loaded and then computed writes what the operator may write and
 * nothing else, and fails for its pages or its time only. What lay there before decides nothing.
 */
#include "driver.h"
#include "gr_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    VA_PAGES = 16,
    FRAMES = 12,
    SLOTS = 16,
    SETUP_BYTES = 6,
    ROW_BYTES = 16,
    MOST_ELEMENTS = 4096,
    CARVEOUT = FRAMES * PAGE,
    DEADLINE = 2000,
    BESIDE = 128,
    NOT_WAITED_FOR = 192,
    BESIDE_STEP = 64,
    SCRATCH = 2, /* operand of those that make boxes */
};

static const uint8_t *pages;
static uint64_t clock_us, clock_step;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void found(const char *promise)
{
    fprintf(stderr, "FINDING: %s\n", promise);
    abort();
}
#define PROMISE(condition, text) ((condition) ? (void)0 : found(text))

uint64_t gr_port_now_us(void)
{
    return clock_us += clock_step;
}

/* No job runs. */
enum gr_status gr_settle(struct gr_replayer *r)
{
    (void)r;
    return GR_STATUS_OK;
}

uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va)
{
    const uint8_t frame = va < r->va_bytes ? pages[(va / PAGE + 5 * space) % VA_PAGES] : 255;
    return frame == 255 ? UINT64_MAX : (uint64_t)frame * PAGE + va % PAGE;
}

static void put(uint8_t *to, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

/* The start of a job, an operator, and the wait for the job, or none. */
static void make_actions(uint8_t *to, const struct gr_action *operate, bool is_waited_for)
{
    memset(to, 0, 3 * GR_ACTION_BYTES);
    to[GR_ACTION_AT_OP] = GR_OP_REG_WRITE;
    uint32_t start = 0;
    while (start < UINT16_MAX && !GR_STARTS_JOB(start))
        start++;
    put(to + GR_ACTION_AT_ARG, start, 2);
    put(to + GR_ACTION_AT_VALUE, 1, 4);
    to += GR_ACTION_BYTES;
    to[GR_ACTION_AT_OP] = operate->op;
    to[GR_ACTION_AT_FLAGS] = operate->flags;
    put(to + GR_ACTION_AT_ARG, operate->arg, 2);
    put(to + GR_ACTION_AT_VALUE, operate->value, 4);
    put(to + GR_ACTION_AT_A, operate->a, 4);
    to[GR_ACTION_BYTES + GR_ACTION_AT_OP] = is_waited_for ? GR_OP_WAIT_IRQ : GR_OP_INTERVAL;
}

/* False: more elements than are tried. */
static bool make_slot(uint8_t *slot, const uint8_t *row, uint32_t index)
{
    const uint8_t dtype = 1 + row[1] % 8, rank = 1 + row[2] % GR_MAX_RANK;
    const uint32_t element = gr_dtype_bytes(dtype);
    uint64_t step = element, elements = 1;
    memset(slot, 0, GR_SLOT_BYTES);
    slot[GR_SLOT_AT_NAME] = (uint8_t)('a' + index);
    slot[GR_SLOT_AT_KIND] = 1 + row[0] % 4;
    slot[GR_SLOT_AT_DTYPE] = dtype;
    slot[GR_SLOT_AT_RANK] = rank;
    put(slot + GR_SLOT_AT_ADDRESS_SPACE, row[3] % GR_ADDRESS_SPACES, 2);
    put(slot + GR_SLOT_AT_ADDRESS, gr_load16(row + 4) / element * element, 8);
    for (uint32_t k = rank; k--;) {
        const uint32_t count = 1 + row[6 + k] % 12;
        step += (uint64_t)(row[12 + k % 4] % 8) * element;
        put(slot + GR_SLOT_AT_DIMS + 4 * k, count, 4);
        put(slot + GR_SLOT_AT_STRIDES + 4 * k, step, 4);
        step *= count;
        elements *= count;
    }
    return elements <= MOST_ELEMENTS;
}

/* Place of an element in the carve-out by its number in C order, or what the driver says instead. */
static uint64_t place_of(const struct gr_replayer *r, const uint8_t *slot, uint64_t number)
{
    uint64_t va = gr_load64(slot + GR_SLOT_AT_ADDRESS);
    for (uint32_t k = slot[GR_SLOT_AT_RANK]; k--;) {
        const uint32_t count = gr_load32(slot + GR_SLOT_AT_DIMS + 4 * k);
        va += number % count * gr_load32(slot + GR_SLOT_AT_STRIDES + 4 * k);
        number /= count;
    }
    return gr_driver_translate(r, gr_load16(slot + GR_SLOT_AT_ADDRESS_SPACE), va);
}

static uint64_t elements_of(const struct gr_replayer *r, uint32_t slot)
{
    return gr_slot_bytes(r, slot) / gr_dtype_bytes(r->slots[slot * GR_SLOT_BYTES + GR_SLOT_AT_DTYPE]);
}

/* A word of an operand whose places are good. */
static uint32_t word(const struct gr_replayer *r, const uint8_t *memory, uint32_t slot, uint64_t number)
{
    return gr_load32(memory + place_of(r, r->slots + slot * GR_SLOT_BYTES, number));
}

/* Whether pages of an operand follow one another in the carve-out, all in the image or all behind it. */
static bool is_in_one_piece(const struct gr_replayer *r, const uint8_t *slot, uint64_t elements)
{
    const uint64_t va = gr_load64(slot + GR_SLOT_AT_ADDRESS), first = place_of(r, slot, 0),
                   last = place_of(r, slot, elements - 1);
    const uint32_t stride = gr_load32(slot + GR_SLOT_AT_STRIDES), rows = gr_load32(slot + GR_SLOT_AT_DIMS);
    const uint64_t span = slot[GR_SLOT_AT_RANK] == 1
                              ? 4 * rows
                              : (rows - 1) * (uint64_t)stride + 4 * gr_load32(slot + GR_SLOT_AT_DIMS + 4);
    for (uint64_t at = va / PAGE * PAGE; at < va + span; at += PAGE) {
        if (gr_driver_translate(r, gr_load16(slot + GR_SLOT_AT_ADDRESS_SPACE), at) !=
            first - va % PAGE + (at - va / PAGE * PAGE))
            return false;
    }
    return (first < r->image_end) == (last < r->image_end);
}

/* Marks what the operator may write; whether all that it accesses is there, where it may be. */
static bool mark(const struct gr_replayer *r, const struct gr_action *a, uint8_t *may_change)
{
    const bool makes_boxes =
        a->value >= GR_OPERATOR_DETECTION_OUTPUT && a->value <= GR_OPERATOR_YOLOV3_DETECTION_OUTPUT;
    const bool has_heads = makes_boxes && a->value != GR_OPERATOR_DETECTION_OUTPUT;
    bool good = true;
    for (uint32_t i = 0; i < a->a; i++) {
        const uint8_t *slot = r->slots + (a->arg + i) * GR_SLOT_BYTES;
        /* A head says at least five numbers of a box. No rule asks for them: what is not there is not read.
         */
        if (has_heads && i >= 4 && i % 2 == 0)
            good = good && gr_load32(slot + GR_SLOT_AT_DIMS + 4) >= 5;
        const bool is_written = i < (makes_boxes ? 3u : 1u);
        const uint8_t kind = slot[GR_SLOT_AT_KIND];
        PROMISE(!is_written || kind == GR_SLOT_KIND_OUTPUT || kind == GR_SLOT_KIND_INTERNAL,
                "what callers give is not written");
        PROMISE(!makes_boxes || i != SCRATCH || kind == GR_SLOT_KIND_INTERNAL, "scratch is no caller's");
        if (a->value == GR_OPERATOR_CONV1X1 || a->value == GR_OPERATOR_DENSE)
            good = good && is_in_one_piece(r, slot, elements_of(r, a->arg + i));
        for (uint64_t n = elements_of(r, a->arg + i); n--;) {
            const uint64_t place = place_of(r, slot, n);
            const bool may = place < CARVEOUT && !(is_written && place < r->image_end);
            good = good && may;
            if (may && is_written)
                memset(may_change + place, 1, gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]));
        }
    }
    return good;
}

/* What operators promise of their results, where no two pages are one. */
static void check_result(const struct gr_replayer *r, const struct gr_action *a, const uint8_t *before)
{
    const uint8_t *after = r->memory.base, *to = r->slots + a->arg * GR_SLOT_BYTES,
                  *from = to + GR_SLOT_BYTES;
    const uint64_t elements = elements_of(r, a->arg);
    switch (a->value) {
    case GR_OPERATOR_COPY:
        for (uint64_t n = 0; n < elements; n++)
            PROMISE(!memcmp(after + place_of(r, to, n), before + place_of(r, from, n),
                            gr_dtype_bytes(to[GR_SLOT_AT_DTYPE])),
                    "a copy is what was copied");
        break;
    case GR_OPERATOR_FLIP: {
        const uint32_t length = gr_load32(to + GR_SLOT_AT_DIMS + 4),
                       inner = gr_load32(to + GR_SLOT_AT_DIMS + 8);
        for (uint64_t n = 0; n < elements; n++) {
            const uint64_t along = n / inner % length, other = n + (length - 1 - 2 * along) * inner;
            PROMISE(word(r, after, a->arg, n) == gr_load32(before + place_of(r, from, other)),
                    "what is turned round is there, the last first");
        }
        break;
    }
    case GR_OPERATOR_ARGMAX:
        for (uint64_t n = 0; n < elements; n++) {
            const uint32_t number = word(r, after, a->arg, n);
            PROMISE(number == UINT32_MAX || number < elements_of(r, a->arg + 1), "a place is inside");
            for (uint64_t k = 0; k < n; k++)
                PROMISE(number == UINT32_MAX || word(r, after, a->arg, k) != number, "a place is named once");
        }
        break;
    case GR_OPERATOR_DETECTION_OUTPUT:
    case GR_OPERATOR_YOLO_DETECTION_OUTPUT:
    case GR_OPERATOR_YOLOV3_DETECTION_OUTPUT: {
        const uint32_t boxes = word(r, after, a->arg + 1, 0);
        PROMISE(boxes <= elements / 6, "no more boxes than there is room for");
        for (uint64_t n = 6 * (uint64_t)boxes; n < elements; n++)
            PROMISE(word(r, after, a->arg, n) == 0, "what is no box is zero");
        for (uint64_t n = elements_of(r, a->arg + SCRATCH); n--;)
            PROMISE(word(r, after, a->arg + SCRATCH, n) == 0, "nothing is left in scratch");
        break;
    }
    default: break;
    }
}

/* What an operator writes is the same whatever was there: it writes each element, and reads none before that.
 */
static void check_old_data(struct gr_replayer *r, const struct gr_action *a, const uint8_t *before,
                           const uint8_t *may_change)
{
    const uint8_t *after = r->memory.base;
    uint8_t *again = aligned_alloc(PAGE, CARVEOUT);
    PROMISE(again, "there is memory");
    for (size_t i = 0; i < CARVEOUT; i++)
        again[i] = before[i] ^ (may_change[i] ? 0xff : 0);
    r->memory.base = again;
    clock_us = 0;
    PROMISE(gr_operate(r, a) == GR_STATUS_OK, "with other data to write over it goes well too");
    PROMISE(!memcmp(again, after, CARVEOUT), "what was there before is gone");
    free(again);
}

/* Another address space's pages are the same ones, five further. */
static bool has_each_page_once(const struct gr_replayer *r, const struct gr_action *a)
{
    for (uint32_t i = 1; i < a->a; i++) {
        const uint8_t *slot = r->slots + (a->arg + i) * GR_SLOT_BYTES;
        if (gr_load16(slot + GR_SLOT_AT_ADDRESS_SPACE) !=
            gr_load16(r->slots + a->arg * GR_SLOT_BYTES + GR_SLOT_AT_ADDRESS_SPACE))
            return false;
    }
    for (uint32_t i = 0; i < VA_PAGES; i++)
        for (uint32_t k = 0; k < i; k++)
            if (pages[i] == pages[k] && pages[i] != 255)
                return false;
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint64_t aligned[SLOTS * GR_SLOT_BYTES / 8];
    uint8_t *const slots = (uint8_t *)aligned;
    if (size < SETUP_BYTES + VA_PAGES)
        return 0;
    const uint32_t count = data[3] % (SLOTS + 1);
    const size_t rows = SETUP_BYTES + VA_PAGES, fixed = rows + (size_t)count * ROW_BYTES;
    if (size < fixed)
        return 0;
    pages = data + SETUP_BYTES;
    clock_us = 0;
    clock_step = 8u * data[5];
    struct gr_replayer r = {
        .slots = slots,
        .slot_count = count,
        .carveout_bytes = CARVEOUT,
        .va_bytes = VA_PAGES * PAGE,
        .image_end = (uint64_t)(data[4] % FRAMES) * PAGE,
        .deadline_us = DEADLINE,
    };
    for (uint32_t i = 0; i < count; i++)
        if (!make_slot(slots + i * GR_SLOT_BYTES, data + rows + (size_t)i * ROW_BYTES, i) ||
            !gr_slot_is_valid(&r, i))
            return 0; /* refused before operators are looked at */
    const bool is_beside = data[0] >= BESIDE, is_waited_for = data[0] < NOT_WAITED_FOR;
    const struct gr_action action = {.op = GR_OP_OPERATE,
                                     .flags = is_beside,
                                     .arg = data[1],
                                     .value = data[0] % BESIDE_STEP,
                                     .a = data[2]};
    static uint64_t around[3 * GR_ACTION_BYTES / 8];
    make_actions((uint8_t *)around, &action, is_waited_for);
    r.actions = (const uint8_t *)around;
    r.action_count = 3;
    if (gr_check_operator(&r, &action, 1) != GR_STATUS_OK)
        return 0;
    PROMISE(!is_beside || is_waited_for, "what works beside a job is waited for");
    PROMISE(!is_beside || slots[action.arg * GR_SLOT_BYTES + GR_SLOT_AT_KIND] == GR_SLOT_KIND_INTERNAL,
            "what works beside a job writes no output");
    uint8_t *memory = aligned_alloc(PAGE, CARVEOUT), *before = malloc(CARVEOUT),
            *may_change = calloc(1, CARVEOUT);
    PROMISE(memory && before && may_change, "there is memory");
    for (size_t i = 0; i < CARVEOUT; i++)
        before[i] =
            size > fixed && i >= r.image_end ? data[fixed + (i - r.image_end) % (size - fixed)] : 0xc3;
    memcpy(memory, before, CARVEOUT);
    r.memory = (struct gr_memory){memory, 0, CARVEOUT};
    const bool all_there = mark(&r, &action, may_change);
    const enum gr_status status = gr_operate(&r, &action);
    PROMISE(status == GR_STATUS_OK || (status == GR_STATUS_RANGE && !all_there) ||
                (status == GR_STATUS_BUDGET && clock_us >= DEADLINE),
            "what was checked fails for its pages or its time only");
    for (size_t i = 0; i < CARVEOUT; i++)
        PROMISE(may_change[i] || memory[i] == before[i], "an operator writes its own operands only");
    if (status == GR_STATUS_OK && all_there && has_each_page_once(&r, &action)) {
        check_result(&r, &action, before);
        check_old_data(&r, &action, before, may_change);
    }
    free(memory);
    free(before);
    free(may_change);
    return 0;
}
