/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The special function unit: reciprocal, reciprocal square root, 2^x, log2 and sin(pi x). Which there are:
 * Mesa 22.3.6, src/broadcom/qpu/qpu_instr.h; what they compute: src/broadcom/compiler/nir_to_vir.c. The sine
 * stays at -1 below x = -1/2 and at 1 above 1/2 (py-videocore6, tests/test_sfu.py); Mesa brings x between
 * them.
 *
 * Silicon approximates and no public source says how. Here results are computed in double precision with
 * nothing but IEEE 754 basic operations and rounded once to single, so that they are the same on every host
 * and, except for rare ties, correctly rounded. (The C library's functions would differ between hosts.)
 */
#include "v3d_qpu_thread.h"

#include <math.h>

static float to_single(double x)
{
    return (float)x;
}

/* 2^n for a normal double. */
static double power_of_two(int n)
{
    uint64_t bits = (uint64_t)(n + 1023) << 52;
    double result;

    __builtin_memcpy(&result, &bits, sizeof result);
    return result;
}

static float sfu_exp(float x)
{
    if (x != x || x > 129.0f) /* over: infinity, and infinity to itself */
        return x != x ? x : INFINITY;
    if (x < -151.0f)
        return 0.0f;
    double n = __builtin_rint((double)x), f = ((double)x - n) * 0.69314718055994530942;
    double term = 1.0, sum = 0.0;
    double terms[18];

    for (int i = 0; i < 18; i++) { /* e^f, |f| <= ln 2 / 2 */
        terms[i] = term;
        term = term * f / (double)(i + 1);
    }
    for (int i = 17; i >= 0; i--)
        sum += terms[i];
    return to_single(sum * power_of_two((int)n));
}

static float sfu_log(float x)
{
    if (!(x > 0.0f) || __builtin_isinf(x)) /* NaN, zero, negative, infinity */
        return x == 0.0f ? -INFINITY : x > 0.0f ? x : NAN;
    uint64_t bits;
    double m = (double)x;

    __builtin_memcpy(&bits, &m, sizeof bits); /* a normal double, also for a subnormal single */
    int exponent = (int)(bits >> 52) - 1023;
    m /= power_of_two(exponent);
    if (m > 1.41421356237309504880) {
        m /= 2;
        exponent++;
    }
    double s = (m - 1) / (m + 1), s2 = s * s, sum = 0.0;

    for (int i = 25; i >= 1; i -= 2) /* ln m = 2 (s + s^3/3 + s^5/5 + ...), |s| < 0.172 */
        sum = sum * s2 + 1.0 / i;
    return to_single(exponent + 2 * s * sum * 1.44269504088896340736);
}

static float sfu_sin(float x)
{
    if (!(__builtin_fabsf(x) <= 0.5f))
        return x != x ? x : x < 0.0f ? -1.0f : 1.0f;
    double y = (double)x * 3.14159265358979323846, y2 = y * y, sum = 0.0;

    for (int i = 23; i >= 1; i -= 2) /* y - y^3/3! + y^5/5! - ... */
        sum = 1.0 - sum * y2 / (double)((i + 1) * (i + 2));
    return to_single(y * sum);
}

void qpu_sfu(uint8_t op, qpu_u32 *x)
{
    qpu_f32 in = (qpu_f32)*x, out = in;

    for (int i = 0; i < QPU_LANES; i++)
        switch (op) {
        case QPU_OP_RECIP: out[i] = 1.0f / in[i]; break;
        case QPU_OP_RSQRT2: /* no source says in what it differs */
        case QPU_OP_RSQRT: out[i] = to_single(1.0 / __builtin_sqrt((double)in[i])); break;
        case QPU_OP_EXP: out[i] = sfu_exp(in[i]); break;
        case QPU_OP_LOG: out[i] = sfu_log(in[i]); break;
        default: out[i] = sfu_sin(in[i]); break;
        }
    *x = qpu_float_result(out);
}
