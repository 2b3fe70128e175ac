/* SPDX-License-Identifier: BSD-2-Clause */
/* Operations on integers of 16 and 8 bits, two and four in a word, of both units, and what takes one of them:
 * their encodings. Sources: Mesa 25.0.7 src/panfrost/compiler/bifrost/ISA.xml; else see mali_bifrost.h. */
#include "mali_bifrost_encoding.h"
#include "mali_bifrost_half.h"
#include "mali_bifrost_narrow.h"

enum { HALVES = 16 << 8, BYTES = 8 << 8 | 16 << 16 | 24 << 24 }; /* shifts of elements that stay in place */

static void in_place(struct bifrost_operation *o, uint32_t shifts)
{
    for (unsigned i = 0; i < 3; i++)
        o->keep[i] = shifts;
}

static uint32_t halves(unsigned code)
{
    return 16 * (code & 1) | 16 * (code >> 1) << 8;
}

/* Two bytes, as elements 0 and 1. */
static bool modify_two_bytes(uint32_t w, struct bifrost_operation *o)
{
    o->keep[0] = 8 * bits(w, 4, 2) | 8 * bits(w, 6, 2) << 8;
    return true;
}

/* Bits 8:7: saturates, unsigned; an unsigned sum that does not saturate is the signed one. */
static bool modify_add_v2(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_add_v2[3 * bit(w, 12) + (bit(w, 8) ? 1u + bit(w, 7) : 0)];
    if (bit(w, 13)) { /* one half of source 1 for both */
        o->keep[0] = HALVES;
        o->keep[1] = bit(w, 9) ? 16 | 16 << 8 : 0;
    } else {
        o->keep[0] = bit(w, 10) ? 16 : HALVES;
        o->keep[1] = bit(w, 9) ? 16 : HALVES;
    }
    return bit(w, 8) || !bit(w, 7);
}

static bool modify_add_v4(uint32_t w, struct bifrost_operation *o)
{
    o->run = bifrost_add_v4[3 * bit(w, 12) + (bit(w, 8) ? 1u + bit(w, 7) : 0)];
    in_place(o, BYTES);
    if (bit(w, 13)) /* one byte of source 1 for all */
        o->keep[1] = 8 * bits(w, 9, 2) * 0x01010101u;
    return bit(w, 8) || !bit(w, 7);
}

/* Bits 11:10 of words, bytes or halves; 7: unsigned; 12: up. */
static bool modify_mean(uint32_t w, struct bifrost_operation *o)
{
    unsigned kind = bit(w, 11) ? 2 : bit(w, 9) ? 0 : 4;

    o->run = bifrost_mean[kind + bit(w, 7)];
    in_place(o, kind == 4 ? BYTES : HALVES);
    if (kind == 2) {
        o->keep[0] = bit(w, 10) ? 16 : HALVES;
        o->keep[1] = bit(w, 9) ? 16 : HALVES;
    }
    o->detail = bit(w, 12);
    return true;
}

static bool modify_halves_of_one(uint32_t w, struct bifrost_operation *o)
{
    o->keep[0] = halves(bits(w, 4, 2));
    return true;
}

static bool modify_bytes_of_one(uint32_t w, struct bifrost_operation *o)
{
    (void)w;
    in_place(o, BYTES);
    return true;
}

/* Bit 3 is a mask whose meaning is not known. */
static bool modify_clz_v2(uint32_t w, struct bifrost_operation *o)
{
    return modify_halves_of_one(w, o) && !bit(w, 3);
}

static bool modify_clz_v4(uint32_t w, struct bifrost_operation *o)
{
    return modify_bytes_of_one(w, o) && !bit(w, 3);
}

static bool modify_swizzle_v2(uint32_t w, struct bifrost_operation *o)
{
    return modify_halves_of_one(w, o) && bits(w, 4, 2) != 2;
}

static bool modify_swizzle_v4(uint32_t w, struct bifrost_operation *o)
{
    static const uint32_t bytes[8] = {0x00000000, 0x01010101, 0x02020202, 0x03030303,
                                      0x01010000, 0x03030202, 0x02030001, 0x00010203};

    o->keep[0] = 8 * bytes[bits(w, 3, 3)];
    return true;
}

