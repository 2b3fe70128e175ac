/* SPDX-License-Identifier: BSD-2-Clause */
/* What operators use of Arm's vectors, by its C Language Extensions (ACLE, "Neon Intrinsics"): what each
 * reads and writes of memory. What it computes is any number, for no address depends on one. */
#ifndef PROOF_ARM_NEON_H
#define PROOF_ARM_NEON_H

#include <stdint.h>

typedef struct {
    float lane[2];
} float32x2_t;

typedef struct {
    float lane[4];
} float32x4_t;

typedef struct {
    uint32_t lane[4];
} uint32x4_t;

typedef struct {
    float32x2_t val[2];
} float32x2x2_t;

typedef struct {
    float32x4_t val[2];
} float32x4x2_t;

/*@ requires read: \valid_read(from + (0 .. 7)); assigns \result \from from[0 .. 7]; */
float32x4x2_t vld1q_f32_x2(const float *from);
/*@ requires read: \valid_read(from + (0 .. 3)); assigns \result \from from[0 .. 3]; */
float32x2x2_t vld1_f32_x2(const float *from);
/*@ requires written: \valid(to + (0 .. 7)); assigns to[0 .. 7] \from eight; */
void vst1q_f32_x2(float *to, float32x4x2_t eight);
/*@ requires written: \valid(to + (0 .. 3)); assigns to[0 .. 3] \from four; */
void vst1_f32_x2(float *to, float32x2x2_t four);
/*@ assigns \result \from x; */
float32x4_t vdupq_n_f32(float x);
/*@ assigns \result \from low, high; */
float32x4_t vcombine_f32(float32x2_t low, float32x2_t high);
/*@ assigns \result \from four; */
float32x2_t vget_low_f32(float32x4_t four);
/*@ assigns \result \from four; */
float32x2_t vget_high_f32(float32x4_t four);
/*@ requires lane: 0 <= lane < 4; assigns \result \from four; */
float vgetq_lane_f32(float32x4_t four, int lane);
/*@ assigns \result \from sum, a, b; */
float32x4_t vfmaq_f32(float32x4_t sum, float32x4_t a, float32x4_t b);
/*@ requires lane: 0 <= lane < 4; assigns \result \from sum, a, b; */
float32x4_t vfmaq_laneq_f32(float32x4_t sum, float32x4_t a, float32x4_t b, int lane);
/*@ assigns \result \from a, b; */
uint32x4_t vcltq_f32(float32x4_t a, float32x4_t b);
/*@ assigns \result \from a, b; */
uint32x4_t vcgtq_f32(float32x4_t a, float32x4_t b);
/*@ assigns \result \from mask, a, b; */
float32x4_t vbslq_f32(uint32x4_t mask, float32x4_t a, float32x4_t b);

#endif
