/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Translation of a shader into micro-operations. Source of what an instruction does in which order:
 * Mesa 22.3.6, src/broadcom/compiler (qpu_schedule.c, qpu_validate.c).
 *
 * In one instruction both ALUs read before either writes, and signals deliver last. Micro-operations run one
 * after the other, so they are put in an order in which that makes no difference; where there is none, the
 * register that would be overwritten too early is copied first.
 */
#include "v3d_qpu_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_INSTRUCTIONS = 1 << 16,
    MAX_UOPS = 22, /* of one instruction */
};

/* ---- reading the code ---- */

static bool grow(struct qpu_program *program, uint32_t capacity)
{
    struct qpu_instr *instr = realloc(program->instr, capacity * sizeof *instr);
    char **reason;

    if (instr)
        program->instr = instr;
    if (!instr || !(reason = realloc(program->reason, (capacity + 1) * sizeof *reason)))
        return false;
    program->reason = reason;
    return true;
}

/*
 * Decode from program->va to the end of the thread's code: two delay slots after the thread switch that ends
 * the last section, or, where the furthest branch target is beyond, so much after an end or a branch without
 * a condition that follows it. *mapped: false when the code runs off the mapped pages.
 */
static bool read_code(struct qpu_program *program, struct qpu_worker *worker, bool single_segment,
                      bool *mapped)
{
    uint32_t furthest = 0, end = UINT32_MAX, capacity = 0, i = 0;
    bool last_section = single_segment, switching = false, beyond = false;

    *mapped = true;
    for (; i < MAX_INSTRUCTIONS && (end == UINT32_MAX || i <= end || i <= furthest); i++) {
        const uint8_t *at = qpu_granted(&worker->memory, QPU_SITE_UNIFORM, program->va + 8 * i, false);
        const char *reason = NULL;
        uint64_t word;

        if (!at) {
            *mapped = false;
            break;
        }
        if (i == capacity && !grow(program, capacity = capacity ? 2 * capacity : 256))
            return false;
        if (worker->memory.mmu->track)
            qpu_note_command(&worker->memory, program->va + 8 * i, 8);
        memcpy(&word, at, sizeof word);
        struct qpu_instr *instr = &program->instr[i];
        bool decoded = qpu_decode(program->version, word, instr, &reason);

        program->reason[i] = NULL;
        program->count = i + 1;
        if (!decoded && !(program->reason[i] = strdup(reason)))
            return false;
        if (!decoded && i >= furthest)
            break;
        if (!decoded)
            continue;
        if (instr->is_branch && instr->branch.destination == QPU_DEST_RELATIVE && instr->branch.offset >= 0) {
            uint32_t target = i + 4 + (uint32_t)instr->branch.offset / 8;
            furthest = target < MAX_INSTRUCTIONS && target > furthest ? target : furthest;
        }
        if (end != UINT32_MAX && i > end && i == furthest) { /* a subroutine behind the main program */
            end = UINT32_MAX;
            beyond = true;
        }
        bool thrsw = instr->signals & QPU_SIG_THRSW;
        if (thrsw && switching)
            last_section = true;
        else if (thrsw && last_section && end == UINT32_MAX)
            end = i + QPU_SWITCH_DELAY;
        else if (beyond && end == UINT32_MAX && instr->is_branch && instr->branch.cond == QPU_BRANCH_ALWAYS)
            end = i + QPU_BRANCH_DELAY;
        switching = thrsw;
    }
    if (program->count == 0 && !grow(program, 1))
        return false;
    program->reason[program->count] = NULL;
    return true;
}

/* ---- micro-operations ---- */

struct emitter {
    struct qpu_program *program;
    struct qpu_uop *next;
    uint32_t index;
    unsigned tmu_accesses; /* started so far */
};

static struct qpu_uop *emit(struct emitter *e, qpu_run *run)
{
    struct qpu_uop *u = e->next++;

    *u = (struct qpu_uop){.run = run, .index = e->index};
    return u;
}

static uint8_t source_slot(const struct qpu_instr *instr, uint8_t mux)
{
    if (mux < QPU_MUX_A)
        return (uint8_t)(QPU_SLOT_ACC + mux);
    return (uint8_t)((qpu_is_immediate(instr, mux) ? QPU_SLOT_IMM : QPU_SLOT_RF) +
                     instr->raddr[mux - QPU_MUX_A]);
}

