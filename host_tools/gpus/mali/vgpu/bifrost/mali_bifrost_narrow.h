/* SPDX-License-Identifier: BSD-2-Clause */
/* Handlers of operations on integers of 16 and 8 bits (v2, v4: two, four in a word), by name and variant.
 * keep[i]: for each element of source i a shift of 8 bits that brings it to the bottom. Sources: see
 * mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_NARROW_H
#define GRAMOPHONE_MALI_BIFROST_NARROW_H

#include "mali_bifrost.h"

extern bifrost_run *const bifrost_add_v2[6], *const bifrost_add_v4[6]; /* 3 * subtract + (not, signed,
                                                                        * unsigned saturating) */
extern bifrost_run *const bifrost_mean[6]; /* s32, u32, v2s16, v2u16, v4s8, v4u8; detail: 1 rounds up */
extern bifrost_run bifrost_iabs_v2, bifrost_iabs_v4;
extern bifrost_run bifrost_imul_v2, bifrost_imul_v4;
extern bifrost_run bifrost_imul_signed, bifrost_imul_unsigned; /* detail: shifts that leave source 1's lane */
extern bifrost_run bifrost_swizzle_v2, bifrost_swizzle_v4;
extern bifrost_run bifrost_halves_of_s8, bifrost_halves_of_u8;
extern bifrost_run bifrost_clz_v2, bifrost_clz_v4;
extern bifrost_run *const bifrost_mux_v2[4], *const bifrost_mux_v4[2];     /* by enum of the encoding */
extern bifrost_run *const bifrost_csel_s16[6], *const bifrost_csel_u16[6]; /* by bifrost_condition */

/* 2 * (and, or, exclusive or) + (left, right). flip: of source 1, of the result. */
extern bifrost_run *const bifrost_shift_logic_v2[6], *const bifrost_shift_logic_v4[6];
extern bifrost_run *const bifrost_arshift_narrow[2]; /* v2, v4 */

#endif
