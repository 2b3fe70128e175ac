/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clauses of 32 bits to micro-operations. Sources: see mali_bifrost.h.
 *
 * A tuple's results arrive in their registers one tuple late: the next tuple still reads what was there, and
 * takes the results from t0 and t1. Here a result goes straight to its register where nobody can tell the
 * difference; else it waits in a slot of its own and is moved after the next tuple.
 */
#include "mali_bifrost_translate.h"
#include "mali_bifrost_float.h"
#include "mali_bifrost_integer.h"

enum { NO_SLOT = UINT16_MAX };

/* A result on its way to a register. */
struct late {
    uint16_t from;
    struct bifrost_destination to;
};

struct tuple_state {
    uint16_t fma, add; /* slots of the results, or NO_SLOT */
    struct late late[2];
    unsigned lates;
};

/* A tuple's two operations. */
struct tuple {
    unsigned number;
    struct bifrost_operation fma, add;
    uint32_t fma_word, add_word;
    const struct bifrost_block *block;
    struct bifrost_destination fma_to, add_to;
    struct tuple_state before, after;
};

static bool unavailable(struct bifrost_translation *t, uint16_t slot)
{
    return slot == NO_SLOT ? bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a result that does not exist")
                           : true;
}

/* Slot of a source code. */
static bool source(struct bifrost_translation *t, const struct tuple *tuple, bool is_add, unsigned code,
                   uint16_t *slot)
{
    switch (code) {
    case 0:
    case 1:
    case 2:
        if (tuple->block->port[code] == BIFROST_NOWHERE)
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "an operand from a port that is off");
        *slot = (uint16_t)tuple->block->port[code];
        return true;
    case 3: *slot = is_add ? tuple->after.fma : bifrost_constant(t, 0); return unavailable(t, *slot);
    case 6: *slot = tuple->before.fma; return unavailable(t, *slot);
    case 7: *slot = tuple->before.add; return unavailable(t, *slot);
    default: return bifrost_fau(t, tuple->block->fau, code == 5, slot);
    }
}

/* ---- where results go ---- */

/* Whether sources of an operation name a register: by a port or, of results of the tuple before, where they
 * are. */
static bool reads(const struct bifrost_operation *operation, uint32_t word, const struct bifrost_block *block,
                  const struct tuple_state *before, int reg)
{
    for (unsigned i = 0; i < operation->sources; i++) {
        unsigned code = word >> 3 * i & 7;
        if ((code < 3 && block->port[code] == reg) || (code == 6 && before && before->fma == reg) ||
            (code == 7 && before && before->add == reg))
            return true;
    }
    return false;
}

/* Whether the tuple after this one reads a register by its ports. */
static bool next_reads(const struct bifrost_translation *t, const struct tuple *tuple, int reg)
{
    unsigned next = tuple->number + 1;
    struct bifrost_operation operation;
    const struct bifrost_tuple *words = &t->clause.tuple[next];

    if (next == t->clause.count)
        return false;
    if (bifrost_fma(words->fma, &operation) && reads(&operation, words->fma, &t->block[next], NULL, reg))
        return true;
    return bifrost_add(words->add, &operation) && reads(&operation, words->add, &t->block[next], NULL, reg);
}

static bool is_late(const struct tuple_state *state, int reg)
{
    for (unsigned i = 0; i < state->lates; i++)
        if (state->late[i].to.reg == reg)
            return true;
    return false;
}

/* Slot for a result: its register, or `own`, from which it is moved later. */
static uint16_t place(const struct bifrost_translation *t, struct tuple *tuple, bool is_add, uint16_t own)
{
    struct bifrost_destination to = is_add ? tuple->add_to : tuple->fma_to;
    bool direct = to.part == PART_WHOLE && !next_reads(t, tuple, to.reg) &&
                  !is_late(&tuple->before, to.reg) && tuple->fma_to.reg != tuple->add_to.reg;

    if (to.reg == BIFROST_NOWHERE)
        return own;
    if (!is_add) /* the ADD comes later */
        direct = direct && tuple->fma.kind != BIFROST_SEGMENT_LOW &&
                 !reads(&tuple->add, tuple->add_word, tuple->block, &tuple->before, to.reg);
    if (direct)
        return (uint16_t)to.reg;
    tuple->after.late[tuple->after.lates++] = (struct late){own, to};
    return own;
}

