/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of a dispatch, by themselves or, with barriers, in turn. Sources: see v3d_csd.c. */
#include "v3d_qpu_dispatch.h"
#include "v3d_qpu_flow.h"
#include "v3d_qpu_gang.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

uint32_t qpu_threads_at_once(const struct qpu_dispatch *d)
{
    return d->cfg[5] & CFG5_FOUR_THREADS ? 32 : 16;
}

uint32_t qpu_batches_of(const struct qpu_dispatch *d, uint64_t supergroup)
{
    uint64_t left = d->batches - supergroup * d->full;

    return left < d->full ? (uint32_t)left : d->full;
}

/*
 * What a batch starts with: rf0 (of a V3D 7.1: rf3) = workgroup x | y << 16; rf2 = workgroup z | workgroup
 * within the supergroup << 16 | local index << (32 - index_bits). (Mesa, nir_to_vir.c: cs_payload.) Lanes
 * beyond the last workgroup have an empty sample mask; their payload is that of the dispatch's first lane.
 * Of batches beyond the last workgroup all lanes exist; the payload, which is not known, is not read
 * (v3d_qpu_payload.c).
 */
static void set_payload(struct qpu_thread *t, const struct qpu_dispatch *d, uint64_t supergroup,
                        uint32_t batch)
{
    uint32_t within = batch * QPU_LANES / d->workgroup_size, local = batch * QPU_LANES % d->workgroup_size;
    uint32_t first[QPU_LANES], second[QPU_LANES], msf[QPU_LANES];
    qpu_u32 exist;
    bool beyond = supergroup * d->full + batch >= d->filled;

    for (uint32_t lane = 0; lane < QPU_LANES; within++, local = 0) { /* a workgroup's lanes at a time */
        uint64_t group = supergroup * d->workgroups_per_supergroup + within;
        bool exists = within < d->workgroups_per_supergroup && group < d->workgroups;

        if (!exists)
            group = 0;
        uint32_t x = (uint32_t)(group % d->count[0]) + d->offset[0];
        uint32_t y = (uint32_t)(group / d->count[0] % d->count[1]) + d->offset[1];
        uint32_t z = (uint32_t)(group / d->count[0] / d->count[1]) + d->offset[2];
        uint32_t rf2 = (z & 0xffff) | (exists ? within << 16 : 0);

        for (; local < d->workgroup_size && lane < QPU_LANES; local++, lane++) {
            msf[lane] = exists || beyond;
            first[lane] = (x & 0xffff) | y << 16;
            second[lane] = rf2 | (exists ? local << (32 - d->index_bits) : 0);
        }
    }
    memcpy(&t->slot[qpu_payload_slot(d->version)], first, sizeof first);
    memcpy(&t->payload, second, sizeof second);
    memcpy(&exist, msf, sizeof msf);
    t->slot[QPU_SLOT_RF + 2] = t->payload;
    qpu_set_msf(t, &exist);
}

/*
 * The number (tidx) of the thread that runs the batch which is the `turn`th to start. A V3D 4.2 gives batches
 * to its eight QPUs in turn; threads of a QPU that runs two at once are 0 and 2. (py-videocore6, tests/
 * test_parallel.py and examples/sgemm.py, which ran on a Raspberry Pi 4.) Of QPUs that run four, and of a
 * V3D 7.1, no source says in which order; each number is given once.
 */
static uint32_t thread_number(const struct qpu_dispatch *d, uint32_t turn)
{
    static const uint8_t of_qpu[] = {0, 2, 1, 3};

    turn %= d->hardware_threads;
    return v3d_traits(d->version)->has_thread_order ? turn % 8 * 4 + of_qpu[turn / 8] : turn;
}

static void start_thread(struct qpu_thread *t, struct qpu_worker_run *run, uint64_t supergroup,
                         uint32_t batch, uint32_t turn)
{
    const struct qpu_dispatch *d = run->dispatch;
    const size_t cleared = offsetof(struct qpu_thread, slot) + QPU_SLOT_RF * sizeof *t->slot;

    /* The register file starts as zero: on the device it holds what the thread before left. */
    memset((char *)t + cleared, 0, sizeof *t - cleared);
    set_payload(t, d, supergroup, batch);
    t->worker = &run->worker;
    t->gang = 1;
    t->uniform_va = d->cfg[6];
    t->thread_index = thread_number(d, run->turn + turn);
    t->number = ++run->worker.started;
    t->tmu_config = UINT32_MAX;
    t->tmu_fifo_limit = d->cfg[5] & CFG5_FOUR_THREADS ? QPU_TMU_FIFO / 4 : QPU_TMU_FIFO;
    t->last_section = d->cfg[5] & CFG5_SINGLE_SEGMENT;
    t->resume = d->program.uop;
    if (run->labels) {
        t->labels = &run->labels[t - run->threads];
        qpu_flow_start(t);
    }
}

/* Count a batch that has ended. */
static bool spend(struct qpu_worker_run *run, uint64_t instructions)
{
    struct vgpu_budget *budget = &run->dispatch->budget;

    run->worker.instructions += instructions;
    if (vgpu_budget_spend(budget, instructions))
        return true;
    snprintf(run->worker.error, sizeof run->worker.error,
             "hang: a dispatch ran more than %" PRIu64 " instructions", budget->limit);
    return false;
}

