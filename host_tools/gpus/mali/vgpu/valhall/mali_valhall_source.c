/* SPDX-License-Identifier: BSD-2-Clause */
/* Operands of Valhall instructions, and where results go. Sources: see mali_valhall.h. */
#include "mali_bifrost_float.h"
#include "mali_bifrost_half.h"
#include "mali_bifrost_integer.h"
#include "mali_bifrost_narrow.h"
#include "mali_valhall_step.h"

enum { CODE_UNIFORM = 0x80, CODE_CONSTANT = 0xc0, CODE_SPECIAL = 0xe0, CODE_MASK = 0x3f };
enum { PAGE_AT = 57, INVERT_AT = 35 };
enum { WRITES_NOTHING, WRITES_LOW, WRITES_HIGH, WRITES_ALL };

static const uint32_t constants[] = VALHALL_CONSTANTS;

static unsigned code_of(const struct valhall_step *step, unsigned number)
{
    return (unsigned)(step->word >> 8 * number & 0xff);
}

static unsigned page_of(const struct valhall_step *step)
{
    return (unsigned)(step->word >> PAGE_AT & 3);
}

bool valhall_refuse(struct valhall_step *step, const char *reason)
{
    return bifrost_refuse(step->t, MALI_INSTR_INVALID_ENC, reason);
}

bool valhall_is_constant(const struct valhall_step *step, unsigned number, uint32_t *word)
{
    unsigned code = code_of(step, number);

    if (code < CODE_CONSTANT || code >= CODE_SPECIAL)
        return false;
    *word = constants[code & 31];
    return true;
}

static bool special(struct valhall_step *step, unsigned code, uint16_t *slot)
{
    const struct bifrost_environment *environment = step->t->environment;
    const bool high = code & 1;

    switch (page_of(step) << 4 | (code >> 1 & 15)) {
    case VALHALL_THREAD_LOCAL_POINTER:
        if (!environment->thread_bytes)
            return bifrost_refuse(step->t, MALI_INSTR_TLS_FAULT, "thread storage that the job does not have");
        step->t->program->uses_storage = true;
        *slot = (uint16_t)(SLOT_STORAGE + high);
        return true;
    case VALHALL_WORKGROUP_LOCAL_POINTER:
        if (!environment->has_group_storage)
            return bifrost_refuse(step->t, MALI_INSTR_TLS_FAULT,
                                  "workgroup storage that the job does not have");
        step->t->program->uses_storage = true;
        *slot = bifrost_constant(step->t, (uint32_t)(environment->group_storage >> (high ? 32 : 0)));
        return true;
    case VALHALL_LANE_ID: *slot = high ? bifrost_constant(step->t, 0) : (uint16_t)SLOT_LANE; return true;
    default:
        return bifrost_refuse(step->t, MALI_INSTR_OPERAND_FAULT, "a special operand that is not modelled");
    }
}

/* Slot of a word by its code. */
static bool word_of(struct valhall_step *step, unsigned code, uint16_t *slot)
{
    const struct bifrost_environment *environment = step->t->environment;

    if (code < CODE_UNIFORM) {
        *slot = code & CODE_MASK;
    } else if (code < CODE_CONSTANT) {
        unsigned number = (code & CODE_MASK) | page_of(step) << 6;
        if (number / 2 >= environment->uniforms)
            return bifrost_refuse(step->t, MALI_INSTR_OPERAND_FAULT,
                                  "a push uniform that the job does not have");
        *slot = bifrost_constant(step->t, environment->uniform[number]);
    } else if (code < CODE_SPECIAL) {
        *slot = bifrost_constant(step->t, constants[code & 31]);
    } else {
        return special(step, code, slot);
    }
    return true;
}

/* Low and high word; a constant is extended with zeros. */
static bool pair_of(struct valhall_step *step, unsigned code, uint16_t *low, uint16_t *high)
{
    bool is_constant = code >= CODE_CONSTANT && code < CODE_SPECIAL;

    if (!word_of(step, code, low))
        return false;
    if (is_constant) {
        *high = bifrost_constant(step->t, 0);
        return true;
    }
    if (code & 1)
        return bifrost_refuse(step->t, MALI_INSTR_OPERAND_FAULT, "a pair that begins with an odd word");
    return word_of(step, code + 1, high);
}

