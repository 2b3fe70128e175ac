/* SPDX-License-Identifier: BSD-2-Clause */
/* Integers of 16 and 8 bits, two and four in a word. Sources: see mali_bifrost.h. */
#include "mali_bifrost_narrow.h"

#include "mali_bifrost_lanes.h"

/* Element e of a source: what its shift, 8 bits of `places`, brings to the bottom. */
#define AT(x, places, e) ((x) >> ((places) >> 8 * (e)&31))

/* Handler NAME of two, four elements: BODY in x, y, z, the elements of a, b, c. */
#define HALF_OF(type, BODY, e) (uint32_t)(uint16_t) BODY(type, e) << 16 * (e)
#define BYTE_OF(type, BODY, e) (uint32_t)(uint8_t) BODY(type, e) << 8 * (e)
#define TWO(type, BODY) HALF_OF(type, BODY, 0) | HALF_OF(type, BODY, 1)
#define FOUR(type, BODY)                                                                                     \
    BYTE_OF(type, BODY, 0) | BYTE_OF(type, BODY, 1) | BYTE_OF(type, BODY, 2) | BYTE_OF(type, BODY, 3)

#define X(type, e) (type) AT(a, keep0, e)
#define Y(type, e) (type) AT(b, keep1, e)

/* ---- sums, means, products ---- */

#define ADDED(type, e) (X(type, e) + Y(type, e))
#define SUBTRACTED(type, e) (X(type, e) - Y(type, e))

static int32_t limited(int32_t value, int32_t low, int32_t high)
{
    return value < low ? low : value > high ? high : value;
}

#define ADDED_S16(type, e) limited(ADDED(type, e), INT16_MIN, INT16_MAX)
#define ADDED_U16(type, e) limited(ADDED(type, e), 0, UINT16_MAX)
#define ADDED_S8(type, e) limited(ADDED(type, e), INT8_MIN, INT8_MAX)
#define ADDED_U8(type, e) limited(ADDED(type, e), 0, UINT8_MAX)
#define SUBTRACTED_S16(type, e) limited(SUBTRACTED(type, e), INT16_MIN, INT16_MAX)
#define SUBTRACTED_U16(type, e) limited(SUBTRACTED(type, e), 0, UINT16_MAX)
#define SUBTRACTED_S8(type, e) limited(SUBTRACTED(type, e), INT8_MIN, INT8_MAX)
#define SUBTRACTED_U8(type, e) limited(SUBTRACTED(type, e), 0, UINT8_MAX)

static BIFROST_HANDLER(add_v2, TWO(uint16_t, ADDED));
static BIFROST_HANDLER(add_v2_s16, TWO(int16_t, ADDED_S16));
static BIFROST_HANDLER(add_v2_u16, TWO(uint16_t, ADDED_U16));
static BIFROST_HANDLER(subtract_v2, TWO(uint16_t, SUBTRACTED));
static BIFROST_HANDLER(subtract_v2_s16, TWO(int16_t, SUBTRACTED_S16));
static BIFROST_HANDLER(subtract_v2_u16, TWO(uint16_t, SUBTRACTED_U16));
static BIFROST_HANDLER(add_v4, FOUR(uint8_t, ADDED));
static BIFROST_HANDLER(add_v4_s8, FOUR(int8_t, ADDED_S8));
static BIFROST_HANDLER(add_v4_u8, FOUR(uint8_t, ADDED_U8));
static BIFROST_HANDLER(subtract_v4, FOUR(uint8_t, SUBTRACTED));
static BIFROST_HANDLER(subtract_v4_s8, FOUR(int8_t, SUBTRACTED_S8));
static BIFROST_HANDLER(subtract_v4_u8, FOUR(uint8_t, SUBTRACTED_U8));
bifrost_run *const bifrost_add_v2[6] = {add_v2,      add_v2_s16,      add_v2_u16,
                                        subtract_v2, subtract_v2_s16, subtract_v2_u16};
bifrost_run *const bifrost_add_v4[6] = {add_v4,      add_v4_s8,      add_v4_u8,
                                        subtract_v4, subtract_v4_s8, subtract_v4_u8};

