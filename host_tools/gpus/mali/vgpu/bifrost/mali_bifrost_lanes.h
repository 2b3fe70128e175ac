/* SPDX-License-Identifier: BSD-2-Clause */
/* Loops over lanes, and floats in them. Sources: see mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_LANES_H
#define GRAMOPHONE_MALI_BIFROST_LANES_H

#include <math.h>
#include <string.h>

#include "mali_bifrost.h"

/* A result may lie where a source does, lane for lane, and nowhere else: lanes can be computed together. */
#ifdef __clang__
#define BIFROST_EACH _Pragma("clang loop vectorize(assume_safety)") for (int i = 0; i < BIFROST_LANES; i++)
#else
#define BIFROST_EACH _Pragma("GCC ivdep") for (int i = 0; i < BIFROST_LANES; i++)
#endif

/* Handler NAME whose result in each lane is an expression in a, b, c, d: the sources; u: the micro-operation.
 */
#define BIFROST_HANDLER_OF(each, name, expression)                                                           \
    void name(const struct bifrost_uop *u, bifrost_vector *slot, uint32_t *to)                               \
    {                                                                                                        \
        const uint32_t *const sa = slot[u->from[0]], *const sb = slot[u->from[1]],                           \
                              *const sc = slot[u->from[2]], *const sd = slot[u->from[3]];                    \
        const uint32_t detail = u->detail, flip0 = u->flip[0], flip1 = u->flip[1], flip2 = u->flip[2],       \
                       keep0 = u->keep[0], keep1 = u->keep[1], keep2 = u->keep[2];                           \
        (void)detail, (void)flip0, (void)flip1, (void)flip2, (void)keep0, (void)keep1, (void)keep2;          \
        each                                                                                                 \
        {                                                                                                    \
            const uint32_t a = sa[i], b = sb[i], c = sc[i], d = sd[i];                                       \
            (void)a, (void)b, (void)c, (void)d;                                                              \
            to[i] = (expression);                                                                            \
        }                                                                                                    \
    }                                                                                                        \
    _Static_assert(1, "for a semicolon after the macro")
#define BIFROST_HANDLER(name, expression) BIFROST_HANDLER_OF(BIFROST_EACH, name, expression)
/* One that calls functions, lane by lane. */
#define BIFROST_SLOW_HANDLER(name, expression)                                                               \
    BIFROST_HANDLER_OF(for (int i = 0; i < BIFROST_LANES; i++), name, expression)

static inline float bifrost_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Every NaN that arithmetic produces is the same: what hosts make of them differs. */
static inline uint32_t bifrost_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return value == value ? bits : 0x7fc00000u;
}

/* A part of a word: shifted left until nothing is above it, then right. */
#define SIGNED_LANE(x) (uint32_t)((int32_t)((x) << (detail & 31)) >> (detail >> 8 & 31))
#define UNSIGNED_LANE(x) ((x) << (detail & 31) >> (detail >> 8 & 31))

/* Float sources with their modifiers. */
#define FA bifrost_float((a & keep0) ^ flip0)
#define FB bifrost_float((b & keep1) ^ flip1)
#define FC bifrost_float((c & keep2) ^ flip2)

#endif
