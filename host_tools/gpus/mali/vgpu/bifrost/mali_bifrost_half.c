/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic on pairs of halves: IEEE 754 binary16 with subnormals, results rounded once, every NaN the same.
 * Sources: see mali_bifrost.h. */
#include "mali_bifrost_half.h"

#include "mali_bifrost_float.h"
#include "mali_bifrost_lanes.h"

/* Element e of source s, with its modifiers. */
#define ELEMENT(x, s, e) (((x) >> (16 * (detail >> (2 * (s) + (e)) & 1)) & keep##s) ^ flip##s)
#define HA(e) bifrost_of_half(ELEMENT(a, 0, e))
#define HB(e) bifrost_of_half(ELEMENT(b, 1, e))
#define HC(e) bifrost_of_half(ELEMENT(c, 2, e))
#define ROUNDING (detail >> HALF_ROUND_SHIFT & 3)
#define BOTH(BODY) (BODY(0) & 0xffff) | BODY(1) << 16

/* The result, rounded, then clamped: NaN becomes the lower limit. */
static uint32_t finished(double exact, uint32_t detail)
{
    static const float low[4] = {0, 0, -1, 0}, high[4] = {0, INFINITY, 1, 1};
    unsigned clamp = detail >> HALF_CLAMP_SHIFT & 3;
    uint32_t half = bifrost_to_half(exact, ROUNDING);
    float value = bifrost_of_half(half);

    if (!clamp)
        return half;
    value = value > low[clamp] ? value : low[clamp];
    return bifrost_to_half((double)(value < high[clamp] ? value : high[clamp]), ROUND_EVEN);
}

#define SUM(e) finished(bifrost_odd_sum((double)HA(e), (double)HB(e)), detail)
#define PRODUCT_SUM(e) finished(bifrost_odd_sum((double)HA(e) * (double)HB(e), (double)HC(e)), detail)
BIFROST_SLOW_HANDLER(bifrost_fadd16, BOTH(SUM));
BIFROST_SLOW_HANDLER(bifrost_fma16, BOTH(PRODUCT_SUM));

/* ---- comparisons ---- */

static uint32_t same(float value)
{
    return bifrost_to_half((double)value, ROUND_EVEN);
}

#define NAN_LOSES(op, e) same(HA(e) op HB(e) || HB(e) != HB(e) ? HA(e) : HB(e))
#define NAN_WINS(op, e) same(HA(e) op HB(e) || HA(e) != HA(e) ? HA(e) : HB(e))
#define SECOND_WINS(op, e) same(HA(e) op HB(e) ? HA(e) : HB(e))
#define FIRST_WINS(op, e) same(HB(e) op HA(e) ? HB(e) : HA(e))
#define PAIR(BODY, op) (BODY(op, 0) & 0xffff) | BODY(op, 1) << 16
static BIFROST_SLOW_HANDLER(max16_loses, PAIR(NAN_LOSES, >));
static BIFROST_SLOW_HANDLER(max16_wins, PAIR(NAN_WINS, >));
static BIFROST_SLOW_HANDLER(max16_second, PAIR(SECOND_WINS, >));
static BIFROST_SLOW_HANDLER(max16_first, PAIR(FIRST_WINS, >));
static BIFROST_SLOW_HANDLER(min16_loses, PAIR(NAN_LOSES, <));
static BIFROST_SLOW_HANDLER(min16_wins, PAIR(NAN_WINS, <));
static BIFROST_SLOW_HANDLER(min16_second, PAIR(SECOND_WINS, <));
static BIFROST_SLOW_HANDLER(min16_first, PAIR(FIRST_WINS, <));
bifrost_run *const bifrost_fmax16[4] = {max16_loses, max16_wins, max16_second, max16_first};
bifrost_run *const bifrost_fmin16[4] = {min16_loses, min16_wins, min16_second, min16_first};