/* ---- parts ---- */

static uint32_t places_2(unsigned first, unsigned second)
{
    return 8 * first | 8 * second << 8;
}

/* Bytes that are the elements of a source, as shifts. 16: it is refused. */
static uint32_t places_4(uint32_t code)
{
    static const uint8_t bytes[12][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 1, 0, 1}, {2, 3, 2, 3},
                                         {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3},
                                         {2, 3, 0, 1}, {1, 0, 3, 2}, {0, 0, 1, 1}, {2, 2, 3, 3}};
    uint32_t places = 0;

    for (unsigned i = 0; code < 12 && i < 4; i++)
        places |= 8u * bytes[code][i] << 8 * i;
    return places;
}

/* Replace a source by what a micro-operation makes of it. */
static bool replace(struct valhall_step *step, unsigned number, bifrost_run *run, uint32_t keep,
                    uint32_t detail)
{
    uint16_t to = (uint16_t)(SLOT_WIDENED + number);
    struct bifrost_uop uop = bifrost_of_one(run, to, step->uop.from[number]);

    uop.keep[0] = keep;
    uop.detail = detail;
    step->uop.from[number] = to;
    return bifrost_emit(step->t, &uop);
}

/* Of a word the half or byte that a code of 2 to 7 says. */
static bool part_of_word(struct valhall_step *step, unsigned number, uint32_t code, bool is_signed)
{
    if (code == 0)
        return true;
    if (code < 2 || code > 7)
        return valhall_refuse(step, "a part of a word by a code that is reserved");
    unsigned width = code < 4 ? 16 : 8, at = code < 4 ? 16 * (code - 2) : 8 * (code - 4);
    return replace(step, number, is_signed ? bifrost_extract_signed : bifrost_extract_unsigned, ~0u,
                   (32 - width - at) | (32 - width) << 8);
}

/* Two elements: halves stay where they are, bytes are extended to halves. */
static bool parts_of_halves(struct valhall_step *step, unsigned number, uint32_t code, bool is_signed)
{
    static const uint8_t bytes[10][2] = {{0, 0}, {2, 0}, {0, 2}, {2, 2}, {1, 1},
                                         {3, 1}, {1, 3}, {3, 3}, {0, 1}, {2, 3}};

    if (code < 4) {
        step->uop.keep[number] = places_2(2 * (code & 1), 2 * (code >> 1));
        return true;
    }
    if (code > 13)
        return valhall_refuse(step, "parts of a word by a code that is reserved");
    step->uop.keep[number] = places_2(0, 2);
    return replace(step, number, is_signed ? bifrost_halves_of_s8 : bifrost_halves_of_u8,
                   places_2(bytes[code - 4][0], bytes[code - 4][1]), 0);
}

static void signs(struct valhall_step *step, unsigned number, uint32_t sign)
{
    bool negative = step->word >> (38 - 2 * number) & 1, absolute = step->word >> (39 - 2 * number) & 1;

    if (absolute)
        step->uop.keep[number] &= ~sign;
    if (negative)
        step->uop.flip[number] = sign;
}

static bool widen(struct valhall_step *step, unsigned number, uint32_t code)
{
    if (code == 3)
        return valhall_refuse(step, "a part of a float by a code that is reserved");
    return !code || replace(step, number, code == 1 ? bifrost_widen_h0 : bifrost_widen_h1, ~0u, 0);
}

