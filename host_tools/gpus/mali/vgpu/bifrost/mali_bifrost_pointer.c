/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses of 64 bits: an FMA makes the low word, the ADD of the same tuple the high word, with what the FMA
 * hands on in SLOT_HIDDEN. Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_integer.h"

#include "mali_bifrost_lanes.h"

/* Handler NAME: a 64-bit expression in the two sources; its low word is the result, its high word hidden. */
#define POINTER_HANDLER(name, expression)                                                                    \
    void name(const struct bifrost_uop *u, bifrost_vector *slot, uint32_t *to)                               \
    {                                                                                                        \
        const uint32_t *const sa = slot[u->from[0]], *const sb = slot[u->from[1]];                           \
        uint32_t *const hidden = slot[SLOT_HIDDEN];                                                          \
        const uint32_t detail = u->detail;                                                                   \
        BIFROST_EACH                                                                                         \
        {                                                                                                    \
            const uint32_t a = sa[i], b = sb[i];                                                             \
            const uint64_t sum = (expression);                                                               \
            to[i] = (uint32_t)sum;                                                                           \
            hidden[i] = (uint32_t)(sum >> 32);                                                               \
        }                                                                                                    \
    }                                                                                                        \
    _Static_assert(1, "for a semicolon after the macro")

/* detail: shift 7:0; the part of source 1: shifts left 15:8 and right 23:16 that leave it. */
#define PART(type) ((type)(b << (detail >> 8 & 31)) >> (detail >> 16 & 31))
POINTER_HANDLER(bifrost_pointer_u32, a + ((uint64_t)PART(uint32_t) << (detail & 31)));
POINTER_HANDLER(bifrost_pointer_s32, a + ((uint64_t)(int64_t)PART(int32_t) << (detail & 31)));
POINTER_HANDLER(bifrost_pointer_i64, a + ((uint64_t)b << (detail & 31)));

/* Sources: high word of the pointer; of the offset, in the 64-bit form; what is hidden is source 2. */
BIFROST_HANDLER(bifrost_pointer_high, a + c);
BIFROST_HANDLER(bifrost_pointer_high_i64, a + (b << (detail & 31)) + c);

/* Sources: a word of the offset in the storage, a word of where that is. A pointer that is null stays so, if
 * `detail` is set: then what is hidden is the high word of nothing. */
POINTER_HANDLER(bifrost_segment_low, detail && !a ? 0 : (uint64_t)a + b);
BIFROST_HANDLER(bifrost_segment_high, detail && !d ? 0 : a + b + c);
