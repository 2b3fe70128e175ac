/* SPDX-License-Identifier: BSD-2-Clause */
/* Arithmetic on floats: IEEE 754 binary32 with subnormals, results rounded once. Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_float.h"

#include "mali_bifrost_lanes.h"

BIFROST_HANDLER(bifrost_fma32, bifrost_bits(fmaf(FA, FB, FC)));
BIFROST_HANDLER(bifrost_fadd32, bifrost_bits(FA + FB));

/* ---- other roundings, and scaling: by way of doubles ---- */

double bifrost_odd_sum(double p, double c)
{
    double sum = p + c, part = sum - p, error = (p - (sum - part)) + (c - part);
    uint64_t bits;

    if (!isfinite(sum) || error == 0)
        return sum;
    memcpy(&bits, &sum, sizeof(bits));
    if ((error < 0) != (sum < 0)) /* the exact sum is nearer to zero */
        bits--;
    bits |= 1;
    memcpy(&sum, &bits, sizeof(sum));
    return sum;
}

static uint32_t rounded(double exact, unsigned mode)
{
    float value = (float)exact;

    if (mode == ROUND_UP && (double)value < exact)
        value = nextafterf(value, INFINITY);
    else if (mode == ROUND_DOWN && (double)value > exact)
        value = nextafterf(value, -INFINITY);
    else if (mode == ROUND_ZERO && fabs((double)value) > fabs(exact))
        value = nextafterf(value, 0);
    return bifrost_bits(value);
}

/* value * 2^exponent, exactly: value is a sum of products of floats. */
static double scaled(double value, uint32_t exponent)
{
    int32_t limited = (int32_t)exponent;
    uint64_t bits;
    double factor;

    limited = limited < -600 ? -600 : limited > 600 ? 600 : limited; /* far outside of what floats hold */
    bits = (uint64_t)(1023 + limited) << 52;
    memcpy(&factor, &bits, sizeof(factor));
    return value * factor;
}

static double product(float a, float b, uint32_t detail)
{
    if (detail & RSCALE_ZERO_TIMES_INFINITY && ((a == 0 && isinf(b)) || (isinf(a) && b == 0)))
        return 0;
    return (double)a * (double)b;
}

BIFROST_SLOW_HANDLER(bifrost_fma32_rounded, rounded(bifrost_odd_sum((double)FA *(double)FB, FC), detail));
BIFROST_SLOW_HANDLER(bifrost_fadd32_rounded, rounded(bifrost_odd_sum(FA, FB), detail));
BIFROST_SLOW_HANDLER(bifrost_fma_rscale,
                     rounded(scaled(bifrost_odd_sum(product(FA, FB, detail), FC), d), detail & 3));
BIFROST_SLOW_HANDLER(bifrost_fadd_rscale, rounded(scaled(bifrost_odd_sum(FA, FB), c), detail & 3));
BIFROST_SLOW_HANDLER(bifrost_ldexp, rounded(scaled(FA, b), detail));

/* ---- comparisons ---- */

#define NAN_LOSES(x, op, y) bifrost_bits((x)op(y) || (y) != (y) ? (x) : (y))
#define NAN_WINS(x, op, y) bifrost_bits((x)op(y) || (x) != (x) ? (x) : (y))
#define SECOND_WINS(x, op, y) bifrost_bits((x)op(y) ? (x) : (y))
#define FIRST_WINS(x, op, y) bifrost_bits((y)op(x) ? (y) : (x))

static BIFROST_HANDLER(max_loses, NAN_LOSES(FA, >, FB));
static BIFROST_HANDLER(max_wins, NAN_WINS(FA, >, FB));
static BIFROST_HANDLER(max_second, SECOND_WINS(FA, >, FB));
static BIFROST_HANDLER(max_first, FIRST_WINS(FA, >, FB));
static BIFROST_HANDLER(min_loses, NAN_LOSES(FA, <, FB));
static BIFROST_HANDLER(min_wins, NAN_WINS(FA, <, FB));
static BIFROST_HANDLER(min_second, SECOND_WINS(FA, <, FB));
static BIFROST_HANDLER(min_first, FIRST_WINS(FA, <, FB));

bifrost_run *const bifrost_fmax32[4] = {max_loses, max_wins, max_second, max_first};
bifrost_run *const bifrost_fmin32[4] = {min_loses, min_wins, min_second, min_first};

static BIFROST_HANDLER(fcmp_eq, FA == FB ? detail : 0);
static BIFROST_HANDLER(fcmp_gt, FA > FB ? detail : 0);
static BIFROST_HANDLER(fcmp_ge, FA >= FB ? detail : 0);
static BIFROST_HANDLER(fcmp_ne, FA != FB ? detail : 0);
static BIFROST_HANDLER(fcmp_lt, FA < FB ? detail : 0);
static BIFROST_HANDLER(fcmp_le, FA <= FB ? detail : 0);

bifrost_run *const bifrost_fcmp32[6] = {
    [BIFROST_EQ] = fcmp_eq, [BIFROST_GT] = fcmp_gt, [BIFROST_GE] = fcmp_ge,
    [BIFROST_NE] = fcmp_ne, [BIFROST_LT] = fcmp_lt, [BIFROST_LE] = fcmp_le,
};

static BIFROST_HANDLER(csel_f32_eq, FA == FB ? c : d);
static BIFROST_HANDLER(csel_f32_gt, FA > FB ? c : d);
static BIFROST_HANDLER(csel_f32_ge, FA >= FB ? c : d);

bifrost_run *const bifrost_csel_f32[3] = {csel_f32_eq, csel_f32_gt, csel_f32_ge};

/* ---- clamps of results: NaN becomes the lower limit ---- */

static float between(float value, float low, float high)
{
    value = value > low ? value : low;
    return value < high ? value : high;
}

static BIFROST_HANDLER(clamp_positive, bifrost_bits(between(bifrost_float(a), 0, INFINITY)));
static BIFROST_HANDLER(clamp_signed, bifrost_bits(between(bifrost_float(a), -1, 1)));
static BIFROST_HANDLER(clamp_unit, bifrost_bits(between(bifrost_float(a), 0, 1)));

bifrost_run *const bifrost_clamp[4] = {NULL, clamp_positive, clamp_signed, clamp_unit};

/* ---- halves as floats ---- */

float bifrost_of_half(uint32_t half)
{
    uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 0x3ff;

    if (exponent == 31)
        return bifrost_float(mantissa ? 0x7fc00000u : sign | 0x7f800000u);
    if (exponent)
        return bifrost_float(sign | (exponent + 112) << 23 | mantissa << 13);
    return bifrost_float(sign | bifrost_bits((float)mantissa * 0x1p-24f));
}

BIFROST_SLOW_HANDLER(bifrost_widen_h0, bifrost_bits(bifrost_of_half(a & 0xffff)));
BIFROST_SLOW_HANDLER(bifrost_widen_h1, bifrost_bits(bifrost_of_half(a >> 16)));
