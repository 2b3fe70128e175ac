/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations on pairs of halves, of both units: their encodings. Sources: Mesa 25.0.7
 * src/panfrost/compiler/bifrost/ISA.xml; else see mali_bifrost.h. */
#include "mali_bifrost_encoding.h"
#include "mali_bifrost_half.h"

static void half_source(struct bifrost_operation *o, unsigned source, bool absolute, bool negative)
{
    o->keep[source] = absolute ? 0x7fff : 0xffff;
    o->flip[source] = negative ? 0x8000 : 0;
}

/* Which halves elements 0 and 1 are: bits 0, 1 of a code. */
static void swizzle(struct bifrost_operation *o, unsigned source, unsigned code)
{
    o->detail |= code << 2 * source;
}

static void finish(struct bifrost_operation *o, unsigned round, unsigned clamp)
{
    o->detail |= round << HALF_ROUND_SHIFT | clamp << HALF_CLAMP_SHIFT;
}

/* One bit and the order of the codes of two sources say of which the absolute value is taken. */
static void ordered_sources(uint32_t w, struct bifrost_operation *o)
{
    bool descending = bits(w, 0, 3) > bits(w, 3, 3);

    half_source(o, 0, descending || bit(w, 6), bit(w, 7));
    half_source(o, 1, descending && bit(w, 6), bit(w, 8));
    swizzle(o, 0, bits(w, 9, 2));
    swizzle(o, 1, bits(w, 11, 2));
}

static bool modify_fma16(uint32_t w, struct bifrost_operation *o)
{
    half_source(o, 0, false, bit(w, 17)); /* the product's sign */
    half_source(o, 1, false, false);
    half_source(o, 2, false, bit(w, 18));
    swizzle(o, 0, bits(w, 9, 2));
    swizzle(o, 1, bits(w, 11, 2));
    swizzle(o, 2, bits(w, 19, 2));
    finish(o, bits(w, 13, 2), bits(w, 15, 2));
    return true;
}

static bool modify_fadd16(uint32_t w, struct bifrost_operation *o)
{
    ordered_sources(w, o);
    finish(o, bits(w, 13, 2), bits(w, 15, 2));
    return true;
}

static bool modify_fadd16_add(uint32_t w, struct bifrost_operation *o)
{
    half_source(o, 0, bit(w, 15), bit(w, 7));
    half_source(o, 1, bit(w, 6), bit(w, 8));
    swizzle(o, 0, bits(w, 9, 2));
    swizzle(o, 1, bits(w, 11, 2));
    finish(o, bits(w, 13, 2), 0);
    return true;
}

static bool modify_fmax16(uint32_t w, struct bifrost_operation *o)
{
    ordered_sources(w, o);
    o->run = (bit(w, 16) ? bifrost_fmin16 : bifrost_fmax16)[bits(w, 13, 2)];
    return true;
}

static bool compare(struct bifrost_operation *o, unsigned condition, unsigned truth)
{
    static const uint8_t conditions[6] = {BIFROST_EQ, BIFROST_GT, BIFROST_GE,
                                          BIFROST_NE, BIFROST_LT, BIFROST_LE};
    static const uint32_t values[3] = {1, 0x3c00, 0xffff};

    if (condition > 5 || truth > 2)
        return false;
    o->run = bifrost_fcmp16[conditions[condition]];
    o->detail |= values[truth] << HALF_TRUTH_SHIFT;
    return true;
}

static bool modify_fcmp16(uint32_t w, struct bifrost_operation *o)
{
    ordered_sources(w, o);
    return compare(o, bits(w, 13, 3), bits(w, 16, 2));
}

static bool modify_fcmp16_add(uint32_t w, struct bifrost_operation *o)
{
    half_source(o, 0, false, bit(w, 13));
    half_source(o, 1, false, false);
    swizzle(o, 0, bits(w, 9, 2));
    swizzle(o, 1, bits(w, 11, 2));
    return compare(o, bits(w, 6, 3), bits(w, 14, 2));
}

static void one_source(struct bifrost_operation *o, unsigned swizzle_code, bool absolute, bool negative)
{
    half_source(o, 0, absolute, negative);
    swizzle(o, 0, swizzle_code);
}

