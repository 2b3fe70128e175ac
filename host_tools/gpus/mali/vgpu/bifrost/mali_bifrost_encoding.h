/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tables of FMA and ADD operations share: rows, and modifiers that both have. Sources: see
 * mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_ENCODING_H
#define GRAMOPHONE_MALI_BIFROST_ENCODING_H

#include "mali_bifrost_float.h"
#include "mali_bifrost_integer.h"

/* Encodings under a mask. `run` may be NULL where `modify` chooses it; `modify` may be NULL: no modifiers. It
 * returns false for modifiers that are not known. */
struct bifrost_row {
    uint32_t exact, mask;
    uint8_t sources, kind;
    bifrost_run *run;
    bool (*modify)(uint32_t word, struct bifrost_operation *operation);
};

static inline uint32_t bits(uint32_t word, unsigned low, unsigned width)
{
    return word >> low & ((1u << width) - 1);
}

static inline bool bit(uint32_t word, unsigned at)
{
    return word >> at & 1;
}

/* mali_bifrost_half_table.c, mali_bifrost_narrow_table.c: what works on halves, or on integers of 16 and 8
 * bits; the tables of words come after them. */
bool bifrost_fma_half(uint32_t word, struct bifrost_operation *operation);
bool bifrost_add_half(uint32_t word, struct bifrost_operation *operation);
bool bifrost_fma_narrow(uint32_t word, struct bifrost_operation *operation);
bool bifrost_add_narrow(uint32_t word, struct bifrost_operation *operation);

/* mali_bifrost_messages.c: ADD operations that access memory, or other threads. */
bool bifrost_add_message(uint32_t word, struct bifrost_operation *operation);

/* Of several rows the one with the narrowest mask. */
static inline bool bifrost_look_up(const struct bifrost_row *rows, size_t count, uint32_t word,
                                   struct bifrost_operation *operation)
{
    const struct bifrost_row *best = NULL;

    for (size_t i = 0; i < count; i++)
        if ((word & rows[i].mask) == rows[i].exact && (!best || (rows[i].mask & best->mask) == best->mask))
            best = &rows[i];
    if (!best)
        return false;
    *operation = (struct bifrost_operation){
        .run = best->run, .sources = best->sources, .kind = best->kind, .keep = {~0u, ~0u, ~0u}};
    return (!best->modify || best->modify(word, operation)) && (operation->run || operation->kind);
}

static inline void float_source(struct bifrost_operation *o, unsigned source, bool absolute, bool negative)
{
    o->keep[source] = absolute ? 0x7fffffffu : ~0u;
    o->flip[source] ^= (uint32_t)negative << 31;
}

/* What true is: 1, 1.0, all bits set. */
static inline bool float_truth(struct bifrost_operation *o, unsigned code)
{
    static const uint32_t values[3] = {1, 0x3f800000, ~0u};

    if (code < 3)
        o->detail = values[code];
    return code < 3;
}

static inline void integer_truth(struct bifrost_operation *o, bool all)
{
    o->detail = all ? ~0u : 1;
}

/* Shifts left and right that leave a byte or a half of a word. */
static inline uint32_t byte_shifts(unsigned byte)
{
    return (24 - 8 * byte) | 24 << 8;
}

static inline uint32_t half_shifts(unsigned half)
{
    return (16 - 16 * half) | 16 << 8;
}

/* Halves of sources 0 and 1 that are elements 0 and 1; bit 0 of a code: of element 0. */
static inline void half_lanes(struct bifrost_operation *o, unsigned first, unsigned second)
{
    o->keep[0] = 16 * (first & 1) | 16 * (first >> 1) << 8;
    o->keep[1] = 16 * (second & 1) | 16 * (second >> 1) << 8;
}

/* Special cases of FMA_RSCALE and FADD_RSCALE. */
static inline bool rscale_special(struct bifrost_operation *o, unsigned code)
{
    if (code < 4)
        o->clamp = (uint8_t)code;
    else
        o->detail = RSCALE_ZERO_TIMES_INFINITY | (code == 5 ? ROUND_ZERO : ROUND_EVEN);
    return code != 6; /* an exponent of 16 bits */
}

/* Floats that are not widened say so in bits 4:3. */
static inline bool not_widened(uint32_t word)
{
    return bits(word, 3, 2) == 1;
}

/* Modifiers of operations that both have. */

static inline bool modify_byte(uint32_t w, struct bifrost_operation *o)
{
    o->detail = byte_shifts(bits(w, 4, 2));
    return true;
}

static inline bool modify_half(uint32_t w, struct bifrost_operation *o)
{
    o->detail = half_shifts(bit(w, 4));
    return true;
}

/* Of a half that a float widens: the lane at bit 3. */
static inline bool modify_widened(uint32_t w, struct bifrost_operation *o)
{
    o->run = bit(w, 3) ? bifrost_widen_h1 : bifrost_widen_h0;
    return true;
}

/* Signs and absolute values are of both sources; 9:8 is a clamp. */
static inline bool modify_to_halves(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 6), bit(w, 7));
    float_source(o, 1, bit(w, 6), bit(w, 7));
    o->detail = bits(w, 10, 3);
    return bits(w, 8, 2) == 0 && o->detail <= ROUND_ZERO;
}

static inline bool modify_segment(uint32_t w, struct bifrost_operation *o)
{
    o->segment = (uint8_t)bits(w, 3, 3);
    o->detail = bit(w, 7);
    return true;
}

static inline bool modify_frexpm(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_frexpm[bit(w, 7) ? FREXP_SQRT : FREXP_PLAIN];
    float_source(o, 0, bit(w, 6), false);
    return not_widened(w);
}

static inline bool modify_frexpm_log(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_frexpm[FREXP_LOG];
    float_source(o, 0, bit(w, 6), bit(w, 7));
    return not_widened(w);
}

static inline bool modify_frexpe(uint32_t w, struct bifrost_operation *o)
{
    if (bit(w, 6))
        o->run = bit(w, 8) ? bifrost_frexpe_sqrt_neg : bifrost_frexpe_neg;
    else
        o->run = bifrost_frexpe[bit(w, 8) ? FREXP_SQRT : FREXP_PLAIN];
    return not_widened(w);
}

static inline bool modify_frexpe_log(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_frexpe[FREXP_LOG];
    return not_widened(w);
}

static inline bool modify_halves(uint32_t w, struct bifrost_operation *o)
{
    o->detail = 16 * bits(w, 6, 1) | 16 * bits(w, 7, 1) << 8;
    return true;
}

/* Where the row has no handler, bits say how it is rounded. */
static inline bool modify_fround(uint32_t w, struct bifrost_operation *o)
{
    if (!o->run)
        o->run = bifrost_fround[bits(w, 9, 2)];
    float_source(o, 0, bit(w, 7), bit(w, 8));
    return not_widened(w);
}

#endif
