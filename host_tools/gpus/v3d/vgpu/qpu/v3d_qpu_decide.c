/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which words that a shader loads may decide what it accesses: an address, a branch, or which lanes take
 * part. What comes from each load is followed through the registers, along all ways through the program,
 * without regard to what they hold. Loads that decide are then made to mark their words as part of what the
 * job is (VGPU_ACCESS_COMMAND), as code and the words of the uniform stream are. If nobody writes such words,
 * every run of the program makes the same accesses: the first one that differed would differ because of such
 * a word.
 *
 * A word that its thread has itself written, and nobody else, as a spilled register is, is no part of what
 * the job is if what was written comes from such words only (v3d_qpu_own.c). That stores of others do not
 * write it shows while the program runs.
 *
 * A register that the thread has not written holds what another thread left there. It counts as nothing that
 * was loaded: where lanes do not run, compilers leave registers unwritten.
 * Sources: see v3d_qpu_exec.c and v3d_qpu_tmu.c.
 */
#include <stdlib.h>

#include "v3d_qpu_flow.h"
#include "v3d_qpu_program.h"

/* Registers: the slots that change, then what is no slot. */
enum { RTOP = QPU_SLOTS - QPU_SLOT_RF, FLAG_A, FLAG_B, TMU_DATA, REGISTERS };

/* Bit of what comes from the thread's number. */
#define THREAD (UINT64_C(1) << 63)

/* Loads that the content of each register comes from, a bit for each, which others may share, and THREAD. */
struct origins {
    uint64_t of[REGISTERS];
};

struct search {
    const struct qpu_program *program;
    struct origins *before; /* each micro-operation */
    bool *reached;          /* some way leads to it */
    bool again;             /* something has been added */
    bool unclear;           /* the program may go on anywhere */
    uint64_t deciding;      /* loads */
};

/* ---- registers ---- */

static uint64_t in(const struct origins *o, unsigned slot)
{
    return slot < QPU_SLOT_RF ? 0 : o->of[slot - QPU_SLOT_RF]; /* 0: a constant */
}

static uint64_t in_condition(const struct origins *o, uint8_t cond)
{
    if (cond == QPU_COND_ALWAYS)
        return 0;
    return o->of[cond == QPU_COND_IFA || cond == QPU_COND_IFNA ? FLAG_A : FLAG_B];
}

/* A result goes where its condition lets it; elsewhere, and in the other half of what is packed, the register
 * stays. */
static void put(struct origins *o, const struct qpu_uop *u, uint64_t found)
{
    bool whole = u->cond == QPU_COND_ALWAYS && u->pack == QPU_PACK_NONE;

    o->of[u->dst - QPU_SLOT_RF] = found | in_condition(o, u->cond) | (whole ? 0 : in(o, u->dst));
}

/* ---- micro-operations ---- */

static bool loads(const struct qpu_uop *u)
{
    return u->run == qpu_tmu_load || u->run == qpu_load_unifa;
}

static void follow_alu(struct search *s, struct origins *o, const struct qpu_uop *u)
{
    unsigned op = u->value, sources = qpu_op_sources((uint8_t)op);
    uint64_t found = (sources > 0 ? in(o, u->a) : 0) | (sources > 1 ? in(o, u->b) : 0);

    if (op == QPU_OP_SETMSF) { /* which lanes exist */
        s->deciding |= found | in_condition(o, u->cond);
        return;
    }
    if (op == QPU_OP_TIDX)
        found |= THREAD;
    if (qpu_flag_reads((uint8_t)op))
        found |= o->of[qpu_flag_reads((uint8_t)op) == QPU_READS_FLAG_A ? FLAG_A : FLAG_B];
    if (op == QPU_OP_UMUL24)
        found |= o->of[RTOP];
    if (op == QPU_OP_MULTOP || op == QPU_OP_UMUL24)
        o->of[RTOP] = op == QPU_OP_MULTOP ? found : 0;
    put(o, u, found);
    if (u->flag_op == QPU_FLAG_NONE)
        return;
    if (u->flag_op <= QPU_FLAG_PUSHC)
        o->of[FLAG_B] = o->of[FLAG_A];
    else
        found |= o->of[FLAG_A];
    o->of[FLAG_A] = found;
}

static void follow_branch(struct search *s, const struct origins *o, const struct qpu_branch *b)
{
    if (b->cond != QPU_BRANCH_ALWAYS)
        s->deciding |= o->of[FLAG_A];
    if (b->uniforms && b->uniform_destination == QPU_DEST_REGFILE)
        s->deciding |= in(o, QPU_SLOT_RF + b->raddr_a);
    s->unclear |= b->destination != QPU_DEST_RELATIVE;
}