/*
 * Whether threads may run together. Those that have the same number would have the same scratch memory; and
 * whether an access is the first to a byte, what a label goes to, or whether a uniform has been written
 * before it is read, is told by the order of one thread after another.
 */
static bool in_gangs(const struct qpu_worker_run *run)
{
    const struct qpu_program *program = &run->dispatch->program;
    const struct v3d_mmu *mmu = run->worker.memory.mmu;
    bool numbered = program->uses_barrier || v3d_traits(run->dispatch->version)->has_thread_order;

    return !mmu->track && !mmu->flow && !run->worker.stored && (numbered || !program->uses_thread_index);
}

/*
 * Run batches that may wait for each other, in turns: each goes on to its next thread switch, as on a chip,
 * where programs rely on it that what all load at once, nobody has overwritten. At a barrier all wait for the
 * last.
 */
static bool run_together(struct qpu_worker_run *run, uint64_t supergroup, uint32_t batches)
{
    for (uint32_t b = 0; b < batches; b++) {
        start_thread(&run->threads[b], run, supergroup, b, b);
        run->threads[b].takes_turns = true;
    }
    for (;;) {
        uint32_t waiting = 0, ended = 0;

        if (in_gangs(run))
            qpu_gang_form(run->threads, batches);
        for (uint32_t b = 0; b < batches; b += run->threads[b].gang) {
            struct qpu_thread *t = &run->threads[b];

            if (t->state == QPU_READY)
                qpu_thread_run(t);
            if (t->state == QPU_FAILED)
                return false;
            waiting += t->state == QPU_AT_BARRIER ? t->gang : 0;
            ended += t->state == QPU_ENDED ? t->gang : 0;
        }
        if (ended == batches)
            break;
        if (waiting + ended < batches)
            continue;
        if (ended > 0) {
            snprintf(run->worker.error, sizeof run->worker.error,
                     "hang: of %" PRIu32 " batches in supergroup %" PRIu64 ", %" PRIu32
                     " wait at a barrier that the others ended without reaching",
                     batches, supergroup, waiting);
            return false;
        }
        for (uint32_t b = 0; b < batches; b++)
            run->threads[b].state = QPU_READY;
    }
    for (uint32_t b = 0; b < batches; b += run->threads[b].gang)
        if (!spend(run, run->threads[b].instructions * run->threads[b].gang))
            return false;
    return true;
}

/* Run `count` batches from `first` on, which wait for no others; more than one: in gangs. */
static bool run_apart(struct qpu_worker_run *run, uint64_t supergroup, uint32_t first, uint32_t count)
{
    const struct qpu_dispatch *d = run->dispatch;
    uint32_t at_once = qpu_threads_at_once(d);
    uint64_t number = v3d_traits(d->version)->has_thread_order ? supergroup * d->full + first : 0;

    for (uint32_t b = 0; b < count; b++)
        start_thread(&run->threads[b], run, supergroup, first + b, (uint32_t)((number + b) % at_once));
    qpu_gang_form(run->threads, count);
    for (uint32_t b = 0; b < count; b += run->threads[b].gang) {
        struct qpu_thread *t = &run->threads[b];

        qpu_thread_run(t);
        if (t->state != QPU_ENDED || !spend(run, t->instructions * t->gang))
            return false;
    }
    return true;
}

bool qpu_run_supergroup(struct qpu_worker_run *run, uint64_t supergroup)
{
    uint32_t batches = qpu_batches_of(run->dispatch, supergroup);

    if (run->dispatch->program.uses_barrier)
        return run_together(run, supergroup, batches);
    uint32_t most = in_gangs(run) ? QPU_GANG : 1;
    for (uint32_t b = 0; b < batches; b += most)
        if (!run_apart(run, supergroup, b, batches - b < most ? batches - b : most))
            return false;
    return true;
}

/*
 * Let the access map show what the dispatch's other threads would touch. Scratch memory lies by thread index,
 * and a chip gives batches to whichever thread is free, while here it is said which: so the first batch
 * (or those that run together with it) runs as each other thread, too, and what it writes is taken back. What
 * later batches need beyond that is on the same pages or the page behind them: a thread's registers and
 * spills are few. A thread whose scratch memory is not mapped fails, as it would on a chip.
 */
bool qpu_rehearse(struct qpu_worker_run *run)
{
    const struct qpu_dispatch *d = run->dispatch;
    bool ended = true;

    run->worker.memory.undoable = true;
    for (uint32_t i = 1; i < d->hardware_threads && ended; i++) {
        run->turn = i;
        ended =
            d->program.uses_barrier ? run_together(run, 0, qpu_batches_of(d, 0)) : run_apart(run, 0, 0, 1);
        qpu_undo(&run->worker.memory);
        if (ended && run->worker.stored && !qpu_keep_stored(&run->worker)) {
            snprintf(run->worker.error, sizeof run->worker.error,
                     "out of host memory for a compute dispatch");
            ended = false;
        }
        run->dispatch->budget.used = 0;
    }
    run->turn = 0;
    run->worker.memory.undoable = false;
    if (ended)
        run->worker.instructions = run->worker.bytes_read = run->worker.bytes_written = 0;
    return ended;
}
