/* SPDX-License-Identifier: BSD-2-Clause */
/* FMA operations by their encoding of 23 bits, those of v6 and v7 in one table. Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_encoding.h"

static bool widen(struct bifrost_operation *o, unsigned code)
{
    static const uint8_t codes[8][2] = {
        {BIFROST_WHOLE, BIFROST_WHOLE}, {BIFROST_WHOLE, BIFROST_H0}, {BIFROST_WHOLE, BIFROST_H1},
        {BIFROST_H0, BIFROST_H0},       {BIFROST_H0, BIFROST_H1},    {BIFROST_H1, BIFROST_H1},
        {BIFROST_H0, BIFROST_WHOLE},    {BIFROST_H1, BIFROST_WHOLE},
    };

    o->widen[0] = codes[code][0];
    o->widen[1] = codes[code][1];
    return true;
}

static bool modify_fma(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 12), bit(w, 17)); /* the product's sign */
    float_source(o, 1, bit(w, 19), false);
    float_source(o, 2, bit(w, 20), bit(w, 18));
    o->clamp = (uint8_t)bits(w, 15, 2);
    o->detail = bits(w, 13, 2);
    if (o->detail != ROUND_EVEN)
        o->run = bifrost_fma32_rounded;
    return widen(o, bits(w, 9, 3));
}

static bool two_floats(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 12), bit(w, 7));
    float_source(o, 1, bit(w, 6), bit(w, 8));
    return widen(o, bits(w, 9, 3));
}

static bool modify_fadd(uint32_t w, struct bifrost_operation *o)
{
    o->clamp = (uint8_t)bits(w, 15, 2);
    o->detail = bits(w, 13, 2);
    if (o->detail != ROUND_EVEN)
        o->run = bifrost_fadd32_rounded;
    return two_floats(w, o);
}

static bool modify_fmax(uint32_t w, struct bifrost_operation *o)
{
    o->run = (bit(w, 17) ? bifrost_fmin32 : bifrost_fmax32)[bits(w, 13, 2)];
    o->clamp = (uint8_t)bits(w, 15, 2);
    return two_floats(w, o);
}

static bool modify_fcmp(uint32_t w, struct bifrost_operation *o)
{
    static const uint8_t conditions[8] = {BIFROST_EQ, BIFROST_GT, BIFROST_GE, BIFROST_NE,
                                          BIFROST_LT, BIFROST_LE, 6,          6};
    unsigned condition = conditions[bits(w, 13, 3)];

    if (condition > BIFROST_LE)
        return false;
    o->run = bifrost_fcmp32[condition];
    return float_truth(o, bits(w, 16, 2)) && two_floats(w, o);
}

static bool modify_rscale(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 15), bit(w, 16)); /* the product's sign */
    float_source(o, 2, false, bit(w, 17));
    return rscale_special(o, bits(w, 12, 3));
}

static bool modify_lscale(uint32_t w, struct bifrost_operation *o)
{
    float_source(o, 0, bit(w, 6), bit(w, 7));
    float_source(o, 1, bit(w, 8), bit(w, 9));
    return true;
}

static bool modify_csel_f32(uint32_t w, struct bifrost_operation *o)
{
    if (bits(w, 12, 2) > 2)
        return false;
    o->run = bifrost_csel_f32[bits(w, 12, 2)];
    return true;
}

static bool modify_csel(uint32_t w, struct bifrost_operation *o)
{
    o->run = bits(w, 12, 3) == 3
                 ? bifrost_csel_u32[BIFROST_EQ]
                 : (bit(w, 13) ? bifrost_csel_u32 : bifrost_csel_s32)[bit(w, 12) ? BIFROST_GE : BIFROST_GT];
    return true;
}

/* Comparisons k = signed gt, ge, unsigned gt, ge, eq, ne at bits 8:6. */
static bool pick(uint32_t w, struct bifrost_operation *o, bifrost_run *const *of_signed,
                 bifrost_run *const *of_unsigned)
{
    static const uint8_t conditions[6] = {BIFROST_GT, BIFROST_GE, BIFROST_GT,
                                          BIFROST_GE, BIFROST_EQ, BIFROST_NE};
    unsigned k = bits(w, 6, 3);

    if (k > 5)
        return false;
    o->run = (k < 2 ? of_signed : of_unsigned)[conditions[k]];
    integer_truth(o, bit(w, 10));
    return true;
}