static bool modify_imul_v2(uint32_t w, struct bifrost_operation *o)
{
    o->keep[0] = halves(bits(w, 9, 2));
    o->keep[1] = halves(bits(w, 11, 2));
    return true;
}

static bool modify_imul_v4(uint32_t w, struct bifrost_operation *o)
{
    in_place(o, BYTES);
    if (!bit(w, 13)) /* one byte of source 1 for all */
        o->keep[1] = 8 * bits(w, 9, 2) * 0x01010101u;
    return true;
}

static bool modify_imul_half(uint32_t w, struct bifrost_operation *o)
{
    o->run = bit(w, 10) ? bifrost_imul_signed : bifrost_imul_unsigned;
    o->detail = half_shifts(bit(w, 9));
    return true;
}

static bool modify_imul_byte(uint32_t w, struct bifrost_operation *o)
{
    o->run = bit(w, 11) ? bifrost_imul_signed : bifrost_imul_unsigned;
    o->detail = byte_shifts(bits(w, 9, 2));
    return true;
}

static bool modify_csel_v2(uint32_t w, struct bifrost_operation *o)
{
    if (bits(w, 12, 3) == 3)
        o->run = bifrost_csel_u16[BIFROST_EQ];
    else
        o->run = (bit(w, 13) ? bifrost_csel_u16 : bifrost_csel_s16)[bit(w, 12) ? BIFROST_GE : BIFROST_GT];
    return true;
}

static bool modify_icmp_v2(uint32_t w, struct bifrost_operation *o)
{
    half_lanes(o, bits(w, 6, 2), bits(w, 8, 2));
    integer_truth(o, bit(w, 10));
    if (bit(w, 13))
        o->run = bifrost_icmp_u16[bit(w, 11) ? BIFROST_NE : BIFROST_EQ];
    else
        o->run = bifrost_icmp_s16[bit(w, 12) ? BIFROST_GE : BIFROST_GT];
    return true;
}

static bool modify_mux_v2(uint32_t w, struct bifrost_operation *o)
{
    for (unsigned i = 0; i < 3; i++)
        o->keep[i] = bit(w, 13 - i) ? 16 : HALVES;
    o->run = bifrost_mux_v2[bits(w, 9, 2)];
    return true;
}

static bool modify_mux_v4(uint32_t w, struct bifrost_operation *o)
{
    in_place(o, BYTES);
    o->run = bifrost_mux_v4[bit(w, 9)];
    return true;
}

/* Bits of shifts: 12:11 and 10:9 say of what size elements are, and which bytes of source 2 shift them. */
static bool shift_sizes(uint32_t w, struct bifrost_operation *o, bool *in_bytes)
{
    static const uint32_t bytes_of[4] = {BYTES, 8 << 8, 16 | 24 << 8, 16 << 8}; /* b0123, b01, b23, b02 */
    unsigned size = bits(w, 11, 2), lanes = bits(w, 9, 2);

    *in_bytes = size == 0 || (size == 3 && lanes == 0);
    o->keep[2] = size == 3 ? bytes_of[lanes] : 8 * lanes * 0x01010101u;
    return size != 2;
}

/* Bit 16: left; 13: OR; 14 and 15 as those of words. */
static bool modify_narrow_logic(uint32_t w, struct bifrost_operation *o)
{
    bool is_or = bit(w, 13), in_bytes, known = shift_sizes(w, o, &in_bytes);

    o->run = (in_bytes ? bifrost_shift_logic_v4 : bifrost_shift_logic_v2)[2 * is_or + !bit(w, 16)];
    o->flip[1] = bit(w, 14) != is_or ? ~0u : 0;
    o->flip[2] = bit(w, 15) == is_or ? ~0u : 0;
    return known;
}

static bool modify_narrow_xor(uint32_t w, struct bifrost_operation *o)
{
    bool in_bytes, known = shift_sizes(w, o, &in_bytes);

    o->run = (in_bytes ? bifrost_shift_logic_v4 : bifrost_shift_logic_v2)[4 + !bit(w, 14)];
    o->flip[2] = bit(w, 13) ? ~0u : 0;
    return known;
}

static bool modify_narrow_arshift(uint32_t w, struct bifrost_operation *o)
{
    bool in_bytes, known = shift_sizes(w, o, &in_bytes);

    o->run = bifrost_arshift_narrow[in_bytes];
    return known;
}

/* ---- tables ---- */