/* Results of the tuple before arrive. */
static bool arrive(struct bifrost_translation *t, const struct tuple_state *state)
{
    static bifrost_run *const moves[3] = {
        [PART_LOW] = bifrost_move_low, [PART_HIGH] = bifrost_move_high, [PART_WHOLE] = bifrost_move};

    for (unsigned i = 0; i < state->lates; i++) {
        const struct late *late = &state->late[i];
        uint16_t reg = (uint16_t)late->to.reg;
        struct bifrost_uop move = bifrost_of_one(moves[late->to.part], reg, late->from);
        if (late->to.part != PART_WHOLE) /* the other part stays */
            move.from[1] = reg;
        if (!bifrost_emit(t, &move))
            return false;
    }
    return true;
}

/* ---- operations ---- */

/* An operation with its sources; halves are widened before it, the result is clamped after it. */
static bool compute(struct bifrost_translation *t, const struct bifrost_operation *o, struct bifrost_uop uop,
                    uint16_t to)
{
    for (unsigned i = 0; i < 2; i++) {
        struct bifrost_uop wide =
            bifrost_of_one(o->widen[i] == BIFROST_H0 ? bifrost_widen_h0 : bifrost_widen_h1,
                           (uint16_t)(SLOT_WIDENED + i), uop.from[i]);
        if (o->widen[i] == BIFROST_WHOLE)
            continue;
        if (!bifrost_emit(t, &wide))
            return false;
        uop.from[i] = wide.to;
    }
    struct bifrost_uop clamp = bifrost_of_one(bifrost_clamp[o->clamp], to, SLOT_UNCLAMPED);
    uop.to = o->clamp ? SLOT_UNCLAMPED : to;
    return bifrost_emit(t, &uop) && (!o->clamp || bifrost_emit(t, &clamp));
}

/* A micro-operation with the sources that an encoding names; others are zero. */
static bool operands(struct bifrost_translation *t, const struct tuple *tuple, bool is_add,
                     struct bifrost_uop *uop)
{
    const struct bifrost_operation *o = is_add ? &tuple->add : &tuple->fma;
    uint32_t word = is_add ? tuple->add_word : tuple->fma_word;

    *uop = (struct bifrost_uop){.run = o->run, .detail = o->detail};
    for (unsigned i = 0; i < 3; i++) {
        uop->keep[i] = o->keep[i];
        uop->flip[i] = o->flip[i];
    }
    for (unsigned i = 0; i < BIFROST_SOURCES; i++) {
        if (i >= o->sources)
            uop->from[i] = bifrost_constant(t, 0);
        else if (!source(t, tuple, is_add, word >> 3 * i & 7, &uop->from[i]))
            return false;
    }
    return true;
}

/* What ATOM_CX of the same tuple takes: address and data. */
static bool begin_atomic(struct bifrost_translation *t, const struct tuple *tuple,
                         const struct bifrost_uop *uop)
{
    static const uint16_t to[] = {SLOT_ADDRESS, SLOT_ADDRESS + 1, SLOT_DATA};

    if (tuple->add.kind != BIFROST_ATOMIC_HIGH)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "an atomic operation without its ADD operation");
    if (tuple->fma_to.reg != BIFROST_NOWHERE)
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a register gets a result that does not exist");
    for (unsigned i = 0; i < 3; i++) {
        uint16_t from = i < tuple->fma.sources ? uop->from[i] : bifrost_constant(t, tuple->fma.detail);
        struct bifrost_uop move = bifrost_of_one(bifrost_move, to[i], from);
        if (!bifrost_emit(t, &move))
            return false;
    }
    return true;
}

static bool translate_fma(struct bifrost_translation *t, struct tuple *tuple)
{
    struct bifrost_uop uop;

    if (tuple->fma.kind == BIFROST_NOP)
        return tuple->fma_to.reg == BIFROST_NOWHERE ||
               bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a register gets the result of a NOP");
    if (tuple->fma.kind == BIFROST_MULTIPLY_64)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "an operation of 64-bit clauses");
    if (!operands(t, tuple, false, &uop))
        return false;
    if (tuple->fma.kind == BIFROST_ATOMIC_LOW)
        return begin_atomic(t, tuple, &uop);
    if (tuple->fma.kind == BIFROST_SEGMENT_LOW) {
        if (tuple->fma.segment == SEGMENT_THREAD && t->environment->thread_bytes)
            uop.from[1] = SLOT_STORAGE;
        else if (tuple->fma.segment == SEGMENT_GROUP && t->environment->has_group_storage)
            uop.from[1] = bifrost_constant(t, (uint32_t)t->environment->group_storage);
        else
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT,
                                  "an address in storage that the job does not have");
        t->program->uses_storage = true;
    }
    tuple->after.fma = place(t, tuple, false, (uint16_t)(SLOT_T0 + tuple->number % 2));
    return compute(t, &tuple->fma, uop, tuple->after.fma);
}

