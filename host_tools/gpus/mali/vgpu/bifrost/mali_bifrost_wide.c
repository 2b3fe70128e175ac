/* SPDX-License-Identifier: BSD-2-Clause */
/* Clauses of 64 bits: multiply-adds of pairs of registers. Sources: see mali_bifrost.h. */
#include "mali_bifrost_integer.h"
#include "mali_bifrost_translate.h"

/* Slots of a source: low word, high word. */
static bool source(struct bifrost_translation *t, unsigned number, unsigned code, uint16_t *low,
                   uint16_t *high)
{
    const struct bifrost_block *block = &t->block[number];

    switch (code) {
    case 0:
    case 1:
    case 2:
        if (block->port[code] == BIFROST_NOWHERE)
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "an operand from a port that is off");
        *low = (uint16_t)block->port[code];
        *high = (uint16_t)(*low + 1);
        return true;
    case 3: *low = *high = bifrost_constant(t, 0); return true;
    case 4:
    case 5: return bifrost_fau(t, block->fau, false, low) && bifrost_fau(t, block->fau, true, high);
    case 6:
        *low = (uint16_t)(SLOT_T0 + (number + 1) % 2);
        *high = (uint16_t)(SLOT_T0_HIGH + (number + 1) % 2);
        if (number)
            return true;
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a result of the tuple before the first");
    default:
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a result that a 64-bit clause does not have");
    }
}

/* The result of a tuple to its pair of registers. */
static bool write_pair(struct bifrost_translation *t, unsigned number)
{
    int reg = t->block[(number + 1) % t->clause.count].fma.reg;

    if (reg == BIFROST_NOWHERE)
        return true;
    struct bifrost_uop low = bifrost_of_one(bifrost_move, (uint16_t)reg, (uint16_t)(SLOT_T0 + number % 2));
    struct bifrost_uop high =
        bifrost_of_one(bifrost_move, (uint16_t)(reg + 1), (uint16_t)(SLOT_T0_HIGH + number % 2));
    return bifrost_emit(t, &low) && bifrost_emit(t, &high);
}

static bool multiply(struct bifrost_translation *t, unsigned number)
{
    const struct bifrost_tuple *tuple = &t->clause.tuple[number];
    struct bifrost_operation fma, add;
    struct bifrost_uop uop = {.to = (uint16_t)(SLOT_T0 + number % 2)};

    t->encoding = tuple->add;
    if (!bifrost_add(tuple->add, &add) || add.kind != BIFROST_NOP)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "an ADD operation in a 64-bit clause");
    t->encoding = tuple->fma;
    if (!bifrost_fma(tuple->fma, &fma) || fma.kind != BIFROST_MULTIPLY_64)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "an FMA operation that is none of 64-bit clauses");
    uop.run = fma.run;
    uop.detail = SLOT_T0_HIGH + number % 2;
    for (unsigned i = 0; i < fma.sources; i++)
        if (!source(t, number, tuple->fma >> 3 * i & 7, &uop.from[i], &uop.high[i]))
            return false;
    uop.from[3] = uop.from[0];
    return bifrost_emit(t, &uop);
}

/* A tuple reads registers before the results of the one before it arrive in them. */
bool bifrost_translate_wide(struct bifrost_translation *t)
{
    unsigned count = t->clause.count;

    for (unsigned i = 0; i < count; i++) {
        t->encoding = (uint32_t)t->clause.tuple[i].block;
        if (!bifrost_block_read_wide(&t->block[i], t->clause.tuple[i].block))
            return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a register block of unknown mode");
    }
    for (unsigned i = 0; i < count; i++)
        if (!multiply(t, i) || (i && !write_pair(t, i - 1)))
            return false;
    return write_pair(t, count - 1);
}