/* Where an ALU's source comes from: those of mul are rotated first where the instruction says so. */
static uint8_t alu_slot(const struct qpu_instr *instr, const struct qpu_alu *alu, unsigned source)
{
    bool rotated = (instr->signals & QPU_SIG_ROT) && alu == &instr->mul;

    return rotated ? (uint8_t)QPU_SLOT_ROTATED : source_slot(instr, alu->mux[source]);
}

/* The slot that a write ends up in: SLOT_VOID for queues and the like. */
static uint8_t final_slot(uint8_t waddr, bool magic)
{
    if (!magic)
        return (uint8_t)(QPU_SLOT_RF + waddr);
    if (waddr <= QPU_MAGIC_R5)
        return (uint8_t)(QPU_SLOT_ACC + waddr);
    if (waddr >= QPU_MAGIC_RECIP && waddr <= QPU_MAGIC_RSQRT2)
        return QPU_SLOT_ACC + QPU_MAGIC_R4;
    return waddr == QPU_MAGIC_R5REP ? QPU_SLOT_ACC + QPU_MAGIC_R5 : QPU_SLOT_VOID;
}

/* Whether the final slot takes the result as it is. */
static bool written_directly(uint8_t waddr, bool magic)
{
    return !magic || waddr < QPU_MAGIC_R5 || waddr == QPU_MAGIC_NOP;
}

/* Look for NaNs, where `look` says, in lanes for which the condition holds. */
static void emit_nan_check(struct emitter *e, unsigned look, const struct qpu_alu *alu, uint8_t a, uint8_t b)
{
    if (!look)
        return;
    struct qpu_uop *u = emit(e, qpu_check_nan);

    u->value = look;
    u->a = a;
    u->b = b;
    u->unpack_a = alu->unpack[0];
    u->unpack_b = alu->unpack[1];
    u->cond = alu->cond;
}

/* Bring the value in slot `from` to a magic address that is not a plain register. */
static void emit_magic_write(struct emitter *e, uint8_t waddr, uint8_t from, uint8_t cond)
{
    static const uint8_t sfu[] = {QPU_OP_RECIP, QPU_OP_RSQRT, QPU_OP_EXP,
                                  QPU_OP_LOG,   QPU_OP_SIN,   QPU_OP_RSQRT2};
    qpu_run *run;
    uint32_t value = 0;

    switch (waddr) {
    case QPU_MAGIC_R5: run = qpu_write_r5; break;
    case QPU_MAGIC_R5REP: run = qpu_write_r5rep; break;
    case QPU_MAGIC_UNIFA: run = qpu_write_unifa; break;
    case QPU_MAGIC_SYNCB: run = qpu_write_barrier; break;
    case QPU_MAGIC_TMUC: run = qpu_tmu_configure; break;
    case QPU_MAGIC_TMUD: run = qpu_tmu_data; break;
    case QPU_MAGIC_TMUA: run = qpu_tmu_address; break;
    case QPU_MAGIC_TMUAU:
        run = qpu_tmu_address;
        value = QPU_TMU_CONFIGURED;
        break;
    default: run = qpu_write_sfu; value = sfu[waddr - QPU_MAGIC_RECIP];
    }
    struct qpu_uop *u = emit(e, run);
    if (run == qpu_tmu_address) {
        u->b = (uint8_t)(QPU_SITE_TMU + e->tmu_accesses++ % (QPU_SITES - QPU_SITE_TMU));
        if (e->program->instr[e->index].signals & QPU_SIG_LDTMU)
            value |= QPU_TMU_TAKES;
    }
    u->a = from;
    u->dst = final_slot(waddr, true);
    u->cond = cond;
    u->value = value;
    if (run == qpu_write_sfu && e->program->checks_nan)
        emit_nan_check(e, QPU_NAN_SINGLE, &(struct qpu_alu){.cond = cond}, u->dst, 0);
}

/* What fits best. */
static qpu_run *alu_handler(const struct qpu_alu *alu, uint8_t cond)
{
    const struct qpu_alu_handlers *handlers = qpu_alu_handlers(alu->op);
    enum qpu_variant variant = QPU_FULL;

    if (alu->op == QPU_OP_FCMP && !(alu->magic && alu->waddr == QPU_MAGIC_NOP)) /* its result counts, too */
        return handlers->run[QPU_FULL];
    if (!alu->pack && !alu->unpack[0] && !alu->unpack[1] && (cond == QPU_COND_ALWAYS || !alu->flag_op))
        variant = cond != QPU_COND_ALWAYS ? QPU_CONDITIONAL : alu->flag_op ? QPU_FLAGS : QPU_PLAIN;
    return handlers->run[variant] ? handlers->run[variant] : handlers->run[QPU_FULL];
}

