/* SPDX-License-Identifier: BSD-2-Clause */
/* Valhall's operations on floats and halves, and conversions. Sources: see mali_valhall.h. */
#include "mali_bifrost_float.h"
#include "mali_bifrost_half.h"
#include "mali_valhall_meaning.h"

bool valhall_on_plain(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = meaning->run;
    step->uop.detail |= meaning->detail;
    return valhall_emit(step);
}

bool valhall_on_clamped(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    unsigned clamp = valhall_clamp(step->word);

    step->uop.run = meaning->runs ? meaning->runs[meaning->detail] : meaning->run;
    if (!meaning->runs)
        step->uop.detail |= meaning->detail;
    if (!clamp)
        return valhall_emit(step);
    if (!valhall_emit_to(step, SLOT_UNCLAMPED))
        return false;
    step->uop = bifrost_of_one(bifrost_clamp[clamp], 0, SLOT_UNCLAMPED);
    return valhall_emit(step);
}

/* The rounding is the handler. */
bool valhall_on_rounded(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = meaning->runs[valhall_round(step->word)];
    return valhall_emit(step);
}

bool valhall_on_rounded_by_detail(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = meaning->run;
    step->uop.detail = valhall_round(step->word);
    return valhall_emit(step);
}

/* Integers that floats do not hold are rounded to nearest; other roundings are not modelled. */
bool valhall_on_to_float(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    if (valhall_round(step->word) != ROUND_EVEN)
        return valhall_refuse(step, "a conversion with a rounding that is not modelled");
    return valhall_on_plain(step, meaning);
}

bool valhall_on_pair_of_floats(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    if (valhall_clamp(step->word))
        return valhall_refuse(step, "a conversion with a clamp, which is not modelled");
    return valhall_on_rounded_by_detail(step, meaning);
}

/* A sum with the zero that changes nothing, so that signs take effect. */
bool valhall_on_of_half(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.from[1] = bifrost_constant(step->t, UINT32_C(1) << 31);
    return valhall_on_plain(step, meaning);
}

bool valhall_on_frexp_of(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    unsigned form = valhall_log(step->word) ? FREXP_LOG : valhall_sqrt(step->word) ? FREXP_SQRT : FREXP_PLAIN;

    if (valhall_log(step->word) && valhall_sqrt(step->word))
        return valhall_refuse(step, "an exponent of a root and of a logarithm");
    step->uop.run = meaning->runs[form];
    return valhall_emit(step);
}

/* Halves have rounding and clamp in `detail`. */
bool valhall_on_halves(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = meaning->runs ? meaning->runs[meaning->detail] : meaning->run;
    step->uop.detail |= valhall_clamp(step->word) << HALF_CLAMP_SHIFT;
    return valhall_emit(step);
}

/* Of FMAX and FMIN the handlers have no clamp. */
bool valhall_on_larger_half(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    if (valhall_clamp(step->word))
        return valhall_refuse(step, "an extreme of halves with a clamp, which is not modelled");
    return valhall_on_halves(step, meaning);
}

bool valhall_on_rounded_halves(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = meaning->run;
    step->uop.detail |= valhall_round(step->word) << HALF_ROUND_SHIFT;
    return valhall_emit(step);
}

/* Integers of 16 bits, whose places are in `detail`; bytes have been made such already. */
bool valhall_on_halves_of_integers(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.keep[0] = ~0u;
    step->uop.detail = step->part[0] < 4 ? step->part[0] : 2;
    return valhall_on_rounded_halves(step, meaning);
}

/* A half to a word: first to a float, which holds it. */
bool valhall_on_half_to_word(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    struct bifrost_uop wide = bifrost_of_one(step->part[0] & 1 ? bifrost_widen_h1 : bifrost_widen_h0,
                                             SLOT_WIDENED, step->uop.from[0]);

    step->uop.from[0] = SLOT_WIDENED;
    step->uop.keep[0] = step->uop.keep[0] & 0x8000 ? ~0u : 0x7fffffff;
    step->uop.flip[0] <<= 16;
    return bifrost_emit(step->t, &wide) && valhall_on_rounded(step, meaning);
}

/* Both sources have places that `keep` or `detail` says, and are as they are. */
bool valhall_on_immediate(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.from[1] = bifrost_constant(step->t, valhall_constant_number(step->word));
    step->uop.keep[0] = step->uop.keep[1] = meaning->detail;
    step->uop.run = meaning->runs ? meaning->runs[0] : meaning->run;
    return valhall_emit(step);
}

bool valhall_on_immediate_halves(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.from[1] = bifrost_constant(step->t, valhall_constant_number(step->word));
    return valhall_on_plain(step, meaning);
}
