/* SPDX-License-Identifier: BSD-2-Clause */
/* Handlers of operations on floats, by name and variant. Sources: see mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_FLOAT_H
#define GRAMOPHONE_MALI_BIFROST_FLOAT_H

#include "mali_bifrost.h"

enum bifrost_rounding { ROUND_EVEN, ROUND_UP, ROUND_DOWN, ROUND_ZERO };
/* Bits of `detail` of FMA_RSCALE and FADD_RSCALE; bits 1:0 are the rounding. */
enum { RSCALE_ZERO_TIMES_INFINITY = 4 };

/* mali_bifrost_float.c */
double bifrost_odd_sum(double p,
                       double c); /* rounded to odd: right when it is rounded again, to fewer bits */
float bifrost_of_half(uint32_t half);
extern bifrost_run bifrost_fma32, bifrost_fma32_rounded, bifrost_fadd32, bifrost_fadd32_rounded;
extern bifrost_run bifrost_fma_rscale, bifrost_fadd_rscale,
    bifrost_ldexp;                                                     /* the last source is the exponent */
extern bifrost_run *const bifrost_fmax32[4], *const bifrost_fmin32[4]; /* by what becomes of NaN */
extern bifrost_run *const bifrost_fcmp32[6];                           /* detail: what true is */
extern bifrost_run *const bifrost_csel_f32[3];                         /* eq, gt, ge */
extern bifrost_run *const bifrost_clamp[4];
extern bifrost_run bifrost_widen_h0, bifrost_widen_h1;

/* mali_bifrost_convert.c */
uint32_t bifrost_to_half(double value, unsigned mode); /* every NaN is the same */

/* the first four by bifrost_rounding */
extern bifrost_run *const bifrost_to_s32[4], *const bifrost_to_u32[4], *const bifrost_fround[4];
extern bifrost_run bifrost_fround_away, bifrost_from_s32, bifrost_from_u32;
extern bifrost_run bifrost_from_signed_lane, bifrost_from_unsigned_lane; /* detail: shifts that leave it */
extern bifrost_run bifrost_to_halves;                                    /* detail: bifrost_rounding */

/* mali_bifrost_tables.c: by form (plain, square root, logarithm) */
enum { FREXP_PLAIN, FREXP_SQRT, FREXP_LOG, FREXP_FORMS };
extern bifrost_run *const bifrost_frexpm[FREXP_FORMS], *const bifrost_frexpe[FREXP_FORMS];
extern bifrost_run bifrost_frexpe_neg, bifrost_frexpe_sqrt_neg;
extern bifrost_run bifrost_frcp_approx, bifrost_frsq_approx, bifrost_fexp_table;
extern bifrost_run bifrost_frcp, bifrost_frsq, bifrost_fexp, bifrost_flogd, bifrost_fadd_lscale;
extern bifrost_run bifrost_fsin_table, bifrost_fcos_table;
extern bifrost_run bifrost_flog_red, bifrost_flog_base2, bifrost_flog_natural;
extern bifrost_run *const bifrost_flog_part[4]; /* bit 0: base 2, bit 1: the low part */

#endif