#define TRUTH(op, e) (HA(e) op HB(e) ? detail >> HALF_TRUTH_SHIFT : 0)
static BIFROST_SLOW_HANDLER(fcmp16_eq, PAIR(TRUTH, ==));
static BIFROST_SLOW_HANDLER(fcmp16_gt, PAIR(TRUTH, >));
static BIFROST_SLOW_HANDLER(fcmp16_ge, PAIR(TRUTH, >=));
static BIFROST_SLOW_HANDLER(fcmp16_ne, PAIR(TRUTH, !=));
static BIFROST_SLOW_HANDLER(fcmp16_lt, PAIR(TRUTH, <));
static BIFROST_SLOW_HANDLER(fcmp16_le, PAIR(TRUTH, <=));
bifrost_run *const bifrost_fcmp16[6] = {
    [BIFROST_EQ] = fcmp16_eq, [BIFROST_GT] = fcmp16_gt, [BIFROST_GE] = fcmp16_ge,
    [BIFROST_NE] = fcmp16_ne, [BIFROST_LT] = fcmp16_lt, [BIFROST_LE] = fcmp16_le,
};

#define CHOSEN(op, e) ((HA(e) op HB(e) ? c : d) >> 16 * (e))
static BIFROST_SLOW_HANDLER(csel16_eq, PAIR(CHOSEN, ==));
static BIFROST_SLOW_HANDLER(csel16_gt, PAIR(CHOSEN, >));
static BIFROST_SLOW_HANDLER(csel16_ge, PAIR(CHOSEN, >=));
bifrost_run *const bifrost_csel_f16[3] = {csel16_eq, csel16_gt, csel16_ge};

/* ---- rounding, scaling, reciprocals ---- */

static float to_integer(float value, unsigned mode)
{
    return mode == ROUND_UP     ? ceilf(value)
           : mode == ROUND_DOWN ? floorf(value)
           : mode == ROUND_ZERO ? truncf(value)
                                : rintf(value);
}

#define INTEGRAL(e) same(to_integer(HA(e), ROUNDING))
#define INTEGRAL_AWAY(e) same(roundf(HA(e)))
BIFROST_SLOW_HANDLER(bifrost_fround16, BOTH(INTEGRAL));
BIFROST_SLOW_HANDLER(bifrost_fround16_away, BOTH(INTEGRAL_AWAY));

/* Exponents beyond 100 give what 100 does. */
static double scaled(float value, uint32_t exponent)
{
    int32_t power = (int16_t)exponent;

    return ldexp((double)value, power < -100 ? -100 : power > 100 ? 100 : power);
}

#define SCALED(e) bifrost_to_half(scaled(HA(e), b >> 16 * (e)), ROUNDING)
BIFROST_SLOW_HANDLER(bifrost_ldexp16, BOTH(SCALED));

/* Of one half, the other half of the result is zero. A double that was rounded once more is right here: the
 * quotients and roots of halves are not so near to the middle between two halves. */
BIFROST_SLOW_HANDLER(bifrost_frcp16, bifrost_to_half(1 / (double)HA(0), ROUND_EVEN));
BIFROST_SLOW_HANDLER(bifrost_frsq16, bifrost_to_half(1 / sqrt((double)HA(0)), ROUND_EVEN));

/* ---- halves and integers ---- */

static uint32_t limited(float value, float low, float high)
{
    return value != value ? 0 : (uint32_t)(int32_t)(value < low ? low : value > high ? high : value);
}

#define TO_S16(e) limited(to_integer(HA(e), ROUNDING), INT16_MIN, INT16_MAX)
#define TO_U16(e) limited(to_integer(HA(e), ROUNDING), 0, UINT16_MAX)
#define OF_S16(e) bifrost_to_half((int16_t)ELEMENT(a, 0, e), ROUNDING)
#define OF_U16(e) bifrost_to_half((uint16_t)ELEMENT(a, 0, e), ROUNDING)
BIFROST_SLOW_HANDLER(bifrost_halves_to_s16, BOTH(TO_S16));
BIFROST_SLOW_HANDLER(bifrost_halves_to_u16, BOTH(TO_U16));
BIFROST_SLOW_HANDLER(bifrost_halves_of_s16, BOTH(OF_S16));
BIFROST_SLOW_HANDLER(bifrost_halves_of_u16, BOTH(OF_U16));

/* Bytes at the shifts in keep0, 8 bits each. */
#define OF_S8(e) bifrost_to_half((int8_t)(a >> (keep0 >> 8 * (e)&31)), ROUND_EVEN)
#define OF_U8(e) bifrost_to_half((uint8_t)(a >> (keep0 >> 8 * (e)&31)), ROUND_EVEN)
BIFROST_SLOW_HANDLER(bifrost_float_halves_of_s8, BOTH(OF_S8));
BIFROST_SLOW_HANDLER(bifrost_float_halves_of_u8, BOTH(OF_U8));
