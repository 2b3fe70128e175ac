/* SPDX-License-Identifier: BSD-2-Clause */
/* Integers: sums, products, shifts, logic, lanes within words. Sources: see mali_bifrost.h. */
#include "mali_bifrost_integer.h"

#include "mali_bifrost_lanes.h"

BIFROST_HANDLER(bifrost_move, a);
BIFROST_HANDLER(bifrost_move_low, (b & 0xffff0000u) | (a & 0xffff));
BIFROST_HANDLER(bifrost_move_high, (b & 0xffff) | a << 16);
BIFROST_HANDLER(bifrost_zero, 0);

BIFROST_HANDLER(bifrost_iadd, a + b);
BIFROST_HANDLER(bifrost_isub, a - b);
BIFROST_HANDLER(bifrost_iaddc, a + b + (c & 1));
BIFROST_HANDLER(bifrost_isubb, a - b - (c & 1));
BIFROST_HANDLER(bifrost_iabs, a >> 31 ? 0 - a : a);

/* The sum, or the limit that it exceeds: that of the first source's sign. */
static uint32_t saturated(uint32_t sum, bool overflow, uint32_t first)
{
    return overflow ? (uint32_t)INT32_MAX + (first >> 31) : sum;
}

BIFROST_HANDLER(bifrost_iadd_saturating, saturated(a + b, (~(a ^ b) & (a ^ (a + b))) >> 31, a));
BIFROST_HANDLER(bifrost_isub_saturating, saturated(a - b, ((a ^ b) & (a ^ (a - b))) >> 31, a));
BIFROST_HANDLER(bifrost_iadd_saturating_u32, a + b < a ? UINT32_MAX : a + b);
BIFROST_HANDLER(bifrost_isub_saturating_u32, a < b ? 0 : a - b);

static BIFROST_HANDLER(add_signed_lane, a + SIGNED_LANE(b));
static BIFROST_HANDLER(add_unsigned_lane, a + UNSIGNED_LANE(b));
static BIFROST_HANDLER(subtract_signed_lane, a - SIGNED_LANE(b));
static BIFROST_HANDLER(subtract_unsigned_lane, a - UNSIGNED_LANE(b));
bifrost_run *const bifrost_iadd_lane[4] = {add_signed_lane, add_unsigned_lane, subtract_signed_lane,
                                           subtract_unsigned_lane};
BIFROST_HANDLER(bifrost_extract_signed, SIGNED_LANE(a));
BIFROST_HANDLER(bifrost_extract_unsigned, UNSIGNED_LANE(a));

BIFROST_SLOW_HANDLER(bifrost_popcount, (uint32_t)__builtin_popcount(a));
BIFROST_SLOW_HANDLER(bifrost_clz, a ? (uint32_t)__builtin_clz(a) : 32);

static uint32_t reversed(uint32_t x)
{
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}

BIFROST_HANDLER(bifrost_bitrev, reversed(a));

static BIFROST_HANDLER(multiply_add, a *b + c);
static BIFROST_HANDLER(multiply_sub, a *b - c);
static BIFROST_HANDLER(multiply_rsub, c - a * b);
bifrost_run *const bifrost_imad[3] = {multiply_add, multiply_sub, multiply_rsub};

void bifrost_imad64(const struct bifrost_uop *u, bifrost_vector *slot, uint32_t *to)
{
    uint32_t *const high = slot[u->detail];

    for (int i = 0; i < BIFROST_LANES; i++) {
        uint64_t x = slot[u->from[0]][i] | (uint64_t)slot[u->high[0]][i] << 32;
        uint64_t y = slot[u->from[1]][i] | (uint64_t)slot[u->high[1]][i] << 32;
        uint64_t z = slot[u->from[2]][i] | (uint64_t)slot[u->high[2]][i] << 32;
        uint64_t result = x * y + z;
        to[i] = (uint32_t)result;
        high[i] = (uint32_t)(result >> 32);
    }
}

#define LARGER(type, x, y) ((type)(x) > (type)(y) ? (x) : (y))
#define SMALLER(type, x, y) ((type)(x) < (type)(y) ? (x) : (y))
#define MEDIAN(type) LARGER(type, SMALLER(type, a, b), SMALLER(type, LARGER(type, a, b), c))
static BIFROST_HANDLER(max3_signed, LARGER(int32_t, LARGER(int32_t, a, b), c));
static BIFROST_HANDLER(max3_unsigned, LARGER(uint32_t, LARGER(uint32_t, a, b), c));
static BIFROST_HANDLER(min3_signed, SMALLER(int32_t, SMALLER(int32_t, a, b), c));
static BIFROST_HANDLER(min3_unsigned, SMALLER(uint32_t, SMALLER(uint32_t, a, b), c));
static BIFROST_HANDLER(median_signed, MEDIAN(int32_t));
static BIFROST_HANDLER(median_unsigned, MEDIAN(uint32_t));
bifrost_run *const bifrost_imed3[6] = {max3_signed,   max3_unsigned, min3_signed,
                                       min3_unsigned, median_signed, median_unsigned};

