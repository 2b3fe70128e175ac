/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control of a QPU thread: uniform streams, branches, thread switches, memory and errors.
 *
 * Sources: Mesa 22.3.6, src/broadcom/compiler (qpu_schedule.c, qpu_validate.c: delay slots, thread switches,
 * the end of a program) and src/broadcom/qpu/qpu_instr.h (kinds of branches). Rotations, the link register:
 * py-videocore6, src/_videocore6/assembler.py and tests, which ran on a Raspberry Pi 4.
 */
#include "v3d_qpu_flow.h"
#include "v3d_qpu_gang.h"
#include "v3d_qpu_program.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* ---- errors and memory ---- */

const struct qpu_uop *qpu_fail(struct qpu_thread *t, const struct qpu_uop *u, const char *format, ...)
{
    struct qpu_worker *worker = t->worker;
    const struct qpu_program *program = worker->program;
    va_list args;
    int n = snprintf(worker->error, sizeof worker->error,
                     "QPU instruction at 0x%08" PRIx32 " (0x%016" PRIx64 "): ", program->va + 8 * u->index,
                     u->index < program->count ? program->instr[u->index].word : 0);

    va_start(args, format);
    vsnprintf(worker->error + n, sizeof worker->error - (size_t)n, format, args);
    va_end(args);
    t->state = QPU_FAILED;
    return NULL;
}

const struct qpu_uop *qpu_fault(struct qpu_thread *t, uint32_t va, bool write)
{
    t->worker->faulted = true;
    t->worker->fault_va = va;
    t->worker->fault_write = write;
    t->state = QPU_FAILED;
    return NULL;
}

const struct qpu_uop *qpu_stop_error(struct qpu_thread *t, const struct qpu_uop *u)
{
    return qpu_fail(t, u, "%s", t->worker->program->reason[u->index]);
}

/* The code itself is not mapped. */
const struct qpu_uop *qpu_stop_fault(struct qpu_thread *t, const struct qpu_uop *u)
{
    return qpu_fault(t, u->value, false);
}

/* ---- uniforms ---- */

/* Note a word of a stream in the access map. */
static __attribute__((noinline)) void note_word(struct qpu_memory *memory, unsigned site, uint32_t va)
{
    if (site == QPU_SITE_UNIFORM)
        qpu_note_command(memory, va, 4);
    else
        qpu_note(memory, va, 4, false);
}

/* The word at *va, which moves on, in host memory; NULL after a fault. */
static inline const uint8_t *next_word(struct qpu_thread *t, unsigned site, uint32_t *va)
{
    struct qpu_memory *memory = &t->worker->memory;
    const uint8_t *at = qpu_granted(memory, site, *va, false);

    if (!at) {
        qpu_fault(t, *va, false);
        return NULL;
    }
    if (__builtin_expect(memory->mmu->track, false))
        note_word(memory, site, *va);
    *va += 4;
    return at;
}

bool qpu_pop_uniform(struct qpu_thread *t, uint32_t *value)
{
    const uint8_t *at = next_word(t, QPU_SITE_UNIFORM, &t->uniform_va);

    if (!at)
        return false;
    __builtin_memcpy(value, at, sizeof *value);
    t->worker->bytes_read += 4 * t->gang; /* each thread's */
    return true;
}

const struct qpu_uop *qpu_load_uniform(struct qpu_thread *t, const struct qpu_uop *u)
{
    uint32_t value;

    if (!qpu_pop_uniform(t, &value))
        return NULL;
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)
        each->slot[u->dst] = qpu_splat(value);
    QPU_GO_ON(t, u);
}

const struct qpu_uop *qpu_load_unifa(struct qpu_thread *t, const struct qpu_uop *u)
{
    for (unsigned i = 0; i < t->gang; i++) {
        const uint8_t *at = next_word(t + i, QPU_SITE_UNIFA, &t[i].unifa_va);

        if (at) {
            t[i].slot[u->dst] = qpu_splat(*(const qpu_word_any *)at);
            t->worker->bytes_read += 4;
        } else if (i > 0) {
            qpu_gang_part(t, u, i);
        } else {
            return NULL;
        }
    }
    QPU_GO_ON(t, u);
}

/* ---- writes to magic addresses; u->a is the slot with the value ---- */

