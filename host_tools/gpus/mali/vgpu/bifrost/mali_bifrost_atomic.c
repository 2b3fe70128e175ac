/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Atomic operations on words: lane after lane, in ascending order; a program with one has one worker.
 *
 * The GPU does what lanes want of one word together: a thread gets the word before that and what those ahead
 * of it want, and ATOM_POST puts these together. Here each gets the word before its own operation, and for
 * the others what changes nothing. Sources: Mesa 25.0.7 src/panfrost/compiler/bifrost (ISA.xml,
 * bifrost_compile.c); else see mali_bifrost.h.
 */
#include "mali_bifrost_batch.h"
#include "mali_bifrost_integer.h"

#include <string.h>

#include "mali_bifrost_lanes.h"

#define SMALLER(type, x, y) ((type)(x) < (type)(y) ? (x) : (y))
#define LARGER(type, x, y) ((type)(x) > (type)(y) ? (x) : (y))

static BIFROST_HANDLER(post_add, a + b);
static BIFROST_HANDLER(post_smin, SMALLER(int32_t, a, b));
static BIFROST_HANDLER(post_smax, LARGER(int32_t, a, b));
static BIFROST_HANDLER(post_umin, SMALLER(uint32_t, a, b));
static BIFROST_HANDLER(post_umax, LARGER(uint32_t, a, b));
static BIFROST_HANDLER(post_and, a &b);
static BIFROST_HANDLER(post_or, a | b);
static BIFROST_HANDLER(post_xor, a ^ b);
bifrost_run *const bifrost_atomic_post[16] = {
    [ATOMIC_ADD] = post_add,   [ATOMIC_SMIN] = post_smin, [ATOMIC_SMAX] = post_smax,
    [ATOMIC_UMIN] = post_umin, [ATOMIC_UMAX] = post_umax, [ATOMIC_AND] = post_and,
    [ATOMIC_OR] = post_or,     [ATOMIC_XOR] = post_xor,
};

static uint32_t computed(enum bifrost_atomic operation, uint32_t word, uint32_t by)
{
    switch (operation) {
    case ATOMIC_ADD: return word + by;
    case ATOMIC_SMIN: return SMALLER(int32_t, word, by);
    case ATOMIC_SMAX: return LARGER(int32_t, word, by);
    case ATOMIC_UMIN: return SMALLER(uint32_t, word, by);
    case ATOMIC_UMAX: return LARGER(uint32_t, word, by);
    case ATOMIC_AND: return word & by;
    case ATOMIC_OR: return word | by;
    case ATOMIC_XOR: return word ^ by;
    default: return by; /* an exchange */
    }
}

/* What changes no word. */
static uint32_t neutral(enum bifrost_atomic operation)
{
    switch (operation) {
    case ATOMIC_SMIN: return INT32_MAX;
    case ATOMIC_SMAX: return (uint32_t)INT32_MAX + 1;
    case ATOMIC_UMIN:
    case ATOMIC_AND: return UINT32_MAX;
    default: return 0;
    }
}

bool bifrost_atomic(struct bifrost_batch *batch, const struct bifrost_code *code, const uint64_t *va,
                    uint64_t lanes)
{
    const enum bifrost_atomic operation = code->transfer.atomic;
    bifrost_vector *const staged = &batch->slot[code->staging], *const results = &batch->slot[code->result];

    for (uint64_t left = lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        const uint8_t *from = bifrost_host(batch->worker, va[lane], 4, false);
        uint8_t *to = from ? bifrost_host(batch->worker, va[lane], 4, true) : NULL;
        uint32_t word, by;

        if (!to)
            return false;
        memcpy(&word, from, sizeof(word)); /* little-endian, as the GPU */
        by = operation >= ATOMIC_EXCHANGE ? staged[0][lane] : batch->slot[SLOT_DATA][lane];
        if (operation != ATOMIC_COMPARE_EXCHANGE || word == staged[1][lane]) {
            uint32_t result = computed(operation, word, by);
            memcpy(to, &result, sizeof(result));
        }
        if (code->transfer.words) /* of the result */
            results[0][lane] = word;
        if (code->transfer.words == 2 && operation < ATOMIC_EXCHANGE)
            results[1][lane] = neutral(operation);
    }
    return true;
}