static bool read_part(struct valhall_step *step, unsigned number, bool is_signed)
{
    static const uint8_t widths[] = {
        [VALHALL_FLOAT] = 2,   [VALHALL_FLOAT_PART] = 2, [VALHALL_HALF] = 2,    [VALHALL_HALF_PART] = 2,
        [VALHALL_PART] = 4,    [VALHALL_PARTS_2] = 4,    [VALHALL_PARTS_4] = 4, [VALHALL_PAIR_PART] = 4,
        [VALHALL_LANES] = 4,   [VALHALL_BYTES_2] = 4,    [VALHALL_COMBINE] = 3, [VALHALL_BYTE] = 2,
        [VALHALL_ONE_HALF] = 1};
    unsigned kind = step->row->source[number], width = kind < sizeof(widths) ? widths[kind] : 0;
    uint32_t code = (uint32_t)(step->word >> step->row->place[number] & ((1u << width) - 1));

    step->part[number] = code;
    switch (kind) {
    case VALHALL_FLOAT_PART: break;
    case VALHALL_FLOAT:
    case VALHALL_FLOAT_SIGN: signs(step, number, UINT32_C(1) << 31); break;
    case VALHALL_ONE_HALF: signs(step, number, UINT32_C(1) << 31); return widen(step, number, 1 + code);
    case VALHALL_HALF_SIGN: code = 2; /* fall through: as they are */
    case VALHALL_HALF:
        signs(step, number, 0x8000);
        step->uop.detail |= code << 2 * number;
        return true;
    case VALHALL_INVERTED: step->uop.flip[number - 1] = step->word >> INVERT_AT & 1 ? ~0u : 0; return true;
    case VALHALL_HALF_PART: step->uop.keep[number] = places_2(2 * (code & 1), 2 * (code >> 1)); return true;
    case VALHALL_PART: return part_of_word(step, number, code, is_signed);
    case VALHALL_PARTS_2: return parts_of_halves(step, number, code, is_signed);
    case VALHALL_PARTS_4:
        step->uop.keep[number] = places_4(code);
        return code < 12 || valhall_refuse(step, "parts of a word by a code that is reserved");
    default: return true;
    }
    return kind == VALHALL_FLOAT_SIGN || widen(step, number, code);
}

bool valhall_read_sources(struct valhall_step *step, bool is_signed)
{
    uint16_t zero = bifrost_constant(step->t, 0);

    step->uop = (struct bifrost_uop){.from = {zero, zero, zero, zero}, .keep = {~0u, ~0u, ~0u}};
    for (unsigned i = 0; i < VALHALL_SOURCES; i++) {
        unsigned kind = step->row->source[i], code = code_of(step, i);
        if (kind == VALHALL_NOTHING)
            break;
        bool is_pair =
            kind == VALHALL_PAIR || (kind == VALHALL_PAIR_PART && !(step->word >> step->row->place[i] & 15));
        if (is_pair ? !pair_of(step, code, &step->uop.from[i], &step->high[i])
                    : !word_of(step, code, &step->uop.from[i]))
            return false;
        if (!read_part(step, i, is_signed))
            return false;
    }
    return true;
}

/* ---- results ---- */

bool valhall_emit_to(struct valhall_step *step, uint16_t to)
{
    step->uop.to = to;
    return bifrost_emit(step->t, &step->uop);
}

bool valhall_emit(struct valhall_step *step)
{
    unsigned reg = (unsigned)(step->word >> 40 & CODE_MASK), writes = (unsigned)(step->word >> 46 & 3);
    struct bifrost_uop merge = bifrost_of_one(bifrost_mkvec_halves, (uint16_t)reg, SLOT_T0);

    if (writes == WRITES_NOTHING)
        return bifrost_refuse(step->t, MALI_INSTR_OPERAND_FAULT, "a result of which nothing is kept");
    if (writes == WRITES_ALL)
        return valhall_emit_to(step, (uint16_t)reg);
    merge.from[writes == WRITES_LOW] = (uint16_t)reg;
    merge.detail = 16 << 8; /* the low half of one, the high half of the other */
    return valhall_emit_to(step, SLOT_T0) && bifrost_emit(step->t, &merge);
}

bool valhall_emit_pair(struct valhall_step *step, const struct bifrost_uop *low, struct bifrost_uop high)
{
    unsigned reg = (unsigned)(step->word >> 40 & CODE_MASK), writes = (unsigned)(step->word >> 46 & 3);
    struct bifrost_uop first = *low, move = bifrost_of_one(bifrost_move, (uint16_t)reg, SLOT_T0);

    if (writes != WRITES_ALL || reg % 2)
        return bifrost_refuse(step->t, MALI_INSTR_OPERAND_FAULT, "a result of 64 bits that is no pair");
    first.to = SLOT_T0; /* the high word is made of sources that the low word's register may be one of */
    high.to = (uint16_t)(reg + 1);
    return bifrost_emit(step->t, &first) && bifrost_emit(step->t, &high) && bifrost_emit(step->t, &move);
}