/* The first lane's value counts. */
const struct qpu_uop *qpu_write_unifa(struct qpu_thread *t, const struct qpu_uop *u)
{
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)
        if (qpu_condition_bits(each, u->cond) & 1)
            each->unifa_va = each->slot[u->a][0] & ~3u;
    QPU_GO_ON(t, u);
}

/* r5: each quad gets its first lane's value. */
const struct qpu_uop *qpu_write_r5(struct qpu_thread *t, const struct qpu_uop *u)
{
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)
        each->slot[u->dst] = qpu_select(qpu_condition(each, u->cond), qpu_first_of_quads(each->slot[u->a]),
                                        each->slot[u->dst]);
    QPU_GO_ON(t, u);
}

const struct qpu_uop *qpu_write_r5rep(struct qpu_thread *t, const struct qpu_uop *u)
{
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)
        each->slot[u->dst] =
            qpu_select(qpu_condition(each, u->cond), qpu_splat(each->slot[u->a][0]), each->slot[u->dst]);
    QPU_GO_ON(t, u);
}

/* One thread's; false: the lanes of r5 differ. */
static bool rotate(struct qpu_thread *t, const struct qpu_uop *u)
{
    const qpu_u32 source = t->slot[u->a], r5 = t->slot[QPU_SLOT_ACC + QPU_MAGIC_R5];
    unsigned by = u->value;

    if (by == QPU_ROTATE_BY_R5) {
        by = r5[0] % QPU_LANES;
        if (qpu_any((r5 ^ qpu_splat(r5[0])) % QPU_LANES))
            return false;
    }
    for (unsigned lane = 0; lane < QPU_LANES; lane++)
        t->slot[u->dst][lane] = source[qpu_rotated_from(lane, by, u->b)];
    return true;
}

/*
 * u->value: by how many lanes; QPU_ROTATE_BY_R5: what r5 says. Registers of the register file are rotated in
 * each quad by itself (u->b), accumulators over all lanes.
 */
const struct qpu_uop *qpu_rotate(struct qpu_thread *t, const struct qpu_uop *u)
{
    for (unsigned i = 0; i < t->gang; i++) {
        if (rotate(t + i, u))
            continue;
        if (i == 0)
            return qpu_fail(t, u, "rotation by r5 with lanes that differ: not modelled");
        qpu_gang_part(t, u, i);
    }
    QPU_GO_ON(t, u);
}

/* The result is in r4 two instructions later; code may not read r4 before, so it can be there at once. */
const struct qpu_uop *qpu_write_sfu(struct qpu_thread *t, const struct qpu_uop *u)
{
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++) {
        qpu_u32 result = each->slot[u->a];

        qpu_sfu((uint8_t)u->value, &result);
        each->slot[u->dst] = qpu_select(qpu_condition(each, u->cond), result, each->slot[u->dst]);
    }
    QPU_GO_ON(t, u);
}

const struct qpu_uop *qpu_write_barrier(struct qpu_thread *t, const struct qpu_uop *u)
{
    t->barrier = true;
    QPU_GO_ON(t, u);
}

/* ---- branches ---- */

bool qpu_branch_taken(const struct qpu_thread *t, const struct qpu_branch *branch)
{
    unsigned a = qpu_mask_bits(t->flag_a);
    unsigned count = branch->msfign == QPU_MSFIGN_NONE ? 0xffff
                     : branch->msfign == QPU_MSFIGN_P  ? t->exist
                                                       : qpu_quads_with(t->exist);

    switch (branch->cond) {
    case QPU_BRANCH_A0: return a & 1;
    case QPU_BRANCH_NA0: return !(a & 1);
    case QPU_BRANCH_ALLA: return !(~a & count);
    case QPU_BRANCH_ANYNA: return ~a & count;
    case QPU_BRANCH_ANYA: return a & count;
    case QPU_BRANCH_ALLNA: return !(a & count);
    default: return true;
    }
}

/* Whether another thread comes to the same decision, and goes to the same place. */
static bool agrees(const struct qpu_thread *t, const struct qpu_thread *other,
                   const struct qpu_branch *branch, bool taken)
{
    bool by_register = branch->destination == QPU_DEST_REGFILE ||
                       (branch->uniforms && branch->uniform_destination == QPU_DEST_REGFILE);
    unsigned slot = QPU_SLOT_RF + branch->raddr_a;

    return qpu_branch_taken(other, branch) == taken &&
           (!by_register || other->slot[slot][0] == t->slot[slot][0]);
}

