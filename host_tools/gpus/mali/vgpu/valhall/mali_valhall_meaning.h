/* SPDX-License-Identifier: BSD-2-Clause */
/* How operations begin, and the handlers that they choose from. Sources: see mali_valhall.h. */
#ifndef GRAMOPHONE_MALI_VALHALL_MEANING_H
#define GRAMOPHONE_MALI_VALHALL_MEANING_H

#include "mali_valhall_step.h"

struct valhall_meaning;
/* Append the micro-operations of an instruction. False: refused, or no memory. */
typedef bool valhall_begin(struct valhall_step *step, const struct valhall_meaning *meaning);

struct valhall_meaning {
    valhall_begin *begin;
    bifrost_run *run;
    bifrost_run *const *runs;
    uint32_t detail; /* of the operation */
    bool is_signed;  /* parts of sources are extended by their sign */
};

enum { VALHALL_AND, VALHALL_OR, VALHALL_XOR }; /* of shifts */

extern valhall_begin valhall_on_add_pair, valhall_on_byte_part, valhall_on_bytes_and_half, valhall_on_choose,
    valhall_on_choose_integers, valhall_on_clamped, valhall_on_compare_floats, valhall_on_compare_integers,
    valhall_on_compare_pair, valhall_on_exchange, valhall_on_frexp_of, valhall_on_half_part,
    valhall_on_half_to_word, valhall_on_halves, valhall_on_halves_of_integers, valhall_on_immediate,
    valhall_on_immediate_halves, valhall_on_in_place, valhall_on_larger_half, valhall_on_mean,
    valhall_on_multiplied, valhall_on_mux, valhall_on_mux_bytes, valhall_on_nothing, valhall_on_of_half,
    valhall_on_pair_of_floats, valhall_on_plain, valhall_on_rounded, valhall_on_rounded_by_detail,
    valhall_on_rounded_halves, valhall_on_saturating, valhall_on_shift_narrow, valhall_on_shift_word,
    valhall_on_subtract_pair, valhall_on_to_float, valhall_on_two_bytes, valhall_on_two_halves;

/* Which byte of source 1 an operation takes. False: refused. */
bool valhall_amount(struct valhall_step *step, uint32_t *byte);

#endif
