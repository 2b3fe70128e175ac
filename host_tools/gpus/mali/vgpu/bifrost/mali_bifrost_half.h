/* SPDX-License-Identifier: BSD-2-Clause */
/* Handlers of operations on pairs of halves, by name and variant. keep, flip: of the bits of a half. Sources:
 * see mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_HALF_H
#define GRAMOPHONE_MALI_BIFROST_HALF_H

#include "mali_bifrost.h"

/* `detail`: bit 2 s + e: element e of source s is the high half; then bifrost_rounding, a clamp, what true
 * is. */
enum { HALF_ROUND_SHIFT = 8, HALF_CLAMP_SHIFT = 10, HALF_TRUTH_SHIFT = 16 };

extern bifrost_run bifrost_fadd16, bifrost_fma16;
extern bifrost_run *const bifrost_fmax16[4], *const bifrost_fmin16[4]; /* by what becomes of NaN */
extern bifrost_run *const bifrost_fcmp16[6];
extern bifrost_run *const bifrost_csel_f16[3]; /* eq, gt, ge */
extern bifrost_run bifrost_fround16, bifrost_fround16_away, bifrost_ldexp16;
extern bifrost_run bifrost_frcp16, bifrost_frsq16;
extern bifrost_run bifrost_halves_to_s16, bifrost_halves_to_u16, bifrost_halves_of_s16, bifrost_halves_of_u16;
extern bifrost_run bifrost_float_halves_of_s8, bifrost_float_halves_of_u8; /* keep[0]: shifts of the bytes */

#endif
