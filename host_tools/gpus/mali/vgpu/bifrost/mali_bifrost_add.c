/* SPDX-License-Identifier: BSD-2-Clause */
/* ADD operations by their encoding of 20 bits, those of v6 and v7 in one table. Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_encoding.h"

static bool two_floats(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 15), bit(w, 7));
    float_source(o, 1, bit(w, 6), bit(w, 8));
    o->clamp = (uint8_t)bits(w, 11, 2);
    return true;
}

static bool widen(struct bifrost_operation *o, unsigned code)
{
    static const uint8_t codes[4][2] = {{BIFROST_WHOLE, BIFROST_WHOLE},
                                        {BIFROST_WHOLE, BIFROST_H0},
                                        {BIFROST_WHOLE, BIFROST_H1},
                                        {BIFROST_H0, BIFROST_H0}};

    o->widen[0] = codes[code][0];
    o->widen[1] = codes[code][1];
    return true;
}

static bool modify_fmax(uint32_t w, struct bifrost_operation *o)
{
    o->run = (bit(w, 16) ? bifrost_fmin32 : bifrost_fmax32)[bits(w, 13, 2)];
    return two_floats(w, o);
}

static bool modify_fadd(uint32_t w, struct bifrost_operation *o)
{
    o->detail = bits(w, 13, 2);
    if (o->detail != ROUND_EVEN)
        o->run = bifrost_fadd32_rounded;
    return two_floats(w, o) && widen(o, bits(w, 9, 2));
}

static bool modify_fcmp(uint32_t w, struct bifrost_operation *o)
{
    static const uint8_t conditions[8] = {BIFROST_EQ, BIFROST_GT, BIFROST_GE, BIFROST_NE,
                                          BIFROST_LT, BIFROST_LE, 6,          6};
    unsigned condition = conditions[bits(w, 6, 3)];

    if (condition > BIFROST_LE)
        return false;
    o->run = bifrost_fcmp32[condition];
    float_source(o, 0, bit(w, 11), bit(w, 13));
    float_source(o, 1, bit(w, 12), false);
    return float_truth(o, bits(w, 14, 2)) && widen(o, bits(w, 9, 2));
}

static bool modify_rscale(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 16), bit(w, 13));
    float_source(o, 1, bit(w, 12), bit(w, 14));
    return rscale_special(o, bits(w, 9, 3));
}

static bool modify_to_integer(uint32_t w, struct bifrost_operation *o)
{
    o->run = (bit(w, 3) ? bifrost_to_u32 : bifrost_to_s32)[bits(w, 4, 2)];
    return true;
}

/* Integers that floats do not hold are rounded to nearest; other roundings are not modelled. */
static bool modify_from_integer(uint32_t w, struct bifrost_operation *o)
{
    o->run = bit(w, 3) ? bifrost_from_u32 : bifrost_from_s32;
    return bits(w, 4, 2) == ROUND_EVEN;
}

static bool modify_approximation(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 4), bit(w, 3));
    return !bit(w, 5);
}

/* Bit 3: of both; neither of them may be offset by what FSINCOS_OFFSET gives (bit 4). */
static bool modify_sine(uint32_t w, struct bifrost_operation *o)
{
    o->run = bit(w, 3) ? bifrost_fcos_table : bifrost_fsin_table;
    return !bit(w, 4);
}

static bool modify_ldexp(uint32_t w, struct bifrost_operation *o)
{
    o->detail = bits(w, 6, 3);
    return o->detail <= ROUND_ZERO;
}

static bool modify_logarithm(uint32_t w, struct bifrost_operation *o)
{
    o->run = bit(w, 5) ? bifrost_flog_natural : bifrost_flog_base2;
    float_source(o, 0, bit(w, 4), bit(w, 3));
    return true;
}

static bool modify_logarithm_part(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_flog_part[bits(w, 3, 2)];
    return true;
}

static bool no_modifiers_4_3(uint32_t w, struct bifrost_operation *o)
{
    (void)o;
    return bits(w, 3, 2) == 0;
}

static bool modify_mux(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_mux[bits(w, 9, 2)];
    return true;
}

