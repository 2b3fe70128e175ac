/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs: the clauses that threads can come to, from the first one on, each translated once. Sources: see
 * mali_bifrost.h. */
#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_translate.h"

enum { MAX_CLAUSES = 1 << 12, MAX_CONSTANTS = 1 << 12, FIRST_UOPS = 256 };
enum {
    MESSAGE_TYPE_NONE = 0,
    MESSAGE_TYPE_LOAD = 5,
    MESSAGE_TYPE_STORE = 6,
    MESSAGE_TYPE_ATOMIC = 7,
    MESSAGE_TYPE_BARRIER = 8
};
enum { MESSAGE_TYPE_WIDE = 15 };

/* Header bits that change how floats are computed, and those that have no known meaning. */
#define HEADER_FLOAT_MODES (UINT64_C(0xf) << 5)
#define HEADER_RESERVED (UINT64_C(0x1f) | UINT64_C(1) << 14)

bool bifrost_refuse(struct bifrost_translation *t, uint32_t status, const char *reason)
{
    if (!t->code.status) {
        t->code.status = status;
        t->code.reason = reason;
        t->code.encoding = t->encoding;
    }
    return false;
}

struct bifrost_uop bifrost_of_one(bifrost_run *run, uint16_t to, uint16_t from)
{
    return (struct bifrost_uop){.run = run, .to = to, .from = {from, from, from, from}};
}

bool bifrost_emit(struct bifrost_translation *t, const struct bifrost_uop *uop)
{
    struct bifrost_program *program = t->program;

    if (program->uops == program->room) {
        uint32_t room = 2 * program->room;
        struct bifrost_uop *bigger = realloc(program->uop, room * sizeof(*bigger));
        if (!bigger) {
            t->out_of_memory = true;
            return false;
        }
        program->uop = bigger;
        program->room = room;
    }
    program->uop[program->uops++] = *uop;
    return true;
}

uint16_t bifrost_constant(struct bifrost_translation *t, uint32_t word)
{
    struct bifrost_program *program = t->program;
    uint32_t i = 0;

    while (i < program->constants && program->constant[i] != word)
        i++;
    if (i == MAX_CONSTANTS) {
        t->out_of_memory = true;
        return SLOT_CONSTANTS;
    }
    if (i == program->constants)
        program->constant[program->constants++] = word;
    return (uint16_t)(SLOT_CONSTANTS + i);
}

/* ---- the FAU port: push uniforms, constants of the clause, special values ---- */

enum { FAU_UNIFORM = 0x80, FAU_CONSTANT = 0x20, FAU_ZERO = 0, FAU_LANE = 1 };

/* Number of the constant that an index names. False: refused. */
static bool find_constant(struct bifrost_translation *t, unsigned fau, unsigned *number)
{
    static const uint8_t numbers[8] = {[2] = 4, [3] = 5, [4] = 0, [5] = 1, [6] = 2, [7] = 3};

    *number = numbers[fau >> 4 & 7];
    if (t->clause.constants >> *number & 1)
        return true;
    return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a constant that the clause does not have");
}

bool bifrost_fau(struct bifrost_translation *t, unsigned fau, bool high, uint16_t *slot)
{
    const struct bifrost_environment *environment = t->environment;
    unsigned number;

    if (fau & FAU_UNIFORM) {
        unsigned index = fau & ~(unsigned)FAU_UNIFORM;
        if (index >= environment->uniforms)
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a push uniform that the job does not have");
        *slot = bifrost_constant(t, environment->uniform[2 * index + high]);
    } else if (fau >= FAU_CONSTANT) {
        if (!find_constant(t, fau, &number))
            return false;
        enum bifrost_relative relative = t->clause.relative[number];
        if (relative == BIFROST_UNKNOWN || relative & (high ? BIFROST_HIGH : BIFROST_LOW))
            return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "an operand relative to the program counter");
        uint64_t value = t->clause.constant[number] | (fau & 15);
        *slot = bifrost_constant(t, (uint32_t)(value >> (high ? 32 : 0)));
    } else if (fau == FAU_ZERO || (fau == FAU_LANE && high)) {
        *slot = bifrost_constant(t, 0);
    } else if (fau == FAU_LANE) {
        *slot = SLOT_LANE;
    } else {
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a special operand that is not modelled");
    }
    return true;
}

