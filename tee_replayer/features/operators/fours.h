/* SPDX-License-Identifier: BSD-2-Clause */
/* Four numbers of single precision at a time: registers of AArch64, and the same without them, to the bit.
 * Each multiply-addition is fused, that is, rounded once. */
#ifndef GRAMOPHONE_FOURS_H
#define GRAMOPHONE_FOURS_H

#include "operands.h"

enum { GR_LANES = 4 };

#if defined __aarch64__ && defined __ARM_NEON
#include <arm_neon.h>

typedef float32x4_t gr_four;

/* From an address that is aligned by 16 bytes: one instruction, where the compiler must not assume that
 * memory takes others, too. */
static inline gr_four gr_four_at(const float *from)
{
    return *(const gr_four *)__builtin_assume_aligned(from, sizeof(gr_four));
}

static inline void gr_four_to(float *to, gr_four four)
{
    *(gr_four *)__builtin_assume_aligned(to, sizeof(gr_four)) = four;
}

/* Eight numbers that follow one another, from an address that is aligned by four bytes only: a device's
 * memory takes this instruction, too, since each of its elements is an access of its own. For the same reason
 * one of sixteen bytes is better where there may be one. */
typedef float32x4x2_t gr_eight;

static inline gr_eight gr_eight_at(const float *from)
{
    return vld1q_f32_x2(from);
}

static inline void gr_eight_to(float *to, gr_eight eight)
{
    vst1q_f32_x2(to, eight);
}

/* The same of four. Not by vld1q_f32, of which a compiler makes one access. */
static inline gr_four gr_loose_four_at(const float *from)
{
    const float32x2x2_t halves = vld1_f32_x2(from);
    return vcombine_f32(halves.val[0], halves.val[1]);
}

static inline void gr_loose_four_to(float *to, gr_four four)
{
    const float32x2x2_t halves = {{vget_low_f32(four), vget_high_f32(four)}};
    vst1_f32_x2(to, halves);
}

static inline gr_four gr_four_of(float x)
{
    return vdupq_n_f32(x);
}

#define GR_LANE(four, lane) vgetq_lane_f32(four, lane)
/* sum + a * b; of `b`, one lane. */
#define GR_FUSED(sum, a, b) vfmaq_f32(sum, a, b)
#define GR_FUSED_LANE(sum, a, b, lane) vfmaq_laneq_f32(sum, a, b, lane)

static inline float gr_fused(float sum, float a, float b)
{
    return __builtin_fmaf(a, b, sum);
}

/* As gr_clamped. */
static inline gr_four gr_four_clamped(gr_four x, float low, float high)
{
    const gr_four lowest = vdupq_n_f32(low), highest = vdupq_n_f32(high);
    x = vbslq_f32(vcltq_f32(x, lowest), lowest, x);
    return vbslq_f32(vcgtq_f32(x, highest), highest, x);
}
#else
typedef struct {
    float lane[GR_LANES];
} gr_four;

static inline gr_four gr_four_at(const float *from)
{
    return (gr_four){{from[0], from[1], from[2], from[3]}};
}

static inline void gr_four_to(float *to, gr_four four)
{
    for (uint32_t i = 0; i < GR_LANES; i++)
        to[i] = four.lane[i];
}

typedef struct {
    gr_four val[2];
} gr_eight;

static inline gr_eight gr_eight_at(const float *from)
{
    return (gr_eight){{gr_four_at(from), gr_four_at(from + GR_LANES)}};
}

static inline void gr_eight_to(float *to, gr_eight eight)
{
    gr_four_to(to, eight.val[0]);
    gr_four_to(to + GR_LANES, eight.val[1]);
}

static inline gr_four gr_loose_four_at(const float *from)
{
    return gr_four_at(from);
}

static inline void gr_loose_four_to(float *to, gr_four four)
{
    gr_four_to(to, four);
}

static inline gr_four gr_four_of(float x)
{
    return (gr_four){{x, x, x, x}};
}

/* A product of two floats is exact as a double. Its sum is rounded to the neighbour with an odd last bit,
 * unless it is exact: rounded once more, to a float, it is what it would be if it had been rounded once. */
static inline float gr_fused(float sum, float a, float b)
{
    const double product = (double)a * (double)b, addend = (double)sum;
    union {
        double value;
        uint64_t bits;
    } found = {.value = product + addend};
    const double part = found.value - product;
    const double error = (product - (found.value - part)) + (addend - part);
    const uint64_t step = (error > 0) == (found.value > 0) ? 1u : UINT64_MAX;
    if ((error < 0 || error > 0) && !(found.bits & 1))
        found.bits += step;
    return (float)found.value;
}

#define GR_LANE(four, number) ((four).lane[number])
#define GR_FUSED(sum, a, b) gr_four_fused(sum, a, b)
#define GR_FUSED_LANE(sum, a, b, number) gr_four_fused(sum, a, gr_four_of((b).lane[number]))

static inline gr_four gr_four_fused(gr_four sum, gr_four a, gr_four b)
{
    for (uint32_t i = 0; i < GR_LANES; i++)
        sum.lane[i] = gr_fused(sum.lane[i], a.lane[i], b.lane[i]);
    return sum;
}
#endif

/* A NaN stays one. */
static inline float gr_clamped(float x, float low, float high)
{
    x = x < low ? low : x;
    return x > high ? high : x;
}

#if !(defined __aarch64__ && defined __ARM_NEON)
static inline gr_four gr_four_clamped(gr_four x, float low, float high)
{
    for (uint32_t i = 0; i < GR_LANES; i++)
        x.lane[i] = gr_clamped(x.lane[i], low, high);
    return x;
}
#endif

#endif