/* Bits 9:7: signed, unsigned, by equality, of bytes; the same of words. Bit 6: gt or ge, eq or ne. */
static bool modify_icmp(uint32_t w, struct bifrost_operation *o)
{
    unsigned condition = bit(w, 8)   ? (bit(w, 6) ? BIFROST_NE : BIFROST_EQ)
                         : bit(w, 6) ? BIFROST_GE
                                     : BIFROST_GT;

    if (bit(w, 9))
        o->run = (bit(w, 7) || bit(w, 8) ? bifrost_icmp_u32 : bifrost_icmp_s32)[condition];
    else
        o->run = (bit(w, 7) || bit(w, 8) ? bifrost_icmp_u8 : bifrost_icmp_s8)[condition];
    integer_truth(o, bit(w, 10));
    return true;
}

static bool modify_icmp16(uint32_t w, struct bifrost_operation *o)
{
    half_lanes(o, bits(w, 6, 2), bits(w, 8, 2));
    integer_truth(o, bit(w, 10));
    o->run = bifrost_icmp_u16[bit(w, 12) ? BIFROST_GE : BIFROST_GT];
    return true;
}

/* Bit 7: unsigned, which only what saturates says. */
static bool modify_iadd(uint32_t w, struct bifrost_operation *o)
{
    bool subtract = bit(w, 12);

    if (bit(w, 7))
        o->run = subtract ? bifrost_isub_saturating_u32 : bifrost_iadd_saturating_u32;
    else if (bit(w, 8))
        o->run = subtract ? bifrost_isub_saturating : bifrost_iadd_saturating;
    else
        o->run = subtract ? bifrost_isub : bifrost_iadd;
    return bit(w, 8) || !bit(w, 7);
}

/* A lane of source 1; bit 7: it is unsigned. What saturates is not modelled. */
static bool modify_iadd_lane(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_iadd_lane[2 * bit(w, 12) + bit(w, 7)];
    o->detail = bit(w, 11) ? half_shifts(bit(w, 9)) : byte_shifts(bits(w, 9, 2));
    return !bit(w, 8);
}

/* Bit 14: left; 13: the result is not inverted; 11, 12 invert the shifted source and source 1. */
static bool modify_shift_nand(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_shift_and[bit(w, 14) ? SHIFT_LEFT : SHIFT_RIGHT];
    o->flip[0] = bit(w, 11) ? ~0u : 0;
    o->flip[1] = bit(w, 12) ? ~0u : 0;
    o->flip[2] = bit(w, 13) ? 0 : ~0u;
    return true;
}

static bool modify_shift_add(uint32_t w, struct bifrost_operation *o)
{
    unsigned k = (w - 0xea000) >> 11;

    if (k > 8)
        return false;
    o->run = bifrost_shift_add[k];
    return true;
}

static bool modify_shift(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_shift[(w & 0xfffc0) == 0xeeb00   ? SHIFT_LEFT
                           : (w & 0xfffc0) == 0xeec00 ? SHIFT_RIGHT
                                                      : SHIFT_ARITHMETIC];
    return true;
}

/* The codes of sources 0 and 1 say more than where operands are: in descending order they make comparisons
 * unsigned and change the other conditions. */
static bool modify_branch(uint32_t w, struct bifrost_operation *o)
{
    static const uint8_t integers[2][5] = {
        {BIFROST_LT, BIFROST_LE, BIFROST_GE, BIFROST_GT, BIFROST_EQ},
        {BIFROST_LT, BIFROST_LE, BIFROST_GE, BIFROST_GT, BIFROST_NE},
    };
    static const uint8_t floats[2][3] = {{BIFROST_EQ, BIFROST_GT, BIFROST_LT},
                                         {BIFROST_NE, BIFROST_GE, BIFROST_LE}};
    static const uint8_t halves[5][2] = {{0, 0}, {0, 0}, {16, 16}, {16, 0}, {16, 0}};
    bool descending = bits(w, 0, 3) > bits(w, 3, 3);
    unsigned operands = bits(w, 12, 3), condition = bits(w, 9, 3);
    bool is_unsigned = operands == 3 || (operands < 3 && descending);

    if (operands > 4)
        return false;
    o->detail = ~0u;
    if (condition > 4) {
        o->run = bifrost_fcmp32[floats[descending][condition - 5]];
        return operands == 0;
    }
    condition = integers[descending][condition];
    if (operands == 0) {
        o->run = (is_unsigned ? bifrost_icmp_u32 : bifrost_icmp_s32)[condition];
    } else {
        o->run = (is_unsigned ? bifrost_branch_u16 : bifrost_branch_s16)[condition];
        o->keep[0] = halves[operands][0];
        o->keep[1] = halves[operands][1];
    }
    return true;
}