bool bifrost_target(struct bifrost_translation *t, unsigned fau, unsigned source, uint64_t *va)
{
    unsigned number;

    *va = 0;
    if (source != 4 && source != 5)
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a branch to a register");
    if (fau == FAU_ZERO)
        return true;
    if (fau < FAU_CONSTANT || fau & FAU_UNIFORM)
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a branch to what is no constant");
    if (!find_constant(t, fau, &number))
        return false;
    enum bifrost_relative relative = t->clause.relative[number];
    uint64_t value = t->clause.constant[number] | (fau & 15);
    uint32_t word = (uint32_t)(value >> (source == 5 ? 32 : 0));
    /* The zero that ends a thread is a word of a constant where another operand needs the constant's other
     * one. */
    if (!word && (relative == BIFROST_ABSOLUTE || relative == (source == 5 ? BIFROST_LOW : BIFROST_HIGH)))
        return true;
    if (relative == BIFROST_UNKNOWN || !(relative & (source == 5 ? BIFROST_HIGH : BIFROST_LOW)))
        return bifrost_refuse(t, MALI_INSTR_OPERAND_FAULT, "a branch that is not relative");
    /* 28 bits of a word; 60 of both where the low one alone is relative (Mesa 22.3.6
     * src/panfrost/bifrost/disassemble.c, dump_pc_imm). */
    int64_t offset = relative == BIFROST_LOW ? (int64_t)(value << 4) >> 4 : (int32_t)(word << 4) >> 4;
    *va = t->code.va + (uint64_t)offset;
    if (*va % BIFROST_QUADWORD || !*va)
        return bifrost_refuse(t, MALI_INSTR_INVALID_PC, "a branch to the middle of a quadword");
    return true;
}

/* ---- clauses ---- */

/* The clause at code->va. False: refused, or it cannot be fetched. */
static bool fetch(struct bifrost_translation *t, const struct mali_memory *memory)
{
    struct bifrost_clause *clause = &t->clause;
    uint8_t quadword[BIFROST_QUADWORD];

    while (!clause->is_whole) {
        uint64_t va = t->code.va + BIFROST_QUADWORD * clause->quadwords;
        const uint8_t *at = mali_command(memory, va, sizeof(quadword), MALI_EXECUTE, &t->code.fault);
        if (!at) {
            t->code.status = MALI_INSTR_INVALID_PC;
            return false;
        }
        memcpy(quadword, at, sizeof(quadword));
        memcpy(&t->encoding, quadword, sizeof(t->encoding));
        const char *flaw = bifrost_clause_take(clause, quadword);
        if (flaw)
            return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, flaw);
    }
    return true;
}

/* What a header says, and whether the clause does that. */
static bool check_header(struct bifrost_translation *t)
{
    static const uint8_t types[] = {[MESSAGE_NONE] = MESSAGE_TYPE_NONE,
                                    [MESSAGE_LOAD] = MESSAGE_TYPE_LOAD,
                                    [MESSAGE_STORE] = MESSAGE_TYPE_STORE,
                                    [MESSAGE_ATOMIC] = MESSAGE_TYPE_ATOMIC,
                                    [MESSAGE_BARRIER] = MESSAGE_TYPE_BARRIER};
    unsigned type = bifrost_header(&t->clause, 35, 5);

    t->encoding = (uint32_t)t->clause.header;
    if (t->clause.header & HEADER_FLOAT_MODES)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a clause with a float mode that is not modelled");
    if (t->clause.header & HEADER_RESERVED)
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC, "a clause header with reserved bits");
    if (type != MESSAGE_TYPE_WIDE && type != types[t->code.message])
        return bifrost_refuse(t, MALI_INSTR_INVALID_ENC,
                              "a message type in a clause header that its message is not of");
    return true;
}