/* An ALU's work: sources in slots `a` and `b`. */
static void emit_alu(struct emitter *e, const struct qpu_alu *alu, uint8_t temporary, uint8_t a, uint8_t b)
{
    bool direct = written_directly(alu->waddr, alu->magic);
    uint8_t cond = direct || alu->op == QPU_OP_SETMSF ? alu->cond : QPU_COND_ALWAYS;

    emit_nan_check(e, qpu_nan_before(e->program, alu), alu, a, b);
    struct qpu_uop *u = emit(e, alu_handler(alu, cond));

    u->dst = direct ? final_slot(alu->waddr, alu->magic) : temporary;
    u->a = a;
    u->b = b;
    u->unpack_a = alu->unpack[0];
    u->unpack_b = alu->unpack[1];
    u->pack = alu->pack;
    u->cond = cond;
    u->flag_op = alu->flag_op;
    u->value = alu->op;
    emit_nan_check(e, qpu_nan_after(e->program, alu), alu, u->dst, 0);
    if (!direct)
        emit_magic_write(e, alu->waddr, temporary, alu->cond);
}

static bool reads_flags(const struct qpu_alu *alu)
{
    return alu->cond != QPU_COND_ALWAYS || qpu_flag_reads(alu->op);
}

static bool reads_slot(const struct qpu_instr *instr, const struct qpu_alu *alu, uint8_t slot)
{
    for (unsigned i = 0; i < qpu_op_sources(alu->op); i++)
        if (alu_slot(instr, alu, i) == slot)
            return true;
    return false;
}

static void emit_rotation(struct emitter *e, const struct qpu_instr *instr)
{
    struct qpu_uop *u = emit(e, qpu_rotate);

    u->dst = QPU_SLOT_ROTATED;
    u->a = source_slot(instr, instr->mul.mux[0]);
    u->b = instr->mul.mux[0] == QPU_MUX_A;
    u->value = instr->raddr[1] ? instr->raddr[1] % QPU_LANES : QPU_ROTATE_BY_R5;
}

static void emit_alus(struct emitter *e, const struct qpu_instr *instr)
{
    const struct qpu_alu *first = &instr->add, *second = &instr->mul;
    bool add_first = second->flag_op && reads_flags(first);
    bool mul_first = first->flag_op && reads_flags(second);
    bool add_spoils = reads_slot(instr, second, final_slot(first->waddr, first->magic));
    bool mul_spoils = reads_slot(instr, first, final_slot(second->waddr, second->magic));

    if (first->op == QPU_OP_NOP || second->op == QPU_OP_NOP) {
        const struct qpu_alu *only = first->op == QPU_OP_NOP ? second : first;

        if (only->op != QPU_OP_NOP)
            emit_alu(e, only, QPU_SLOT_ADD, alu_slot(instr, only, 0), alu_slot(instr, only, 1));
        return;
    }
    if (mul_first || (!add_first && add_spoils && !mul_spoils)) {
        first = &instr->mul;
        second = &instr->add;
    }
    uint8_t sources[2], spoiled = final_slot(first->waddr, first->magic);
    bool copied = false;
    for (unsigned i = 0; i < 2; i++) {
        sources[i] = alu_slot(instr, second, i);
        if (i < qpu_op_sources(second->op) && sources[i] == spoiled) {
            if (!copied) {
                struct qpu_uop *copy = emit(e, qpu_alu_handlers(QPU_OP_MOV)->run[QPU_PLAIN]);

                copy->dst = QPU_SLOT_OLD;
                copy->a = spoiled;
                copy->value = QPU_OP_MOV;
                copied = true;
            }
            sources[i] = QPU_SLOT_OLD;
        }
    }
    emit_alu(e, first, QPU_SLOT_ADD, alu_slot(instr, first, 0), alu_slot(instr, first, 1));
    emit_alu(e, second, QPU_SLOT_MUL, sources[0], sources[1]);
}