/* Source 1, which is not there, is zero. */
static bool modify_branch_zero(uint32_t w, struct bifrost_operation *o)
{
    unsigned part = bits(w, 4, 2), condition = bit(w, 3) ? BIFROST_EQ : BIFROST_NE; /* word, h1, h0 */

    o->detail = ~0u;
    o->run = part ? bifrost_branch_u16[condition] : bifrost_icmp_u32[condition];
    if (part)
        o->keep[0] = part == 1 ? 16 : 0;
    return part < 3;
}

static bool modify_branch_sign(uint32_t w, struct bifrost_operation *o)
{
    static const uint8_t conditions[4] = {BIFROST_LT, BIFROST_LE, BIFROST_GE, BIFROST_GT};

    o->detail = ~0u;
    if (bits(w, 9, 3) > 3)
        return false;
    o->run = bifrost_icmp_s32[conditions[bits(w, 9, 3)]];
    return true;
}

static const struct bifrost_row rows[] = {
    {0x00000, 0xe0600, 2, BIFROST_ALU, NULL, modify_fmax},
    {0x20000, 0xf0000, 2, BIFROST_ALU, bifrost_fadd32, modify_fadd},
    {0x30000, 0xf0000, 2, BIFROST_ALU, NULL, modify_fcmp},
    {0x88000, 0xe8000, 3, BIFROST_ALU, bifrost_fadd_rscale, modify_rscale},
    {0x3c980, 0xfffc0, 1, BIFROST_ALU, NULL, modify_to_integer},
    {0x3cbc0, 0xfffc0, 1, BIFROST_ALU, NULL, modify_from_integer},
    {0x3cb40, 0xfffc8, 1, BIFROST_ALU, bifrost_extract_signed, modify_byte},
    {0x3cb48, 0xfffc8, 1, BIFROST_ALU, bifrost_extract_unsigned, modify_byte},
    {0x3cb80, 0xfffc8, 1, BIFROST_ALU, bifrost_from_signed_lane, modify_byte},
    {0x3cb88, 0xfffc8, 1, BIFROST_ALU, bifrost_from_unsigned_lane, modify_byte},
    {0x3ccc0, 0xfffe8, 1, BIFROST_ALU, bifrost_extract_signed, modify_half},
    {0x3ccc8, 0xfffe8, 1, BIFROST_ALU, bifrost_extract_unsigned, modify_half},
    {0x3cce0, 0xfffe8, 1, BIFROST_ALU, bifrost_from_signed_lane, modify_half},
    {0x3cce8, 0xfffe8, 1, BIFROST_ALU, bifrost_from_unsigned_lane, modify_half},
    {0x3cd10, 0xffff0, 1, BIFROST_ALU, NULL, modify_widened},
    {0x3d500, 0xfff40, 1, BIFROST_SEGMENT_HIGH, bifrost_segment_high, modify_segment},
    {0x3d960, 0xffff8, 0, BIFROST_NOP, NULL, NULL},
    {0x3d968, 0xffff8, 1, BIFROST_ALU, bifrost_move, NULL},
    {0x3dea0, 0xffff8, 1, BIFROST_ALU, bifrost_iabs, NULL},
    {0x3db20, 0xfff20, 1, BIFROST_ALU, NULL, modify_frexpm},
    {0x3da20, 0xfff20, 1, BIFROST_ALU, NULL, modify_frexpm_log},
    {0x3dc20, 0xffea0, 1, BIFROST_ALU, NULL, modify_frexpe},
    {0x3de20, 0xfffe0, 1, BIFROST_ALU, NULL, modify_frexpe_log},
    {0x3e820, 0xff860, 1, BIFROST_ALU, NULL, modify_fround},
    {0x3f8c0, 0xfffc0, 2, BIFROST_POINTER_HIGH, bifrost_pointer_high, NULL},
    {0x66000, 0xfffe0, 1, BIFROST_ALU, bifrost_frcp, modify_approximation},
    {0x66100, 0xfffe0, 1, BIFROST_ALU, bifrost_frsq, modify_approximation},
    {0x66340, 0xffff8, 1, BIFROST_ALU, bifrost_flogd, NULL},
    {0x66ac0, 0xfffc0, 2, BIFROST_ALU, bifrost_fexp, NULL},
    {0x67000, 0xfffc0, 1, BIFROST_ALU, bifrost_frcp_approx, modify_approximation},
    {0x67100, 0xfffc0, 1, BIFROST_ALU, bifrost_frsq_approx, modify_approximation},
    {0x67a80, 0xfffe0, 1, BIFROST_ALU, NULL, modify_sine},
    {0x74c00, 0xffe00, 2, BIFROST_ALU, bifrost_ldexp, modify_ldexp},
    {0x76000, 0xfe000, 2, BIFROST_ALU, bifrost_to_halves, modify_to_halves},
    {0x67300, 0xfffc0, 1, BIFROST_ALU, bifrost_flog_red, modify_approximation},
    {0x67b00, 0xfffc0, 1, BIFROST_ALU, NULL, modify_logarithm},
    {0x67ae0, 0xfffe0, 1, BIFROST_ALU, NULL, modify_logarithm_part},
    {0x67640, 0xffe40, 2, BIFROST_ALU, bifrost_zero, NULL}, /* FPOW_SC_DET: no special case */
    {0x75080, 0xfffc0, 2, BIFROST_ALU, bifrost_move, NULL}, /* FPOW_SC_APPLY */
    {0x67ac0, 0xfffe0, 1, BIFROST_ALU, bifrost_fexp_table, no_modifiers_4_3},
    {0x6fe34, 0xffe3f, 0, BIFROST_JUMP, NULL, NULL},
    {0x6f800, 0xffe00, 1, BIFROST_BRANCH, NULL, modify_branch_zero},
    {0x6f008, 0xff038, 1, BIFROST_BRANCH, NULL, modify_branch_sign},
    {0x68000, 0xf8000, 2, BIFROST_BRANCH, NULL, modify_branch},
    {0x74000, 0xff800, 3, BIFROST_ALU, NULL, modify_mux},
    {0x75300, 0xfff00, 2, BIFROST_ALU, bifrost_mkvec_halves, modify_halves},
    {0x7b000, 0xffb80, 2, BIFROST_ALU, NULL, modify_icmp},
    {0x7b080, 0xffb80, 2, BIFROST_ALU, NULL, modify_icmp},
    {0x7b100, 0xffb80, 2, BIFROST_ALU, NULL, modify_icmp},
    {0x7b200, 0xffb80, 2, BIFROST_ALU, NULL, modify_icmp},
    {0x7b280, 0xffb80, 2, BIFROST_ALU, NULL, modify_icmp},
    {0x7b300, 0xffb80, 2, BIFROST_ALU, NULL, modify_icmp},
    {0x78800, 0xfe800, 2, BIFROST_ALU, NULL, modify_icmp16},
    {0x7be00, 0xffe00, 3, BIFROST_COMPARE_HIGH, NULL, NULL},
    {0xbc600, 0xffe40, 2, BIFROST_ALU, NULL, modify_iadd},
    {0xbd600, 0xffe40, 2, BIFROST_ALU, NULL, modify_iadd},
    {0xbec00, 0xfec40, 2, BIFROST_ALU, NULL, modify_iadd_lane},
    {0xbe000, 0xfe840, 2, BIFROST_ALU, NULL, modify_iadd_lane},
    {0xe0000, 0xf8600, 3, BIFROST_ALU, NULL, modify_shift_nand},
    {0xea000, 0xfe600, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0xec000, 0xfe600, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0xee000, 0xffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0xee8c0, 0xfffc0, 2, BIFROST_ALU, bifrost_or, NULL},
    {0xee900, 0xfffc0, 2, BIFROST_ALU, bifrost_and, NULL},
    {0xeea80, 0xfffc0, 2, BIFROST_ALU, bifrost_xor, NULL},
    {0xeeb00, 0xfffc0, 2, BIFROST_ALU, NULL, modify_shift},
    {0xeec00, 0xfffc0, 2, BIFROST_ALU, NULL, modify_shift},
    {0xeed00, 0xfffc0, 2, BIFROST_ALU, NULL, modify_shift},
    {0xefe00, 0xffe00, 3, BIFROST_SHIFT_HIGH, NULL, NULL},
};

bool bifrost_add(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_add_half(word, operation) || bifrost_add_narrow(word, operation) ||
           bifrost_add_message(word, operation) ||
           bifrost_look_up(rows, sizeof(rows) / sizeof(rows[0]), word, operation);
}
