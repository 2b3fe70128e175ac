/* SPDX-License-Identifier: BSD-2-Clause */
/* Floats to integers, to halves and back, rounding to integers. Sources: see mali_bifrost.h. */
#include "mali_bifrost_float.h"

#include "mali_bifrost_lanes.h"

/* Saturating, NaN becomes 0. */
static uint32_t to_s32(float value)
{
    if (value != value)
        return 0;
    return (uint32_t)(value >= 0x1p31f ? INT32_MAX : value <= -0x1p31f ? INT32_MIN : (int32_t)value);
}

static uint32_t to_u32(float value)
{
    return value >= 0x1p32f ? UINT32_MAX : value > 0 ? (uint32_t)value : 0;
}

static BIFROST_HANDLER(s32_even, to_s32(rintf(FA)));
static BIFROST_HANDLER(s32_up, to_s32(ceilf(FA)));
static BIFROST_HANDLER(s32_down, to_s32(floorf(FA)));
static BIFROST_HANDLER(s32_zero, to_s32(FA));
static BIFROST_HANDLER(u32_even, to_u32(rintf(FA)));
static BIFROST_HANDLER(u32_up, to_u32(ceilf(FA)));
static BIFROST_HANDLER(u32_down, to_u32(floorf(FA)));
static BIFROST_HANDLER(u32_zero, to_u32(FA));
static BIFROST_HANDLER(round_even, bifrost_bits(rintf(FA)));
static BIFROST_HANDLER(round_up, bifrost_bits(ceilf(FA)));
static BIFROST_HANDLER(round_down, bifrost_bits(floorf(FA)));
static BIFROST_HANDLER(round_zero, bifrost_bits(truncf(FA)));

bifrost_run *const bifrost_to_s32[4] = {s32_even, s32_up, s32_down, s32_zero};
bifrost_run *const bifrost_to_u32[4] = {u32_even, u32_up, u32_down, u32_zero};
bifrost_run *const bifrost_fround[4] = {round_even, round_up, round_down, round_zero};

BIFROST_HANDLER(bifrost_fround_away, bifrost_bits(roundf(FA)));
BIFROST_HANDLER(bifrost_from_s32, bifrost_bits((float)(int32_t)a));
BIFROST_HANDLER(bifrost_from_u32, bifrost_bits((float)a));

/* Parts of words: see bifrost_extract_signed. */
BIFROST_HANDLER(bifrost_from_signed_lane, bifrost_bits((float)(int32_t)SIGNED_LANE(a)));
BIFROST_HANDLER(bifrost_from_unsigned_lane, bifrost_bits((float)UNSIGNED_LANE(a)));

/* A half: sign 15, exponent 14:10, mantissa 9:0. Counted in units of its last place, mantissa and exponent
 * together are one number, which a carry continues. */
uint32_t bifrost_to_half(double value, unsigned mode)
{
    uint32_t sign = signbit(value) ? 0x8000 : 0;
    int exponent;

    if (value != value)
        return 0x7e00;
    if (isinf(value))
        return sign | 0x7c00;
    (void)frexp(value, &exponent);
    exponent = value == 0 || exponent < -13 ? -14 : exponent - 1;
    double places = ldexp(value, 10 - exponent);
    switch (mode) {
    case ROUND_UP: places = ceil(places); break;
    case ROUND_DOWN: places = floor(places); break;
    case ROUND_ZERO: places = trunc(places); break;
    default: places = rint(places);
    }
    if (exponent <= 15)
        return sign | ((uint32_t)fabs(places) + ((uint32_t)(exponent + 14) << 10));
    return sign | (mode == ROUND_EVEN || mode == (sign ? ROUND_DOWN : ROUND_UP) ? 0x7c00 : 0x7bff);
}

BIFROST_SLOW_HANDLER(bifrost_to_halves,
                     bifrost_to_half((double)FA, detail) | bifrost_to_half((double)FB, detail) << 16);
