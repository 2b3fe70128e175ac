/* SPDX-License-Identifier: BSD-2-Clause */
/* Handlers of operations on integers, by name and variant. Sources: see mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_INTEGER_H
#define GRAMOPHONE_MALI_BIFROST_INTEGER_H

#include "mali_bifrost.h"

/* mali_bifrost_integer.c */
extern bifrost_run bifrost_move, bifrost_move_low, bifrost_move_high, bifrost_zero;
extern bifrost_run bifrost_iadd, bifrost_isub, bifrost_iadd_saturating, bifrost_isub_saturating;
extern bifrost_run bifrost_iadd_saturating_u32, bifrost_isub_saturating_u32;
/* 2 * subtract + unsigned; detail: shift left and shift right that leave the lane of source 1 */
extern bifrost_run *const bifrost_iadd_lane[4];
extern bifrost_run bifrost_iaddc, bifrost_isubb, bifrost_iabs;
extern bifrost_run *const bifrost_imad[3];
extern bifrost_run bifrost_imad64;          /* also writes the slot `detail`: the high word */
extern bifrost_run *const bifrost_imed3[6]; /* largest, smallest, median; of each signed, unsigned */
extern bifrost_run bifrost_extract_unsigned, bifrost_extract_signed; /* as bifrost_iadd_lane, source 0 */
extern bifrost_run bifrost_popcount, bifrost_clz, bifrost_bitrev;
extern bifrost_run bifrost_mkvec_halves, bifrost_mkvec_bytes; /* detail: shifts, 8 bits each */
extern bifrost_run *const bifrost_mux[4];                     /* by enum of the encoding */

/* Shifts: left, right, arithmetic; the amount is that byte of source 2 that `detail` shifts to the bottom.
 * flip: of the shifted value, of source 1, of the result. */
enum { SHIFT_LEFT, SHIFT_RIGHT, SHIFT_ARITHMETIC };
extern bifrost_run *const bifrost_shift_and[2], *const bifrost_shift_or[2], bifrost_lshift_xor,
    bifrost_rshift_xor;
extern bifrost_run *const bifrost_shift_add[9]; /* 3 * shift + (add, sub, reverse sub) */
extern bifrost_run *const bifrost_shift[3];     /* source 0 by source 1 */
extern bifrost_run bifrost_or, bifrost_and, bifrost_xor;
/* Low, high word of source 1:source 0, shifted left, right by source 2. */
extern bifrost_run *const bifrost_shift_double_low[2], *const bifrost_shift_double_high[2];

/* mali_bifrost_pointer.c; those of low words write the carry to SLOT_HIDDEN */
extern bifrost_run bifrost_pointer_u32, bifrost_pointer_s32, bifrost_pointer_i64; /* detail: shift */
extern bifrost_run bifrost_pointer_high, bifrost_pointer_high_i64;
extern bifrost_run bifrost_segment_low, bifrost_segment_high; /* detail: keep null */

/* mali_bifrost_exchange.c */
extern bifrost_run bifrost_clper; /* detail: threads of a part of a warp, + 256: by exclusive or */
extern bifrost_run bifrost_wmask; /* detail: threads of a part of a warp */

extern bifrost_run *const bifrost_atomic_post[16]; /* mali_bifrost_atomic.c, by bifrost_atomic */

/* mali_bifrost_compare.c; detail: what true is; NULL: no operation has the condition */
extern bifrost_run *const bifrost_icmp_s32[6], *const bifrost_icmp_u32[6];
extern bifrost_run *const bifrost_icmp_s16[6],
    *const bifrost_icmp_u16[6]; /* keep: half of a, b that is element
                                 * 0, 1, as shifts 8 bits each */
extern bifrost_run *const bifrost_icmp_s8[6], *const bifrost_icmp_u8[6];
extern bifrost_run *const bifrost_icmpf_s32[6], *const bifrost_icmpf_u32[6];
bifrost_run *bifrost_icmpf(uint32_t fma); /* that completes an ICMPI, mali_bifrost_fma.c */
extern bifrost_run *const bifrost_csel_s32[6], *const bifrost_csel_u32[6];
extern bifrost_run *const bifrost_branch_s16[6], *const bifrost_branch_u16[6]; /* keep: shifts */

#endif
