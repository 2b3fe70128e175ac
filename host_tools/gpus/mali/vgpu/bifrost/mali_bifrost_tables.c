/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations that begin, make or end a division, square root, exponential, logarithm or sine.
 *
 * FREXPM and FREXPE split x into m * 2^e with 0.5 <= |m| < 1; for a square root into m * 4^e with 0.25 <= |m|
 * < 1; for a logarithm so that 0.75 <= |m| < 1.5. The bits of the real tables are not public: code refines
 * them, so that any that fit one another give the right results. Here quotients are exact, and the
 * logarithm's table has reciprocals of the top 4 bits of the mantissa, in steps of 1/32. Sources: see
 * mali_bifrost.h.
 */
#include "mali_bifrost_float.h"

#include "mali_bifrost_lanes.h"

struct parts {
    float mantissa;
    int32_t exponent;
};

static bool is_special(float x)
{
    return x == 0 || !isfinite(x);
}

static struct parts split(float x, int form)
{
    struct parts parts = {x, 0};
    double wide = x; /* subnormal floats are normal doubles */
    uint64_t bits;

    if (is_special(x))
        return parts;
    memcpy(&bits, &wide, sizeof(bits));
    int32_t exponent = (int32_t)(bits >> 52 & 0x7ff) - 1022, shift = 0;
    bits = (bits & 0x800fffffffffffffu) | UINT64_C(1022) << 52;
    memcpy(&wide, &bits, sizeof(wide));
    if (form == FREXP_SQRT)
        shift = exponent & 1 ? -1 : 0;
    else if (form == FREXP_LOG)
        shift = fabs(wide) < 0.75 ? 1 : 0;
    parts.mantissa = (float)(shift < 0 ? wide / 2 : shift > 0 ? wide * 2 : wide);
    parts.exponent = form == FREXP_SQRT ? (exponent - shift) / 2 : exponent - shift;
    return parts;
}

static BIFROST_HANDLER(mantissa_plain, bifrost_bits(split(FA, FREXP_PLAIN).mantissa));
static BIFROST_HANDLER(mantissa_sqrt, bifrost_bits(split(FA, FREXP_SQRT).mantissa));
static BIFROST_HANDLER(mantissa_log, bifrost_bits(split(FA, FREXP_LOG).mantissa));
static BIFROST_HANDLER(exponent_plain, (uint32_t)split(FA, FREXP_PLAIN).exponent);
static BIFROST_HANDLER(exponent_sqrt, (uint32_t)split(FA, FREXP_SQRT).exponent);
static BIFROST_HANDLER(exponent_log, (uint32_t)split(FA, FREXP_LOG).exponent);
BIFROST_HANDLER(bifrost_frexpe_neg, (uint32_t)-split(FA, FREXP_PLAIN).exponent);
BIFROST_HANDLER(bifrost_frexpe_sqrt_neg, (uint32_t)-split(FA, FREXP_SQRT).exponent);

bifrost_run *const bifrost_frexpm[FREXP_FORMS] = {mantissa_plain, mantissa_sqrt, mantissa_log};
bifrost_run *const bifrost_frexpe[FREXP_FORMS] = {exponent_plain, exponent_sqrt, exponent_log};

/* 1 / m and 1 / sqrt(m); infinities and zeros change into one another. */
static uint32_t reciprocal(float x)
{
    return bifrost_bits(1.0f / split(x, FREXP_PLAIN).mantissa);
}

static uint32_t reciprocal_root(float x)
{
    if (x == 0)
        return bifrost_bits(1.0f / x);
    return bifrost_bits((float)(1.0 / sqrt((double)split(x, FREXP_SQRT).mantissa)));
}

BIFROST_HANDLER(bifrost_frcp_approx, reciprocal(FA));
BIFROST_SLOW_HANDLER(bifrost_frsq_approx, reciprocal_root(FA));
BIFROST_SLOW_HANDLER(bifrost_fexp_table, bifrost_bits((float)exp2((a & 15) / 16.0)));