static bool modify_icmp8(uint32_t w, struct bifrost_operation *o)
{
    return pick(w, o, bifrost_icmp_s8, bifrost_icmp_u8);
}

static bool modify_icmp32(uint32_t w, struct bifrost_operation *o)
{
    return pick(w, o, bifrost_icmp_s32, bifrost_icmp_u32);
}

/* Low words are compared unsigned; the result says so with 1. */
static bool modify_icmpi(uint32_t w, struct bifrost_operation *o)
{
    return pick(w, o, bifrost_icmp_u32, bifrost_icmp_u32);
}

bifrost_run *bifrost_icmpf(uint32_t fma)
{
    struct bifrost_operation operation;

    return pick(fma, &operation, bifrost_icmpf_s32, bifrost_icmpf_u32) ? operation.run : NULL;
}

static bool modify_icmp16(uint32_t w, struct bifrost_operation *o)
{
    half_lanes(o, bits(w, 6, 2), bits(w, 8, 2));
    integer_truth(o, bit(w, 10));
    if (bit(w, 13))
        o->run = bifrost_icmp_u16[bit(w, 11) ? BIFROST_NE : BIFROST_EQ];
    else
        o->run = (bit(w, 11) ? bifrost_icmp_u16 : bifrost_icmp_s16)[bit(w, 12) ? BIFROST_GE : BIFROST_GT];
    return true;
}

/* Bit 16: left; 13: OR; of an AND bit 14 inverts source 1 and bit 15 keeps the result, of an OR the other
 * way. */
static bool modify_shift_logic(uint32_t w, struct bifrost_operation *o)
{
    bool is_or = bit(w, 13);

    o->run = (is_or ? bifrost_shift_or : bifrost_shift_and)[bit(w, 16) ? SHIFT_LEFT : SHIFT_RIGHT];
    o->flip[1] = bit(w, 14) != is_or ? ~0u : 0;
    o->flip[2] = bit(w, 15) == is_or ? ~0u : 0;
    o->detail = 8 * bits(w, 9, 2);
    return true;
}

static bool modify_shift_xor(uint32_t w, struct bifrost_operation *o)
{
    o->flip[2] = bit(w, 13) ? ~0u : 0;
    o->detail = 8 * bits(w, 9, 2);
    return true;
}

static bool modify_shift_add(uint32_t w, struct bifrost_operation *o)
{
    unsigned k = (w - 0x329000) >> 13;

    if (k > 8)
        return false;
    o->run = bifrost_shift_add[k];
    return true;
}

static bool modify_arshift(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_shift_add[3 * SHIFT_ARITHMETIC]; /* to source 1, which is zero */
    o->detail = 8 * bits(w, 9, 2);
    return true;
}

static bool modify_shift_double(uint32_t w, struct bifrost_operation *o)
{
    o->detail = bit(w, 12) ? SHIFT_RIGHT : SHIFT_LEFT;
    o->run = bifrost_shift_double_low[o->detail];
    return bits(w, 9, 3) == 0;
}

static bool modify_to_integer(uint32_t w, struct bifrost_operation *o)
{
    o->run = (bit(w, 3) ? bifrost_to_u32 : bifrost_to_s32)[ROUND_ZERO];
    return true;
}

static bool modify_imed3(uint32_t w, struct bifrost_operation *o)
{
    unsigned k = (w - 0x705c00) >> 9;

    if (k > 5)
        return false;
    o->run = bifrost_imed3[k];
    return true;
}

static bool modify_mux(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_mux[bits(w - 0x707800, 9, 2)];
    return true;
}

static bool modify_pointer(uint32_t w, struct bifrost_operation *o)
{
    unsigned part = bits(w, 9, 2); /* h0, h1, whole */

    o->detail = bits(w, 6, 3);
    if (part < 2)
        o->detail |= (16 - 16 * part) << 8 | 16 << 16;
    return part < 3;
}

static bool modify_pointer_i64(uint32_t w, struct bifrost_operation *o)
{
    o->detail = bits(w, 6, 3);
    return true;
}

/* Bit 3 is a mask whose meaning is not known. */
static bool modify_clz(uint32_t w, struct bifrost_operation *o)
{
    (void)o;
    return !bit(w, 3);
}