static void emit_load(struct emitter *e, qpu_run *run, uint8_t waddr, bool magic)
{
    /* A load brings the same value to every lane of r5, or one to each: nothing to broadcast. */
    bool direct = written_directly(waddr, magic) || waddr == QPU_MAGIC_R5;

    emit(e, run)->dst = direct ? final_slot(waddr, magic) : QPU_SLOT_ADD;
    if (!direct)
        emit_magic_write(e, waddr, QPU_SLOT_ADD, QPU_COND_ALWAYS);
}

static void emit_signals(struct emitter *e, const struct qpu_instr *instr)
{
    /* Where a load goes that names no register: r5, of a V3D 7.1 rf0. */
    bool has_r5 = v3d_traits(instr->version)->has_accumulators;
    uint8_t target = has_r5 ? QPU_MAGIC_R5 : 0;

    if (instr->signals & QPU_SIG_LDTMU)
        emit_load(e, qpu_tmu_load, instr->sig_addr, instr->sig_magic);
    if (instr->signals & QPU_SIG_LDUNIF)
        emit_load(e, qpu_load_uniform, target, has_r5);
    if (instr->signals & QPU_SIG_LDUNIFRF)
        emit_load(e, qpu_load_uniform, instr->sig_addr, instr->sig_magic);
    if (instr->signals & QPU_SIG_LDUNIFA)
        emit_load(e, qpu_load_unifa, target, has_r5);
    if (instr->signals & QPU_SIG_LDUNIFARF)
        emit_load(e, qpu_load_unifa, instr->sig_addr, instr->sig_magic);
}

static void emit_instruction(struct emitter *e)
{
    struct qpu_program *program = e->program;
    uint32_t i = e->index;
    const struct qpu_instr *instr = &program->instr[i];

    if (program->reason[i]) {
        emit(e, qpu_stop_error);
        return;
    }
    if (program->moves_uniforms && qpu_uniforms_taken(instr) > 0)
        emit(e, qpu_check_uniform);
    if (instr->is_branch) {
        emit(e, qpu_branch_decide);
    } else {
        program->uses_barrier |= instr->add.op == QPU_OP_BARRIERID;
        program->uses_thread_index |= instr->add.op == QPU_OP_TIDX;
        if (instr->signals & QPU_SIG_ROT)
            emit_rotation(e, instr);
        emit_alus(e, instr);
        emit_signals(e, instr);
    }
    if (i >= QPU_SWITCH_DELAY && qpu_switches_at(program, i - QPU_SWITCH_DELAY))
        emit(e, qpu_switch_commit)->value = qpu_has_thrsw(program, i - QPU_SWITCH_DELAY + 1);
    if (i >= QPU_BRANCH_DELAY && !program->reason[i - QPU_BRANCH_DELAY] &&
        program->instr[i - QPU_BRANCH_DELAY].is_branch)
        emit(e, qpu_branch_commit);
}

bool qpu_program_build(struct qpu_program *program, struct qpu_worker *worker, enum v3d_version version,
                       uint32_t va, bool single_segment, bool checks_nan)
{
    bool mapped;

    *program = (struct qpu_program){.version = version, .va = va, .checks_nan = checks_nan};
    if (!read_code(program, worker, single_segment, &mapped))
        return false;
    program->first = malloc((program->count + 1) * sizeof *program->first);
    program->uop = malloc((program->count + 1) * MAX_UOPS * sizeof *program->uop);
    if (!program->first || !program->uop)
        return false;
    for (uint32_t i = 0; i < program->count; i++) {
        const char *reason = program->reason[i] ? NULL : qpu_unmodelled(program, i);

        if (reason && !(program->reason[i] = strdup(reason)))
            return false;
        program->moves_uniforms |= !program->reason[i] && qpu_moves_uniforms(&program->instr[i]);
    }
    struct emitter e = {program, program->uop, 0, 0};
    for (; e.index < program->count; e.index++) {
        program->first[e.index] = (uint32_t)(e.next - program->uop);
        emit_instruction(&e);
    }
    if (mapped)
        program->reason[program->count] = strdup("the thread runs past the end of the shader");
    if (mapped && !program->reason[program->count])
        return false;
    emit(&e, mapped ? qpu_stop_error : qpu_stop_fault)->value = va + 8 * program->count;
    program->uops = (uint32_t)(e.next - program->uop);
    return true;
}

void qpu_program_free(struct qpu_program *program)
{
    for (uint32_t i = 0; program->reason && i <= program->count; i++)
        free(program->reason[i]);
    free(program->reason);
    free(program->instr);
    free(program->first);
    free(program->uop);
    free(program->followed);
}