static const struct bifrost_row fma_rows[] = {
    {0x300000, 0x7f2000, 3, BIFROST_ALU, NULL, modify_narrow_logic},
    {0x302000, 0x7f2000, 3, BIFROST_ALU, NULL, modify_narrow_logic},
    {0x310000, 0x7f2000, 3, BIFROST_ALU, NULL, modify_narrow_logic},
    {0x312000, 0x7f2000, 3, BIFROST_ALU, NULL, modify_narrow_logic},
    {0x320000, 0x7f8000, 3, BIFROST_ALU, NULL, modify_narrow_xor},
    {0x334018, 0x7fe038, 3, BIFROST_ALU, NULL, modify_narrow_arshift},
    {0x6e3000, 0x7ff000, 4, BIFROST_ALU, NULL, modify_csel_v2},
    {0x6e4000, 0x7fc000, 4, BIFROST_ALU, NULL, modify_csel_v2},
    {0x701ec0, 0x7fffc0, 1, BIFROST_ALU, bifrost_clz_v2, modify_clz_v2},
    {0x701f90, 0x7ffff0, 1, BIFROST_ALU, bifrost_clz_v4, modify_clz_v4},
    {0x7240c0, 0x7fe1c0, 2, BIFROST_ALU, bifrost_imul_v2, modify_imul_v2},
    {0x7380c0, 0x7ff9c0, 2, BIFROST_ALU, bifrost_imul_v4, modify_imul_v4},
    {0x73b0c0, 0x7ff1c0, 2, BIFROST_ALU, NULL, modify_imul_byte},
    {0x73c8c0, 0x7ff9c0, 2, BIFROST_ALU, NULL, modify_imul_half},
    {0x73e0c0, 0x7fffc0, 2, BIFROST_ALU, bifrost_imul_v4, modify_imul_v4},
};
static const struct bifrost_row add_rows[] = {
    {0x3c700, 0xfff08, 1, BIFROST_ALU, bifrost_halves_of_s8, modify_two_bytes},
    {0x3c708, 0xfff08, 1, BIFROST_ALU, bifrost_halves_of_u8, modify_two_bytes},
    {0x3c800, 0xfff08, 1, BIFROST_ALU, bifrost_float_halves_of_s8, modify_two_bytes},
    {0x3c808, 0xfff08, 1, BIFROST_ALU, bifrost_float_halves_of_u8, modify_two_bytes},
    {0x3d948, 0xfffc8, 1, BIFROST_ALU, bifrost_swizzle_v2, modify_swizzle_v2},
    {0x3de88, 0xfffc8, 1, BIFROST_ALU, bifrost_iabs_v2, modify_halves_of_one},
    {0x3deb0, 0xffff8, 1, BIFROST_ALU, bifrost_iabs_v4, modify_bytes_of_one},
    {0x3df40, 0xfffc0, 1, BIFROST_ALU, bifrost_swizzle_v4, modify_swizzle_v4},
    {0x70000, 0xfc000, 3, BIFROST_ALU, NULL, modify_mux_v2},
    {0x74800, 0xffc00, 3, BIFROST_ALU, NULL, modify_mux_v4},
    {0x78000, 0xfe800, 2, BIFROST_ALU, NULL, modify_icmp_v2},
    {0x7a000, 0xff000, 2, BIFROST_ALU, NULL, modify_icmp_v2},
    {0xbc400, 0xfee40, 2, BIFROST_ALU, NULL, modify_add_v4},
    {0xbc440, 0xfef40, 2, BIFROST_ALU, NULL, modify_mean},
    {0xbc640, 0xfef40, 2, BIFROST_ALU, NULL, modify_mean},
    {0xbc800, 0xfe840, 2, BIFROST_ALU, NULL, modify_add_v2},
    {0xbc840, 0xfe940, 2, BIFROST_ALU, NULL, modify_mean},
    {0xbe040, 0xfe840, 2, BIFROST_ALU, NULL, modify_add_v4},
    {0xbec40, 0xfec40, 2, BIFROST_ALU, NULL, modify_add_v2},
};

bool bifrost_fma_narrow(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_look_up(fma_rows, sizeof(fma_rows) / sizeof(fma_rows[0]), word, operation);
}

bool bifrost_add_narrow(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_look_up(add_rows, sizeof(add_rows) / sizeof(add_rows[0]), word, operation);
}