/* `detail` is added before the division: rounded up with 1. */
#define MEAN(type, e) (ADDED(type, e) + (int32_t)detail) >> 1
static BIFROST_HANDLER(mean_s32, (uint32_t)(((int64_t)(int32_t)a + (int32_t)b + detail) >> 1));
static BIFROST_HANDLER(mean_u32, (uint32_t)(((uint64_t)a + b + detail) >> 1));
#define MEAN_OF(type, e) (MEAN(type, e))
static BIFROST_HANDLER(mean_v2_s16, TWO(int16_t, MEAN_OF));
static BIFROST_HANDLER(mean_v2_u16, TWO(uint16_t, MEAN_OF));
static BIFROST_HANDLER(mean_v4_s8, FOUR(int8_t, MEAN_OF));
static BIFROST_HANDLER(mean_v4_u8, FOUR(uint8_t, MEAN_OF));
bifrost_run *const bifrost_mean[6] = {mean_s32, mean_u32, mean_v2_s16, mean_v2_u16, mean_v4_s8, mean_v4_u8};

#define ABSOLUTE(type, e) (X(type, e) < 0 ? -X(type, e) : X(type, e))
BIFROST_HANDLER(bifrost_iabs_v2, TWO(int16_t, ABSOLUTE));
BIFROST_HANDLER(bifrost_iabs_v4, FOUR(int8_t, ABSOLUTE));

#define MULTIPLIED(type, e) ((uint32_t)X(type, e) * Y(type, e))
BIFROST_HANDLER(bifrost_imul_v2, TWO(uint16_t, MULTIPLIED));
BIFROST_HANDLER(bifrost_imul_v4, FOUR(uint8_t, MULTIPLIED));
BIFROST_HANDLER(bifrost_imul_signed, a *SIGNED_LANE(b));
BIFROST_HANDLER(bifrost_imul_unsigned, a *UNSIGNED_LANE(b));

/* ---- places ---- */

#define TAKEN(type, e) X(type, e)
BIFROST_HANDLER(bifrost_swizzle_v2, TWO(uint16_t, TAKEN));
BIFROST_HANDLER(bifrost_swizzle_v4, FOUR(uint8_t, TAKEN));
BIFROST_HANDLER(bifrost_halves_of_s8, TWO(int8_t, TAKEN));
BIFROST_HANDLER(bifrost_halves_of_u8, TWO(uint8_t, TAKEN));

#define ZEROS16(type, e) (X(type, e) ? __builtin_clz(X(type, e)) - 16 : 16)
#define ZEROS8(type, e) (X(type, e) ? __builtin_clz(X(type, e)) - 24 : 8)
BIFROST_SLOW_HANDLER(bifrost_clz_v2, TWO(uint16_t, ZEROS16));
BIFROST_SLOW_HANDLER(bifrost_clz_v4, FOUR(uint8_t, ZEROS8));

/* ---- choices ---- */

#define Z(type, e) (type) AT(c, keep2, e)
#define BY_SIGN(type, e) (Z(type, e) < 0 ? Y(type, e) : X(type, e))
#define BY_ZERO(type, e) (Z(type, e) ? Y(type, e) : X(type, e))
#define BY_FLOAT(type, e) (Z(type, e) & 0x7fff ? Y(type, e) : X(type, e))
#define BY_BIT(type, e) ((X(type, e) & Z(type, e)) | (Y(type, e) & ~Z(type, e)))
static BIFROST_HANDLER(mux_v2_neg, TWO(int16_t, BY_SIGN));
static BIFROST_HANDLER(mux_v2_int_zero, TWO(uint16_t, BY_ZERO));
static BIFROST_HANDLER(mux_v2_fp_zero, TWO(uint16_t, BY_FLOAT));
static BIFROST_HANDLER(mux_v2_bit, TWO(uint16_t, BY_BIT));
static BIFROST_HANDLER(mux_v4_neg, FOUR(int8_t, BY_SIGN));
static BIFROST_HANDLER(mux_v4_int_zero, FOUR(uint8_t, BY_ZERO));
bifrost_run *const bifrost_mux_v2[4] = {mux_v2_neg, mux_v2_int_zero, mux_v2_fp_zero, mux_v2_bit};
bifrost_run *const bifrost_mux_v4[2] = {mux_v4_neg, mux_v4_int_zero};