/* What the ADD takes from the FMA of its tuple, other than its result. */
static bool complete(struct bifrost_translation *t, const struct tuple *tuple, struct bifrost_uop *uop)
{
    static const uint8_t partners[] = {[BIFROST_SHIFT_HIGH] = BIFROST_SHIFT_LOW,
                                       [BIFROST_COMPARE_HIGH] = BIFROST_COMPARE_LOW,
                                       [BIFROST_POINTER_HIGH] = BIFROST_POINTER_LOW,
                                       [BIFROST_SEGMENT_HIGH] = BIFROST_SEGMENT_LOW};

    if (tuple->add.kind == BIFROST_ALU || tuple->add.kind == BIFROST_EXCHANGE)
        return true;
    if (tuple->fma.kind != partners[tuple->add.kind])
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "it completes an FMA operation that is not there");
    switch (tuple->add.kind) {
    case BIFROST_SHIFT_HIGH: uop->run = bifrost_shift_double_high[tuple->fma.detail]; break;
    case BIFROST_COMPARE_HIGH:
        uop->run = bifrost_icmpf(tuple->fma_word);
        uop->detail = 1;
        break;
    case BIFROST_POINTER_HIGH:
        if (tuple->fma.run == bifrost_pointer_i64)
            uop->run = bifrost_pointer_high_i64;
        uop->detail = tuple->fma.detail;
        uop->from[2] = SLOT_HIDDEN;
        break;
    default: /* SEG_ADD */
        if (tuple->add.segment != tuple->fma.segment)
            return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "another segment than the FMA's");
        uop->from[1] = tuple->add.segment == SEGMENT_THREAD
                           ? (uint16_t)(SLOT_STORAGE + 1)
                           : bifrost_constant(t, (uint32_t)(t->environment->group_storage >> 32));
        uop->from[2] = SLOT_HIDDEN;
        return source(t, tuple, false, tuple->fma_word & 7, &uop->from[3]);
    }
    return true;
}

/* The address of a message; low word: source 0, high word: source 1, unless the FMA begins an address. */
static bool address(struct bifrost_translation *t, const struct tuple *tuple,
                    const struct bifrost_uop *sources)
{
    struct bifrost_uop low = bifrost_of_one(bifrost_move, SLOT_ADDRESS, sources->from[0]);
    struct bifrost_uop high = bifrost_of_one(bifrost_move, SLOT_ADDRESS + 1, sources->from[1]);

    if (tuple->fma.kind == BIFROST_POINTER_LOW) {
        bool wide = (tuple->add_word & 7) != 3;
        if (wide && tuple->fma.run != bifrost_pointer_i64)
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "an address whose low word is not the FMA's");
        low.from[0] = tuple->after.fma;
        high.run = wide ? bifrost_pointer_high_i64 : bifrost_pointer_high;
        high.from[1] = sources->from[0];
        high.from[0] = sources->from[1];
        high.from[2] = SLOT_HIDDEN;
        high.detail = tuple->fma.detail;
    }
    return bifrost_emit(t, &low) && bifrost_emit(t, &high);
}