BIFROST_HANDLER(bifrost_mkvec_halves, (a >> (detail & 31) & 0xffff) | b >> (detail >> 8 & 31) << 16);
BIFROST_HANDLER(bifrost_mkvec_bytes, (a >> (detail & 31) & 0xff) | (b >> (detail >> 8 & 31) & 0xff) << 8 |
                                         (c >> (detail >> 16 & 31) & 0xff) << 16 |
                                         d >> (detail >> 24 & 31) << 24);

static BIFROST_HANDLER(mux_neg, c >> 31 ? b : a);
static BIFROST_HANDLER(mux_int_zero, c ? b : a);
static BIFROST_HANDLER(mux_fp_zero, c << 1 ? b : a);
static BIFROST_HANDLER(mux_bit, (a & c) | (b & ~c));
bifrost_run *const bifrost_mux[4] = {mux_neg, mux_int_zero, mux_fp_zero, mux_bit};

/* ---- shifts ---- */

#define AMOUNT (c >> (detail & 31) & 31)
#define ARITHMETIC(x, by) (uint32_t)((int32_t)(x) >> (by))

static BIFROST_HANDLER(left_and, (((a << AMOUNT) ^ flip0) & (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(right_and, (((a >> AMOUNT) ^ flip0) & (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(left_or, (((a << AMOUNT) ^ flip0) | (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(right_or, (((a >> AMOUNT) ^ flip0) | (b ^ flip1)) ^ flip2);
BIFROST_HANDLER(bifrost_lshift_xor, (a << AMOUNT) ^ b ^ flip2);
BIFROST_HANDLER(bifrost_rshift_xor, (a >> AMOUNT) ^ b ^ flip2);
bifrost_run *const bifrost_shift_and[2] = {left_and, right_and};
bifrost_run *const bifrost_shift_or[2] = {left_or, right_or};

static BIFROST_HANDLER(left_add, (a << AMOUNT) + b);
static BIFROST_HANDLER(left_sub, (a << AMOUNT) - b);
static BIFROST_HANDLER(left_rsub, b - (a << AMOUNT));
static BIFROST_HANDLER(right_add, (a >> AMOUNT) + b);
static BIFROST_HANDLER(right_sub, (a >> AMOUNT) - b);
static BIFROST_HANDLER(right_rsub, b - (a >> AMOUNT));
static BIFROST_HANDLER(arithmetic_add, ARITHMETIC(a, AMOUNT) + b);
static BIFROST_HANDLER(arithmetic_sub, ARITHMETIC(a, AMOUNT) - b);
static BIFROST_HANDLER(arithmetic_rsub, b - ARITHMETIC(a, AMOUNT));
bifrost_run *const bifrost_shift_add[9] = {left_add,       left_sub,       left_rsub,
                                           right_add,      right_sub,      right_rsub,
                                           arithmetic_add, arithmetic_sub, arithmetic_rsub};

static BIFROST_HANDLER(shift_left, a << (b & 31));
static BIFROST_HANDLER(shift_right, a >> (b & 31));
static BIFROST_HANDLER(shift_arithmetic, ARITHMETIC(a, b & 31));
bifrost_run *const bifrost_shift[3] = {shift_left, shift_right, shift_arithmetic};

BIFROST_HANDLER(bifrost_or, a | b);
BIFROST_HANDLER(bifrost_and, a &b);
BIFROST_HANDLER(bifrost_xor, a ^ b);

#define BOTH_WORDS (a | (uint64_t)b << 32)
static BIFROST_HANDLER(double_left, (uint32_t)(BOTH_WORDS << (c & 63)));
static BIFROST_HANDLER(double_right, (uint32_t)(BOTH_WORDS >> (c & 63)));
static BIFROST_HANDLER(double_left_high, (uint32_t)(BOTH_WORDS << (c & 63) >> 32));
static BIFROST_HANDLER(double_right_high, (uint32_t)(BOTH_WORDS >> (c & 63) >> 32));
bifrost_run *const bifrost_shift_double_low[2] = {double_left, double_right};
bifrost_run *const bifrost_shift_double_high[2] = {double_left_high, double_right_high};
