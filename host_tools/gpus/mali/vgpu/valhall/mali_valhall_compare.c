/* SPDX-License-Identifier: BSD-2-Clause */
/* Valhall's comparisons, and choices by them. Sources: see mali_valhall.h. */
#include "mali_bifrost_float.h"
#include "mali_bifrost_half.h"
#include "mali_bifrost_integer.h"
#include "mali_bifrost_narrow.h"
#include "mali_valhall_meaning.h"

enum { LESS = BIFROST_LT, LESS_OR_EQUAL = BIFROST_LE };
enum { RESULT_1, RESULT_FLOAT, RESULT_ALL, RESULT_LOW }; /* what true is; RESULT_LOW: of low words */

static void swap(struct valhall_step *step)
{
    struct bifrost_uop *u = &step->uop;
    struct bifrost_uop old = *u;

    for (unsigned i = 0; i < 2; i++) {
        u->from[i] = old.from[1 - i];
        u->keep[i] = old.keep[1 - i];
        u->flip[i] = old.flip[1 - i];
    }
    u->detail = (old.detail & ~0xfu) | (old.detail & 3) << 2 | (old.detail >> 2 & 3); /* halves */
}

/* True as an element of `bits` bits. False: refused. */
static bool truth(struct valhall_step *step, unsigned bits, uint32_t *value)
{
    unsigned result = valhall_result(step->word);

    if (result == RESULT_LOW || (result == RESULT_FLOAT && bits == 8))
        return valhall_refuse(step, "a truth that is not modelled");
    *value = result == RESULT_1 ? 1 : result == RESULT_ALL ? ~0u : bits == 16 ? 0x3c00 : 0x3f800000;
    return true;
}

/* Those that handlers do not have are of exchanged sources. False: refused. */
static bool condition(struct valhall_step *step, unsigned *found)
{
    *found = valhall_condition(step->word);
    if (*found > BIFROST_LE)
        return valhall_refuse(step, "a condition that is not modelled");
    if (*found == LESS || *found == LESS_OR_EQUAL) {
        swap(step);
        *found = *found == LESS ? BIFROST_GT : BIFROST_GE;
    }
    return true;
}

/* The result, and or or source 2. */
static bool with_third(struct valhall_step *step, bool is_and, uint16_t third)
{
    uint32_t word;

    if (!is_and && valhall_is_constant(step, 2, &word) && !word)
        return valhall_emit(step);
    if (!valhall_emit_to(step, SLOT_T1))
        return false;
    step->uop = bifrost_of_one(is_and ? bifrost_and : bifrost_or, 0, SLOT_T1);
    step->uop.from[1] = third;
    return valhall_emit(step);
}

/* detail: bits of an element, and 256 of AND. */
bool valhall_on_compare_integers(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    static bifrost_run *const *const by_equality[] = {
        [32] = bifrost_icmp_u32, [16] = bifrost_icmp_u16, [8] = bifrost_icmp_u8};
    unsigned bits = meaning->detail & 0xff, wanted;
    uint32_t value;
    uint16_t third = step->uop.from[2];

    if (!truth(step, bits, &value) || !condition(step, &wanted))
        return false;
    step->uop.run =
        (wanted == BIFROST_EQ || wanted == BIFROST_NE ? by_equality[bits] : meaning->runs)[wanted];
    if (bits == 8) { /* bytes are compared where they are */
        for (uint16_t i = 0; i < 2; i++) {
            struct bifrost_uop swizzle =
                bifrost_of_one(bifrost_swizzle_v4, (uint16_t)(SLOT_WIDENED + i), step->uop.from[i]);
            swizzle.keep[0] = step->uop.keep[i];
            step->uop.from[i] = swizzle.to;
            if (!bifrost_emit(step->t, &swizzle))
                return false;
        }
    }
    step->uop.detail = value;
    return with_third(step, meaning->detail >> 8, third);
}

bool valhall_on_compare_floats(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    unsigned bits = meaning->detail & 0xff, wanted;
    uint32_t value;
    uint16_t third = step->uop.from[2];

    if (!truth(step, bits, &value) || !condition(step, &wanted))
        return false;
    step->uop.run = meaning->runs[wanted];
    step->uop.detail = bits == 16 ? (step->uop.detail & 0xff) | value << HALF_TRUTH_SHIFT : value;
    return with_third(step, meaning->detail >> 8, third);
}

/* Pairs of words: the low ones first, whose result the high ones take. */
bool valhall_on_compare_pair(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    unsigned wanted;
    uint32_t word, value;

    if (valhall_result(step->word) == RESULT_LOW) {
        if (!valhall_is_constant(step, 2, &word) || word)
            return valhall_refuse(step, "a comparison of low words that goes on from another");
        if (!condition(step, &wanted))
            return false;
        step->uop.run = bifrost_icmp_u32[wanted];
        step->uop.detail = 1;
        return valhall_emit(step);
    }
    if (!truth(step, 32, &value) || !condition(step, &wanted))
        return false;
    step->uop.detail = value;
    step->uop.run =
        (wanted == BIFROST_EQ || wanted == BIFROST_NE ? bifrost_icmpf_u32 : meaning->runs)[wanted];
    return valhall_emit(step);
}

/* The third or the fourth source. */
bool valhall_on_choose(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    unsigned wanted;
    uint16_t chosen = step->uop.from[2];

    if (!condition(step, &wanted))
        return false;
    if (wanted == BIFROST_NE) {
        wanted = BIFROST_EQ;
        step->uop.from[2] = step->uop.from[3];
        step->uop.from[3] = chosen;
    }
    bool by_bits = wanted == BIFROST_EQ && meaning->run; /* rows of signed handlers have no equality */
    step->uop.run = by_bits ? meaning->run : meaning->runs[wanted];
    step->uop.detail = meaning->detail;
    return valhall_emit(step);
}

bool valhall_on_choose_integers(struct valhall_step *step, const struct valhall_meaning *meaning)
{
    struct valhall_meaning with = *meaning;

    with.run = meaning->detail == 16 ? bifrost_csel_u16[BIFROST_EQ] : bifrost_csel_u32[BIFROST_EQ];
    return valhall_on_choose(step, &with);
}