const struct qpu_uop *qpu_branch_decide(struct qpu_thread *t, const struct qpu_uop *u)
{
    const struct qpu_program *program = t->worker->program;
    const struct qpu_branch *branch = &program->instr[u->index].branch;
    bool taken = qpu_branch_taken(t, branch);

    for (unsigned i = 1; i < t->gang; i++)
        if (!agrees(t, t + i, branch, taken))
            qpu_gang_part(t, u, i);
    uint32_t next = program->va + 8 * (u->index + 4), target = next + (uint32_t)branch->offset;
    uint32_t uniforms = t->uniform_va;

    if (branch->uniforms) {
        uint32_t value = 0;

        if (branch->uniform_destination == QPU_DEST_REGFILE)
            uniforms = t->slot[QPU_SLOT_RF + branch->raddr_a][0];
        else if (!qpu_pop_uniform(t, &value)) /* taken or not */
            return NULL;
        else
            uniforms = branch->uniform_destination == QPU_DEST_RELATIVE ? t->uniform_va + value : value;
    }
    if (!taken)
        return u + 1;
    if (uniforms % 4)
        return qpu_fail(t, u, "uniform stream moved to 0x%08" PRIx32 ", which is no multiple of 4", uniforms);
    t->uniform_va = uniforms;
    if (branch->destination == QPU_DEST_ABSOLUTE)
        target = (uint32_t)branch->offset;
    else if (branch->destination == QPU_DEST_REGFILE)
        target = t->slot[QPU_SLOT_RF + branch->raddr_a][0];
    else if (branch->destination == QPU_DEST_LINK)
        target = t->link;
    if (branch->links) /* a branch that is not taken is taken not to set it: no source says */
        for (unsigned i = 0; i < t->gang; i++) /* each thread's: lr reads it */
            t[i].link = next;
    if ((target - program->va) % 8 || (target - program->va) / 8 >= program->count)
        return qpu_fail(t, u,
                        "branch to 0x%08" PRIx32 ", outside the shader (0x%08" PRIx32 " and %" PRIu32
                        " instructions)",
                        target, program->va, program->count);
    t->branch_to = &program->uop[program->first[(target - program->va) / 8]];
    return u + 1;
}

/* Count the straight run that ends with instruction `last`. */
static bool count_run(struct qpu_thread *t, const struct qpu_uop *u, uint32_t last)
{
    t->instructions += last + 1 - t->run_start;
    t->run_start = last + 1;
    if (t->instructions <= t->worker->thread_limit)
        return true;
    qpu_fail(t, u, "hang: one thread ran more than %llu instructions",
             (unsigned long long)t->worker->thread_limit);
    return false;
}

/* After the third delay slot of a branch. */
const struct qpu_uop *qpu_branch_commit(struct qpu_thread *t, const struct qpu_uop *u)
{
    const struct qpu_uop *to = t->branch_to;

    if (!to)
        return u + 1;
    t->branch_to = NULL;
    if (!count_run(t, u, u->index))
        return NULL;
    t->run_start = to->index;
    return to;
}

/* ---- thread switches ---- */

/* After the second delay slot of thrsw; u->value: two in a row, which announces the last section. */
const struct qpu_uop *qpu_switch_commit(struct qpu_thread *t, const struct qpu_uop *u)
{
    if (t->last_section) {
        if (qpu_has_thrsw(t->worker->program, u->index))
            return qpu_fail(t, u, "thrsw in the delay slots of the one that ends the thread");
        if (!count_run(t, u, u->index))
            return NULL;
        t->state = QPU_ENDED;
        return NULL;
    }
    t->last_section = u->value;
    if (!t->barrier && !t->takes_turns)
        return u + 1;
    t->state = t->barrier ? QPU_AT_BARRIER : QPU_READY;
    t->barrier = false;
    t->resume = u + 1;
    return NULL;
}

void qpu_thread_run(struct qpu_thread *t)
{
    const struct qpu_uop *u = t->resume;

    t->state = QPU_READY;
    while (u)
        u = u->run(t, u);
}
