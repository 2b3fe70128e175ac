/* SPDX-License-Identifier: BSD-2-Clause */
/* Valhall's operations on integers: sums, parts of words, pairs of words; and of other threads. Sources: see
 * mali_valhall.h. */
#include "mali_bifrost_integer.h"
#include "mali_bifrost_narrow.h"
#include "mali_valhall_meaning.h"

/* ---- integers ---- */

bool valhall_on_saturating(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = valhall_saturate(step->word) ? meaning->runs[meaning->detail] : meaning->run;
    if (!meaning->run)
        step->uop.run =
            meaning->runs[valhall_saturate(step->word) ? meaning->detail : meaning->detail / 3 * 3];
    return valhall_emit(step);
}

bool valhall_on_multiplied(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    if (valhall_saturate(step->word))
        return valhall_refuse(step, "a product that saturates, which is not modelled");
    step->uop.run = meaning->runs ? meaning->runs[0] : meaning->run;
    return valhall_emit(step);
}

bool valhall_on_mean(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = bifrost_mean[meaning->detail];
    step->uop.detail = valhall_rhadd(step->word);
    return valhall_emit(step);
}

/* A half or a byte of a word: shifts that leave it. */
bool valhall_on_half_part(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.detail = (16 - 16 * (step->part[0] & 1)) | 16 << 8;
    step->uop.run = meaning->run;
    return valhall_emit(step);
}

bool valhall_on_byte_part(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.detail = (24 - 8 * step->part[0]) | 24 << 8;
    step->uop.run = meaning->run;
    return valhall_emit(step);
}

bool valhall_on_two_bytes(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.keep[0] = 8 * (step->part[0] & 3) | 8 * (step->part[0] >> 2) << 8;
    step->uop.run = meaning->run;
    return valhall_emit(step);
}

/* Elements that `keep` of these sources does not place are where they are. */
bool valhall_on_in_place(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.keep[0] = step->uop.keep[1] = step->uop.keep[2] = meaning->detail;
    step->uop.run = meaning->runs ? meaning->runs[valhall_mux(step->word)] : meaning->run;
    return step->uop.run ? valhall_emit(step) : valhall_refuse(step, "a choice that is not modelled");
}

bool valhall_on_mux(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.run = meaning->runs[valhall_mux(step->word)];
    return valhall_emit(step);
}

/* MUX of bytes: two of the ways to choose are known. */
bool valhall_on_mux_bytes(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    if (valhall_mux(step->word) > 1)
        return valhall_refuse(step, "a choice of bytes that is not modelled");
    return valhall_on_in_place(step, meaning);
}

bool valhall_on_two_halves(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.detail = 16 * (step->part[0] & 1) | 16 * (step->part[1] & 1) << 8;
    step->uop.run = meaning->run;
    return valhall_emit(step);
}

/* Two bytes below the low half of source 2. */
bool valhall_on_bytes_and_half(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    step->uop.from[3] = step->uop.from[2];
    step->uop.detail = 8 * step->part[0] | 8 * step->part[1] << 8 | 8u << 24;
    step->uop.run = meaning->run;
    return valhall_emit(step);
}

/* ---- pairs of words ---- */

/* Source 1 is a pair, or a part of a word that is extended. */
bool valhall_on_add_pair(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    bool scaled = step->operation == VALHALL_SHADDX_U64 || step->operation == VALHALL_SHADDX_S64;
    uint32_t shift = scaled ? valhall_shift_number(step->word) : 0, code = step->part[1];
    struct bifrost_uop high = step->uop;

    if (!scaled && valhall_saturate(step->word))
        return valhall_refuse(step, "a sum of 64 bits that saturates, which is not modelled");
    step->uop.detail = shift;
    high.from[0] = step->high[0];
    high.from[2] = SLOT_HIDDEN;
    high.detail = shift;
    if (code == 0) {
        step->uop.run = bifrost_pointer_i64;
        high.from[1] = step->high[1];
        high.run = bifrost_pointer_high_i64;
    } else {
        unsigned width = code == 8  ? 32
                         : code < 4 ? 16
                                    : 8,
                 at = code == 8     ? 0
                      : width == 16 ? 16 * (code - 2)
                                    : 8 * (code - 4);
        if (code == 1 || code > 8)
            return valhall_refuse(step, "a part of a word by a code that is reserved");
        step->uop.run = meaning->is_signed ? bifrost_pointer_s32 : bifrost_pointer_u32;
        step->uop.detail |= (32 - width - at) << 8 | (32 - width) << 16;
        high.run = bifrost_pointer_high;
    }
    return valhall_emit_pair(step, &step->uop, high);
}

bool valhall_on_subtract_pair(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    struct bifrost_uop borrow = step->uop, high = step->uop;

    (void)meaning;
    if (step->part[1] || valhall_saturate(step->word))
        return valhall_refuse(step, "a difference of 64 bits of a part of a word, or that saturates");
    borrow.run = bifrost_icmp_u32[BIFROST_LT];
    borrow.detail = 1;
    borrow.to = SLOT_HIDDEN;
    step->uop.run = bifrost_isub;
    high.run = bifrost_isubb;
    high.from[0] = step->high[0];
    high.from[1] = step->high[1];
    high.from[2] = SLOT_HIDDEN;
    return bifrost_emit(step->t, &borrow) && valhall_emit_pair(step, &step->uop, high);
}

/* ---- other threads ---- */

bool valhall_on_exchange(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    uint32_t byte, size = 2u << valhall_subgroup(step->word);

    if (valhall_subgroup(step->word) > 3)
        return valhall_refuse(step, "a part of a warp by a code that is reserved");
    step->t->program->exchanges = true;
    step->uop.run = meaning->run;
    step->uop.detail = size;
    if (step->operation == VALHALL_WMASK)
        return valhall_emit(step);
    if (!valhall_amount(step, &byte))
        return false;
    if (valhall_lane_op(step->word) > 1 || valhall_inactive(step->word))
        return valhall_refuse(step, "an exchange that is not modelled");
    step->uop.detail |= valhall_lane_op(step->word) << 8;
    if (byte) {
        struct bifrost_uop wanted = bifrost_of_one(bifrost_extract_unsigned, SLOT_WIDENED, step->uop.from[1]);
        wanted.detail = (24 - 8 * byte) | 24 << 8;
        step->uop.from[1] = SLOT_WIDENED;
        if (!bifrost_emit(step->t, &wanted))
            return false;
    }
    return valhall_emit(step);
}

bool valhall_on_nothing(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    (void)step, (void)meaning;
    return true;
}