/* What a micro-operation makes of *o. `own`: the bit of a load. */
static void follow(struct search *s, struct origins *o, const struct qpu_uop *u, uint64_t own)
{
    qpu_run *run = u->run;

    if (run == qpu_branch_decide)
        follow_branch(s, o, &s->program->instr[u->index].branch);
    else if (run == qpu_write_unifa || run == qpu_tmu_address || run == qpu_tmu_configure)
        s->deciding |= in(o, u->a) | in_condition(o, u->cond);
    else if (run == qpu_tmu_data)
        o->of[TMU_DATA] |= in(o, u->a);
    else if (loads(u) || run == qpu_load_uniform)
        put(o, u, own);
    else if (run == qpu_rotate)
        put(o, u, in(o, u->a) | (u->value == QPU_ROTATE_BY_R5 ? in(o, QPU_SLOT_ACC + QPU_MAGIC_R5) : 0));
    else if (run == qpu_write_r5 || run == qpu_write_r5rep || run == qpu_write_sfu)
        put(o, u, in(o, u->a));
    else if (run != qpu_branch_commit && run != qpu_switch_commit && run != qpu_write_barrier &&
             run != qpu_check_nan && run != qpu_check_uniform)
        follow_alu(s, o, u); /* all other handlers are an ALU's */
    if (run == qpu_tmu_address)
        o->of[TMU_DATA] = 0;
}

/* ---- the program ---- */

/* Some way leads to a micro-operation, with these registers. */
static void join(struct search *s, uint32_t to, const struct origins *o)
{
    s->again |= !s->reached[to];
    s->reached[to] = true;
    for (unsigned i = 0; i < REGISTERS; i++) {
        uint64_t *of = &s->before[to].of[i];

        s->again |= (o->of[i] & ~*of) != 0;
        *of |= o->of[i];
    }
}

static void follow_on(struct search *s, uint32_t number, uint64_t own)
{
    const struct qpu_program *program = s->program;
    const struct qpu_uop *u = &program->uop[number];
    struct origins after = s->before[number];

    if (u->run == qpu_stop_error || u->run == qpu_stop_fault)
        return;
    follow(s, &after, u, own);
    if (u->run == qpu_branch_commit) {
        uint32_t decided = u->index - QPU_BRANCH_DELAY;
        int64_t target = (int64_t)decided + 4 + program->instr[decided].branch.offset / 8;

        if (target >= 0 && target < program->count)
            join(s, program->first[target], &after);
    }
    join(s, number + 1, &after); /* in any case: a branch's delay slots may be jumped into */
}

/* The bit of a load, of which `number` come before it. */
static uint64_t bit_of(uint32_t number)
{
    return UINT64_C(1) << number % 63;
}

static void search(struct search *s)
{
    const struct qpu_program *program = s->program;

    s->reached[0] = s->again = true;
    while (s->again && !s->unclear) {
        uint32_t number = 0;

        s->again = false;
        for (uint32_t i = 0; i < program->uops; i++) {
            bool is_load = loads(&program->uop[i]);

            if (s->reached[i])
                follow_on(s, i, is_load ? bit_of(number) : 0);
            number += is_load;
        }
    }
}

/* ---- loads that decide, while they run ---- */

static const struct qpu_uop *load_tmu_command(struct qpu_thread *t, const struct qpu_uop *u)
{
    const struct qpu_taken *taken = &t->tmu_taken[t->tmu_fifo_head];

    for (unsigned left = t->tmu_fifo_count ? taken->lanes : 0; left; left &= left - 1)
        qpu_note_command(&t->worker->memory, taken->address[__builtin_ctz(left)], taken->bytes);
    return qpu_tmu_load(t, u);
}

static const struct qpu_uop *load_unifa_command(struct qpu_thread *t, const struct qpu_uop *u)
{
    uint32_t va = t->unifa_va;

    if (qpu_granted(&t->worker->memory, QPU_SITE_UNIFA, va, false))
        qpu_note_command(&t->worker->memory, va, 4);
    return qpu_load_unifa(t, u);
}

/* Whether a micro-operation stores, at an address that is its thread's, what decides nothing that is not
 * known to decide. */
static bool stores_own(const struct search *s, uint32_t number)
{
    const struct qpu_uop *u = &s->program->uop[number];
    const struct origins *o = &s->before[number];

    return s->reached[number] && u->run == qpu_tmu_address && in(o, u->a) & THREAD &&
           !(o->of[TMU_DATA] & ~(s->deciding | THREAD));
}

bool qpu_mark_commands(struct qpu_program *program)
{
    struct search s = {.program = program,
                       .before = calloc(program->uops, sizeof *s.before),
                       .reached = calloc(program->uops, sizeof *s.reached)};
    uint32_t number = 0;

    s.unclear = !s.before || !s.reached;
    if (!s.unclear)
        search(&s);
    for (uint32_t i = 0; i < program->uops && !s.unclear; i++)
        program->uop[i].value |= stores_own(&s, i) ? QPU_TMU_OWN : 0;
    free(s.before);
    free(s.reached);
    for (uint32_t i = 0; i < program->uops && !s.unclear; i++) {
        struct qpu_uop *u = &program->uop[i];

        if (!loads(u) || !(s.deciding & bit_of(number++)))
            continue;
        program->tmu_decides |= u->run == qpu_tmu_load;
        u->run = u->run == qpu_tmu_load ? load_tmu_command : load_unifa_command;
    }
    return !s.unclear;
}