static void translate_clause(struct bifrost_translation *t, const struct mali_memory *memory)
{
    struct bifrost_code *code = &t->code;
    code->first = t->program->uops;
    t->clause = (struct bifrost_clause){0};
    if (!fetch(t, memory))
        return;
    code->tuples = (uint16_t)t->clause.count;
    code->slots = (uint16_t)(2 * t->clause.count);
    if (bifrost_header(&t->clause, 11, 3)) /* flow: 0 ends threads */
        code->next_va = code->va + BIFROST_QUADWORD * t->clause.quadwords;
    bool done = bifrost_header(&t->clause, 35, 5) == MESSAGE_TYPE_WIDE ? bifrost_translate_wide(t)
                                                                       : bifrost_translate(t);
    if (done)
        check_header(t);
    code->uops = t->program->uops - code->first;
}

/* ---- programs ---- */

/* Number of the clause at va, or where it would be. */
static uint32_t position(const struct bifrost_program *program, uint64_t va)
{
    uint32_t low = 0, high = program->clauses;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (program->code[middle].va < va)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_known(const struct bifrost_program *program, uint64_t va)
{
    uint32_t at = position(program, va);

    return at < program->clauses && program->code[at].va == va;
}

static int32_t number_of(const struct bifrost_program *program, uint64_t va)
{
    return va ? (int32_t)position(program, va) : BIFROST_END;
}

/* Translate what is not yet, and note what follows. */
static bool explore(struct bifrost_translation *t, const struct mali_memory *memory, uint64_t va,
                    bifrost_translator *translate, uint64_t *pending)
{
    struct bifrost_program *program = t->program;
    unsigned left = 0;

    pending[left++] = va;
    while (left) {
        struct bifrost_code *code = &t->code;
        *code = (struct bifrost_code){.va = pending[--left]};
        if (is_known(program, code->va))
            continue;
        if (program->clauses == MAX_CLAUSES)
            return false;
        translate(t, memory);
        if (t->out_of_memory)
            return false;
        uint32_t at = position(program, code->va);
        memmove(&program->code[at + 1], &program->code[at], (program->clauses - at) * sizeof(*code));
        program->code[at] = *code;
        program->clauses++;
        if (code->status)
            continue;
        if (code->next_va)
            pending[left++] = code->next_va;
        if (code->branches && code->target_va)
            pending[left++] = code->target_va;
    }
    for (uint32_t i = 0; i < program->clauses; i++) {
        struct bifrost_code *code = &program->code[i];
        code->next = number_of(program, code->next_va);
        code->target = number_of(program, code->target_va);
    }
    program->entry = (int32_t)position(program, va);
    return true;
}

bool bifrost_program_make(struct bifrost_program *program, const struct mali_memory *memory, uint64_t va,
                          const struct bifrost_environment *environment, bifrost_translator *translate,
                          const void *context, const char **reason)
{
    struct bifrost_translation t = {.program = program, .environment = environment, .context = context};
    uint64_t *pending = malloc((2 * MAX_CLAUSES + 1) * sizeof(*pending));

    *program = (struct bifrost_program){.room = FIRST_UOPS};
    program->uop = malloc(FIRST_UOPS * sizeof(*program->uop));
    program->code = malloc((MAX_CLAUSES + 1) * sizeof(*program->code));
    program->constant = malloc(MAX_CONSTANTS * sizeof(*program->constant));
    bool done = pending && program->uop && program->code && program->constant && bifrost_constant(&t, 0) &&
                explore(&t, memory, va, translate, pending);
    free(pending);
    if (done && memory->tracks)
        done = bifrost_watch(program);
    if (!done)
        *reason = "a program of too many clauses or constants, or too little memory of this machine";
    return done;
}

bool bifrost_program_build(struct bifrost_program *program, const struct mali_memory *memory, uint64_t va,
                           const struct bifrost_environment *environment, const char **reason)
{
    return bifrost_program_make(program, memory, va, environment, translate_clause, NULL, reason);
}

void bifrost_program_free(struct bifrost_program *program)
{
    free(program->code);
    free(program->uop);
    free(program->constant);
    free(program->seen);
}