/* Elements are where they are: c's if the condition holds, else d's. */
#define CHOSEN(type, op, e) ((type)(a >> 16 * (e)) op(type)(b >> 16 * (e)) ? c : d) & 0xffffu << 16 * (e)
#define CHOICE(type, op) (CHOSEN(type, op, 0)) | (CHOSEN(type, op, 1))
static BIFROST_HANDLER(csel_i16_eq, CHOICE(uint16_t, ==));
static BIFROST_HANDLER(csel_s16_gt, CHOICE(int16_t, >));
static BIFROST_HANDLER(csel_s16_ge, CHOICE(int16_t, >=));
static BIFROST_HANDLER(csel_u16_gt, CHOICE(uint16_t, >));
static BIFROST_HANDLER(csel_u16_ge, CHOICE(uint16_t, >=));
bifrost_run *const bifrost_csel_s16[6] = {[BIFROST_GT] = csel_s16_gt, [BIFROST_GE] = csel_s16_ge};
bifrost_run *const bifrost_csel_u16[6] = {
    [BIFROST_EQ] = csel_i16_eq, [BIFROST_GT] = csel_u16_gt, [BIFROST_GE] = csel_u16_ge};

/* ---- shifts: by bytes of c, modulo the element's size; places of c in keep2 ---- */

#define BY16(e) (AT(c, keep2, e) & 15)
#define BY8(e) (AT(c, keep2, e) & 7)
#define LEFT16(type, e) ((type)(a >> 16 * (e)) << BY16(e))
#define RIGHT16(type, e) ((type)(a >> 16 * (e)) >> BY16(e))
#define LEFT8(type, e) ((type)(a >> 8 * (e)) << BY8(e))
#define RIGHT8(type, e) ((type)(a >> 8 * (e)) >> BY8(e))
#define LEFT_V2 (TWO(uint16_t, LEFT16))
#define RIGHT_V2 (TWO(uint16_t, RIGHT16))
#define LEFT_V4 (FOUR(uint8_t, LEFT8))
#define RIGHT_V4 (FOUR(uint8_t, RIGHT8))

static BIFROST_HANDLER(left_and_v2, (LEFT_V2 & (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(right_and_v2, (RIGHT_V2 & (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(left_and_v4, (LEFT_V4 & (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(right_and_v4, (RIGHT_V4 & (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(left_or_v2, (LEFT_V2 | (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(right_or_v2, (RIGHT_V2 | (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(left_or_v4, (LEFT_V4 | (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(right_or_v4, (RIGHT_V4 | (b ^ flip1)) ^ flip2);
static BIFROST_HANDLER(left_xor_v2, LEFT_V2 ^ b ^ flip2);
static BIFROST_HANDLER(right_xor_v2, RIGHT_V2 ^ b ^ flip2);
static BIFROST_HANDLER(left_xor_v4, LEFT_V4 ^ b ^ flip2);
static BIFROST_HANDLER(right_xor_v4, RIGHT_V4 ^ b ^ flip2);
static BIFROST_HANDLER(arithmetic_v2, TWO(int16_t, RIGHT16));
static BIFROST_HANDLER(arithmetic_v4, FOUR(int8_t, RIGHT8));
bifrost_run *const bifrost_shift_logic_v2[6] = {left_and_v2, right_and_v2, left_or_v2,
                                                right_or_v2, left_xor_v2,  right_xor_v2};
bifrost_run *const bifrost_shift_logic_v4[6] = {left_and_v4, right_and_v4, left_or_v4,
                                                right_or_v4, left_xor_v4,  right_xor_v4};
bifrost_run *const bifrost_arshift_narrow[2] = {arithmetic_v2, arithmetic_v4};