/* Where the row has no handler, bits say how it is rounded. */
static bool modify_fround16(uint32_t w, struct bifrost_operation *o)
{
    if (!o->run) {
        o->run = bifrost_fround16;
        finish(o, bits(w, 9, 2), 0);
    }
    one_source(o, bits(w, 3, 2), bit(w, 7), bit(w, 8));
    return true;
}

static bool modify_csel_f16(uint32_t w, struct bifrost_operation *o)
{
    if (bits(w, 12, 2) > 2)
        return false;
    o->run = bifrost_csel_f16[bits(w, 12, 2)];
    for (unsigned i = 0; i < 2; i++) {
        half_source(o, i, false, false);
        swizzle(o, i, 2);
    }
    return true;
}

/* Of one half. Bit 5 is what becomes of a division by zero, whose meaning is not known. */
static bool modify_reciprocal16(uint32_t w, struct bifrost_operation *o)
{
    one_source(o, bit(w, 8), bit(w, 4), bit(w, 3));
    return !bit(w, 5);
}

static bool modify_ldexp16(uint32_t w, struct bifrost_operation *o)
{
    one_source(o, 2, false, false);
    finish(o, bits(w, 6, 3), 0);
    return bits(w, 6, 3) <= ROUND_ZERO;
}

static bool modify_half_conversion(uint32_t w, struct bifrost_operation *o)
{
    one_source(o, bits(w, 6, 2), false, false);
    finish(o, bits(w, 4, 2), 0);
    return true;
}

static bool modify_half_to_integer(uint32_t w, struct bifrost_operation *o)
{
    o->widen[0] = bit(w, 7) ? BIFROST_H1 : BIFROST_H0;
    o->run = (bit(w, 3) ? bifrost_to_u32 : bifrost_to_s32)[bits(w, 4, 2)];
    return true;
}

/* ---- tables ---- */

static const struct bifrost_row fma_rows[] = {
    {0x400000, 0x600000, 3, BIFROST_ALU, bifrost_fma16, modify_fma16},
    {0x640000, 0x7c0000, 2, BIFROST_ALU, NULL, modify_fcmp16},
    {0x6c0000, 0x7e0000, 2, BIFROST_ALU, bifrost_fadd16, modify_fadd16},
    {0x6e0000, 0x7fc000, 4, BIFROST_ALU, NULL, modify_csel_f16},
    {0x707600, 0x7ffe60, 1, BIFROST_ALU, bifrost_fround16_away, modify_fround16},
    {0x70c000, 0x7ff860, 1, BIFROST_ALU, NULL, modify_fround16},
};
static const struct bifrost_row add_rows[] = {
    {0x3c200, 0xfff08, 1, BIFROST_ALU, bifrost_halves_to_s16, modify_half_conversion},
    {0x3c208, 0xfff08, 1, BIFROST_ALU, bifrost_halves_to_u16, modify_half_conversion},
    {0x3c500, 0xfff40, 1, BIFROST_ALU, NULL, modify_half_to_integer},
    {0x3c600, 0xfff08, 1, BIFROST_ALU, bifrost_halves_of_s16, modify_half_conversion},
    {0x3c608, 0xfff08, 1, BIFROST_ALU, bifrost_halves_of_u16, modify_half_conversion},
    {0x3e800, 0xff860, 1, BIFROST_ALU, NULL, modify_fround16},
    {0x67080, 0xffec0, 1, BIFROST_ALU, bifrost_frcp16, modify_reciprocal16},
    {0x67280, 0xffec0, 1, BIFROST_ALU, bifrost_frsq16, modify_reciprocal16},
    {0x74e00, 0xffe00, 2, BIFROST_ALU, bifrost_ldexp16, modify_ldexp16},
    {0x80000, 0xe8000, 2, BIFROST_ALU, NULL, modify_fmax16},
    {0xa0000, 0xf0000, 2, BIFROST_ALU, bifrost_fadd16, modify_fadd16_add},
    {0xb0000, 0xf0000, 2, BIFROST_ALU, NULL, modify_fcmp16_add},
};

bool bifrost_fma_half(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_look_up(fma_rows, sizeof(fma_rows) / sizeof(fma_rows[0]), word, operation);
}

bool bifrost_add_half(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_look_up(add_rows, sizeof(add_rows) / sizeof(add_rows[0]), word, operation);
}
