/* SPDX-License-Identifier: BSD-2-Clause */
/* Floats to integers, integers to floats, rounding to integers. Sources: mali_bifrost.h. */
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
