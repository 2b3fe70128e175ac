/* SPDX-License-Identifier: BSD-2-Clause */
/* Valhall's shifts, with the logic that follows them. Sources: see mali_valhall.h. */
#include "mali_bifrost_integer.h"
#include "mali_bifrost_narrow.h"
#include "mali_valhall_meaning.h"

enum { LANES_FIRST = 4 }; /* code of byte 0 for all elements */

/* Source 1 has the amount, source 2 is what the logic takes; handlers have them the other way. */
static void order(struct valhall_step *step, uint32_t detail)
{
    struct bifrost_uop *u = &step->uop;
    uint16_t amount = u->from[1];

    u->from[1] = u->from[2];
    u->from[2] = amount;
    u->flip[2] = valhall_not_result(step->word) ? ~0u : 0;
    if ((detail & 3) == VALHALL_XOR) /* handlers invert the result only, which is the same */
        u->flip[2] ^= u->flip[1];
}

/* detail: the logic, and 4 of right shifts. */
static bifrost_run *of_words(uint32_t detail)
{
    bool right = detail & 4;

    switch (detail & 3) {
    case VALHALL_AND: return bifrost_shift_and[right];
    case VALHALL_OR: return bifrost_shift_or[right];
    default: return right ? bifrost_rshift_xor : bifrost_lshift_xor;
    }
}

/* What is shifted arithmetically goes to the logic as it is. */
static bool arithmetic(struct valhall_step *step, const struct valhall_meaning *meaning, bifrost_run *run)
{
    struct bifrost_uop shift = step->uop;
    bool is_v2 = step->row->source[0] == VALHALL_PARTS_2;

    /* Whether bytes and halves are extended by their sign then is not known. */
    if (step->part[0] > (is_v2 ? 3u : 0u) && step->row->source[0] != VALHALL_PARTS_4)
        return valhall_refuse(step, "an arithmetic shift of a part of a word");
    shift.run = run;
    shift.from[1] = bifrost_constant(step->t, 0);
    shift.to = SLOT_T0;
    step->uop.from[0] = SLOT_T0;
    step->uop.from[2] = shift.from[1];
    step->uop.detail = 0;
    step->uop.run = of_words(meaning->detail & 3);
    return bifrost_emit(step->t, &shift) && valhall_emit(step);
}

bool valhall_amount(struct valhall_step *step, uint32_t *byte)
{
    *byte = step->part[1] - LANES_FIRST;
    return *byte < 4 || valhall_refuse(step, "a byte by a code that is reserved");
}

bool valhall_on_shift_word(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    uint32_t byte;

    if (!valhall_amount(step, &byte))
        return false;
    order(step, meaning->detail);
    step->uop.detail = 8 * byte;
    if (meaning->detail & 4 && valhall_signed(step->word))
        return arithmetic(step, meaning, bifrost_shift_add[3 * SHIFT_ARITHMETIC]);
    step->uop.run = of_words(meaning->detail);
    return valhall_emit(step);
}

/* Elements of 16 and 8 bits; handlers take those of the first source from where they are. */
bool valhall_on_shift_narrow(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    bool is_v2 = meaning->runs == bifrost_shift_logic_v2;
    struct bifrost_uop swizzle =
        bifrost_of_one(is_v2 ? bifrost_swizzle_v2 : bifrost_swizzle_v4, SLOT_WIDENED, step->uop.from[0]);
    uint32_t byte;

    if (!valhall_amount(step, &byte))
        return false;
    swizzle.keep[0] = step->uop.keep[0];
    step->uop.from[0] = SLOT_WIDENED;
    order(step, meaning->detail);
    step->uop.keep[2] = 8 * byte * 0x01010101u;
    if (!bifrost_emit(step->t, &swizzle))
        return false;
    if (meaning->detail & 4 && valhall_signed(step->word))
        return arithmetic(step, meaning, bifrost_arshift_narrow[!is_v2]);
    step->uop.run = meaning->runs[2 * (meaning->detail & 3) + meaning->detail / 4];
    return valhall_emit(step);
}