static bool modify_bytes(uint32_t w, struct bifrost_operation *o)
{
    for (unsigned i = 0; i < 4; i++)
        o->detail |= 16 * bits(w, 12 + i, 1) << 8 * i;
    return true;
}

static bool modify_imad(uint32_t w, struct bifrost_operation *o)
{
    unsigned k = (w - 0x73c000) >> 9;

    if (k > 2)
        return false;
    o->run = bifrost_imad[k];
    return true;
}

/* Bit 13: the word before is given. */
static void atomic(uint32_t w, struct bifrost_operation *o, unsigned operation)
{
    o->transfer = (struct bifrost_transfer){
        .words = bit(w, 13) ? 2 : 0, .bytes = 4, .align = 4, .width = 64, .atomic = (uint8_t)operation};
}

static bool modify_atomic(uint32_t w, struct bifrost_operation *o)
{
    unsigned operation = bits(w, 9, 4);

    atomic(w, o, operation);
    return bifrost_atomic_post[operation] != NULL;
}

/* With 1, or -1. */
static bool modify_atomic_1(uint32_t w, struct bifrost_operation *o)
{
    static const uint8_t operations[5] = {ATOMIC_ADD, ATOMIC_ADD, ATOMIC_UMAX, ATOMIC_SMAX, ATOMIC_OR};
    unsigned number = bits(w, 6, 3);

    if (number > 4)
        return false;
    atomic(w, o, operations[number]);
    o->detail = number == 1 ? ~0u : 1;
    return true;
}

static bool modify_atomic_post(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_atomic_post[bits(w, 6, 4)];
    return true;
}