/* r of log(x) = log(x * r) - log(r), for which x * r is near 1. */
static double red(float x)
{
    uint32_t bits = bifrost_bits(split(x, FREXP_LOG).mantissa);

    if (is_special(x))
        return 1;
    double middle = bifrost_float((bits & 0xfff80000u) | 0x00040000u);
    return rint(32 / middle) / 32;
}

/* -log(r) with limits, and its two parts: 12 bits of the mantissa fewer, and what they lack. */
static float minus_log(float x, double logarithm)
{
    if (x == 0)
        return -INFINITY;
    if (x < 0 || x != x)
        return NAN;
    return isinf(x) ? INFINITY : (float)-logarithm;
}

static float high_part(double logarithm)
{
    uint32_t bits = bifrost_bits((float)-logarithm);

    return bifrost_float(bits & 0xfffff000u);
}

static float low_part(double logarithm)
{
    return (float)(-logarithm - (double)high_part(logarithm));
}

BIFROST_SLOW_HANDLER(bifrost_flog_red, bifrost_bits((float)red(FA)));
BIFROST_SLOW_HANDLER(bifrost_flog_base2, bifrost_bits(minus_log(FA, log2(red(FA)))));
BIFROST_SLOW_HANDLER(bifrost_flog_natural, bifrost_bits(minus_log(FA, log(red(FA)))));
static BIFROST_SLOW_HANDLER(high_natural, bifrost_bits(high_part(log(red(FA)))));
static BIFROST_SLOW_HANDLER(high_base2, bifrost_bits(high_part(log2(red(FA)))));
static BIFROST_SLOW_HANDLER(low_natural, bifrost_bits(low_part(log(red(FA)))));
static BIFROST_SLOW_HANDLER(low_base2, bifrost_bits(low_part(log2(red(FA)))));

bifrost_run *const bifrost_flog_part[4] = {high_natural, high_base2, low_natural, low_base2};

/* ---- whole functions, of every Bifrost but the G71: rounded once, which the hardware need not do ---- */

BIFROST_HANDLER(bifrost_frcp, bifrost_bits(1.0f / FA));
BIFROST_SLOW_HANDLER(bifrost_frsq, bifrost_bits((float)(1.0 / sqrt((double)FA))));

/* 2^x of x in 2^-24; `scaled` is the number that x was made of, which may have been beyond its range. */
static float power_of_two(uint32_t x, float scaled)
{
    if (scaled != scaled || scaled >= 0x1p31f)
        return scaled != scaled ? NAN : INFINITY;
    return scaled <= -0x1p31f ? 0 : (float)exp2((int32_t)x * 0x1p-24);
}

/* log2(m) / (m - 1) for the m of a logarithm: what (x - 1) is to be multiplied by. Infinite where the
 * logarithm of x is. */
static float logarithm_slope(float x)
{
    double m = split(x, FREXP_LOG).mantissa;

    if (x == 0 || x == INFINITY)
        return INFINITY;
    if (x < 0 || x != x)
        return NAN;
    return (float)(m == 1 ? 1 / log(2) : log2(m) / (m - 1));
}

BIFROST_SLOW_HANDLER(bifrost_fexp, bifrost_bits(power_of_two(a, FB)));
BIFROST_SLOW_HANDLER(bifrost_flogd, bifrost_bits(logarithm_slope(FA)));
BIFROST_HANDLER(bifrost_fadd_lscale, bifrost_bits(FA + split(FB, FREXP_LOG).mantissa));

/* ---- sines: of the low 6 bits, in steps of pi / 32 ---- */

static float sine(uint32_t step)
{
    return step % 32 ? (float)sin((step & 63) * (3.14159265358979323846 / 32)) : 0;
}

BIFROST_SLOW_HANDLER(bifrost_fsin_table, bifrost_bits(sine(a)));
BIFROST_SLOW_HANDLER(bifrost_fcos_table, bifrost_bits(sine(a + 16)));