static bool message(struct bifrost_translation *t, const struct tuple *tuple,
                    const struct bifrost_uop *sources)
{
    const struct bifrost_environment *environment = t->environment;
    struct bifrost_code *code = &t->code;

    if (code->message != MESSAGE_NONE)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a second message in a clause");
    code->message = tuple->add.kind == BIFROST_LOAD      ? MESSAGE_LOAD
                    : tuple->add.kind == BIFROST_STORE   ? MESSAGE_STORE
                    : tuple->add.kind == BIFROST_BARRIER ? MESSAGE_BARRIER
                                                         : MESSAGE_ATOMIC;
    if (code->message == MESSAGE_BARRIER) {
        t->program->uses_barrier = true;
        return true;
    }
    bool is_pair = tuple->add.kind == BIFROST_ATOMIC_HIGH; /* with the FMA, which has the address */
    if (is_pair && tuple->fma.kind != BIFROST_ATOMIC_LOW)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "it completes an FMA operation that is not there");
    code->transfer = is_pair ? tuple->fma.transfer : tuple->add.transfer;
    code->segment = is_pair ? SEGMENT_NONE : tuple->add.segment;
    code->staging = code->result = (uint8_t)bifrost_header(&t->clause, 18, 6);
    t->program->uses_atomics |= code->message == MESSAGE_ATOMIC;
    if (code->staging + code->transfer.words > BIFROST_REGISTERS)
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a message of registers after the last");
    if (is_pair)
        return true;
    if (code->segment == SEGMENT_UNIFORM && code->message == MESSAGE_LOAD) {
        t->program->uses_uniform_buffers = true;
        return address(t, tuple, sources);
    }
    if (code->segment != SEGMENT_NONE && code->segment != SEGMENT_GROUP && code->segment != SEGMENT_THREAD)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a message to a segment that is not modelled");
    if ((code->segment == SEGMENT_GROUP && !environment->has_group_storage) ||
        (code->segment == SEGMENT_THREAD && !environment->thread_bytes))
        return bifrost_refuse(t, MALI_INSTR_TLS_FAULT, "a message to storage that the job does not have");
    t->program->uses_storage |= code->segment != SEGMENT_NONE;
    return address(t, tuple, sources);
}

static bool branch(struct bifrost_translation *t, const struct tuple *tuple, struct bifrost_uop *uop)
{
    struct bifrost_code *code = &t->code;
    uint64_t target;

    if (tuple->number + 1 != t->clause.count)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a branch before the last tuple of a clause");
    if (!bifrost_target(t, tuple->block->fau, tuple->add_word >> 6 & 7, &target))
        return false;
    if (!code->next_va) /* threads end after the clause */
        return true;
    if (tuple->add.kind == BIFROST_JUMP) {
        code->next_va = target;
        return true;
    }
    code->branches = true;
    code->target_va = target;
    uop->to = SLOT_TAKEN;
    return bifrost_emit(t, uop);
}

static bool translate_add(struct bifrost_translation *t, struct tuple *tuple)
{
    struct bifrost_uop uop;

    if (!operands(t, tuple, true, &uop))
        return false;
    if (tuple->add.kind >= BIFROST_LOAD || tuple->add.kind == BIFROST_NOP) {
        if (tuple->add_to.reg != BIFROST_NOWHERE)
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT,
                                  "a register gets a result that does not exist");
        if (tuple->add.kind == BIFROST_NOP)
            return true;
        return tuple->add.kind >= BIFROST_BRANCH ? branch(t, tuple, &uop) : message(t, tuple, &uop);
    }
    t->program->exchanges |= tuple->add.kind == BIFROST_EXCHANGE;
    if (!complete(t, tuple, &uop))
        return false;
    tuple->after.add = place(t, tuple, true, (uint16_t)(SLOT_T1 + tuple->number % 2));
    return compute(t, &tuple->add, uop, tuple->after.add);
}

bool bifrost_translate(struct bifrost_translation *t)
{
    unsigned count = t->clause.count;
    struct tuple_state before = {.fma = NO_SLOT, .add = NO_SLOT};

    for (unsigned i = 0; i < count; i++) {
        t->encoding = (uint32_t)t->clause.tuple[i].block;
        if (!bifrost_block_read(&t->block[i], t->clause.tuple[i].block, i == 0))
            return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a register block of unknown mode");
    }
    for (unsigned i = 0; i < count; i++) {
        const struct bifrost_block *writes = &t->block[(i + 1) % count];
        struct tuple tuple = {.number = i,
                              .fma_word = t->clause.tuple[i].fma,
                              .add_word = t->clause.tuple[i].add,
                              .block = &t->block[i],
                              .fma_to = writes->fma,
                              .add_to = writes->add,
                              .before = before,
                              .after = {.fma = NO_SLOT, .add = NO_SLOT}};
        t->encoding = tuple.add_word;
        if (!bifrost_add(tuple.add_word, &tuple.add))
            return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "an ADD operation that is not known");
        t->encoding = tuple.fma_word;
        if (!bifrost_fma(tuple.fma_word, &tuple.fma))
            return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "an FMA operation that is not known");
        if (!translate_fma(t, &tuple))
            return false;
        t->encoding = tuple.add_word;
        if (!translate_add(t, &tuple) || !arrive(t, &before))
            return false;
        before = tuple.after;
    }
    return arrive(t, &before);
}