static const struct bifrost_row rows[] = {
    {0x000000, 0x600000, 3, BIFROST_ALU, bifrost_fma32, modify_fma},
    {0x200000, 0x7c0000, 2, BIFROST_ALU, NULL, modify_fmax},
    {0x240000, 0x7c0000, 2, BIFROST_ALU, NULL, modify_fcmp},
    {0x27fc00, 0x7ffe00, 3, BIFROST_ALU, bifrost_iaddc, NULL},
    {0x27fe00, 0x7ffe00, 3, BIFROST_ALU, bifrost_isubb, NULL},
    {0x280000, 0x7c0000, 4, BIFROST_ALU, bifrost_fma_rscale, modify_rscale},
    {0x2c0000, 0x7e0000, 2, BIFROST_ALU, bifrost_fadd32, modify_fadd},
    {0x2e0000, 0x7fc000, 4, BIFROST_ALU, NULL, modify_csel_f32},
    {0x2e3000, 0x7ff000, 4, BIFROST_ALU, NULL, modify_csel},
    {0x2e4000, 0x7fc000, 4, BIFROST_ALU, NULL, modify_csel},
    {0x2ec000, 0x7fe000, 2, BIFROST_ALU, NULL, modify_icmp16},
    {0x2ee000, 0x7ff000, 2, BIFROST_ALU, NULL, modify_icmp16},
    {0x2ef000, 0x7ffa00, 2, BIFROST_ALU, NULL, modify_icmp8},
    {0x2ef200, 0x7ffa00, 2, BIFROST_ALU, NULL, modify_icmp32},
    {0x2ef800, 0x7ffe00, 2, BIFROST_COMPARE_LOW, NULL, modify_icmpi},
    {0x2f4000, 0x7fc000, 3, BIFROST_ATOMIC_LOW, NULL, modify_atomic},
    {0x2f5e00, 0x7fde00, 2, BIFROST_ATOMIC_LOW, NULL, modify_atomic_1},
    {0x301000, 0x7f3800, 3, BIFROST_ALU, NULL, modify_shift_logic},
    {0x303000, 0x7f3800, 3, BIFROST_ALU, NULL, modify_shift_logic},
    {0x311000, 0x7f3800, 3, BIFROST_ALU, NULL, modify_shift_logic},
    {0x313000, 0x7f3800, 3, BIFROST_ALU, NULL, modify_shift_logic},
    {0x321000, 0x7fd800, 3, BIFROST_ALU, bifrost_rshift_xor, modify_shift_xor},
    {0x325000, 0x7fd800, 3, BIFROST_ALU, bifrost_lshift_xor, modify_shift_xor},
    {0x329000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x32b000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x32d000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x32f000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x331000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x333000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x335000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x335018, 0x7ff838, 3, BIFROST_ALU, NULL, modify_arshift},
    {0x337000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x339000, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_shift_add},
    {0x33c000, 0x7fe000, 3, BIFROST_SHIFT_LOW, NULL, modify_shift_double},
    {0x6e8000, 0x7fe000, 2, BIFROST_ALU, bifrost_to_halves, modify_to_halves},
    {0x6ee400, 0x7ffc00, 2, BIFROST_ALU, NULL, modify_atomic_post},
    {0x7009b0, 0x7ffff0, 1, BIFROST_ALU, NULL, modify_to_integer},
    {0x700bc0, 0x7ffff8, 1, BIFROST_ALU, bifrost_from_s32, NULL},
    {0x700bc8, 0x7ffff8, 1, BIFROST_ALU, bifrost_from_u32, NULL},
    {0x701ea0, 0x7ffff8, 1, BIFROST_ALU, bifrost_iabs, NULL},
    {0x700b40, 0x7fffc8, 1, BIFROST_ALU, bifrost_extract_signed, modify_byte},
    {0x700b48, 0x7fffc8, 1, BIFROST_ALU, bifrost_extract_unsigned, modify_byte},
    {0x700cc0, 0x7fffe8, 1, BIFROST_ALU, bifrost_extract_signed, modify_half},
    {0x700cc8, 0x7fffe8, 1, BIFROST_ALU, bifrost_extract_unsigned, modify_half},
    {0x700d10, 0x7ffff0, 1, BIFROST_ALU, NULL, modify_widened},
    {0x701500, 0x7fff40, 1, BIFROST_SEGMENT_LOW, bifrost_segment_low, modify_segment},
    {0x701963, 0x7fffff, 0, BIFROST_NOP, NULL, NULL},
    {0x701968, 0x7ffff8, 1, BIFROST_ALU, bifrost_move, NULL},
    {0x701b20, 0x7fff20, 1, BIFROST_ALU, NULL, modify_frexpm},
    {0x701a20, 0x7fff20, 1, BIFROST_ALU, NULL, modify_frexpm_log},
    {0x701c20, 0x7ffea0, 1, BIFROST_ALU, NULL, modify_frexpe},
    {0x701e20, 0x7fffe0, 1, BIFROST_ALU, NULL, modify_frexpe_log},
    {0x701fc0, 0x7ffff8, 1, BIFROST_ALU, bifrost_bitrev, NULL},
    {0x701fd0, 0x7ffff0, 1, BIFROST_ALU, bifrost_clz, modify_clz},
    {0x705c00, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_imed3},
    {0x705e00, 0x7ffe00, 3, BIFROST_ALU, NULL, modify_imed3},
    {0x706000, 0x7ff800, 3, BIFROST_ALU, NULL, modify_imed3},
    {0x707620, 0x7ffe60, 1, BIFROST_ALU, bifrost_fround_away, modify_fround},
    {0x70c020, 0x7ff860, 1, BIFROST_ALU, NULL, modify_fround},
    {0x707800, 0x7ff800, 3, BIFROST_ALU, NULL, modify_mux},
    {0x70e000, 0x7ff800, 2, BIFROST_POINTER_LOW, bifrost_pointer_u32, modify_pointer},
    {0x70e600, 0x7ffe00, 2, BIFROST_POINTER_LOW, bifrost_pointer_i64, modify_pointer_i64},
    {0x70e800, 0x7ff800, 2, BIFROST_POINTER_LOW, bifrost_pointer_s32, modify_pointer},
    {0x70f000, 0x7fff00, 2, BIFROST_ALU, bifrost_mkvec_halves, modify_halves},
    {0x70f400, 0x7ffc00, 2, BIFROST_ALU, bifrost_fadd_lscale, modify_lscale},
    {0x710000, 0x7f0000, 4, BIFROST_ALU, bifrost_mkvec_bytes, modify_bytes},
    {0x720000, 0x7ffe00, 3, BIFROST_MULTIPLY_64, bifrost_imad64, NULL},
    {0x73c000, 0x7ff800, 3, BIFROST_ALU, NULL, modify_imad},
    {0x73c6d8, 0x7ffff8, 1, BIFROST_ALU, bifrost_popcount, NULL},
};

bool bifrost_fma(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_fma_half(word, operation) || bifrost_fma_narrow(word, operation) ||
           bifrost_look_up(rows, sizeof(rows) / sizeof(rows[0]), word, operation);
}
