/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compute dispatch: workgroups into supergroups, supergroups into batches of sixteen lanes,
 * batches onto worker threads.
 *
 * Configuration words: 0 to 2: workgroups x, y, z << 16 | offset; 3: (batches per supergroup - 1) << 12
 * | workgroups per supergroup << 8 (0: 16) | workgroup size (0: 256), bits 20:25 highest supergroup id
 * and bit 26 "may overlap the dispatch before", which permit concurrency and change no result; 4:
 * batches - 1 (of a V3D 7.1: batches, from 7.1.6 on), of which a V3D 4.2 runs exactly so many, whatever the
 * workgroups fill (py-videocore6, src/_videocore6/driver.py, examples and tests); 5: code address | propagate
 * NaN 4 (of a V3D 7.1: reserved) | single segment 2 | four threads 1; 6: uniforms. Source: Mesa 22.3.6 and,
 * for the V3D 7.1, 25.0.7, src/broadcom/vulkan/v3dv_cmd_buffer.c (cmd_buffer_create_csd_job).
 */
#include "meter.h"
#include "v3d_qpu.h"
#include "v3d_qpu_dispatch.h"
#include "v3d_qpu_flow.h"
#include "v3d_qpu_gang.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    CFG3_KNOWN = 0x07ffffff,
    /* Instructions that must be left to do for another worker thread to be worth its start. */
    WORTH_A_WORKER = 200000,
};

/* Instructions of a dispatch, unless its caller says otherwise: eight seconds of 8 QPUs at 500 MHz, four
 * cycles an instruction. The kernel driver lets a dispatch run on as long as batches end (v3d_sched.c). */
#define DISPATCH_LIMIT (UINT64_C(1) << 33)

static bool refuse(struct v3d_csd_result *result, const char *what, unsigned word, uint32_t value)
{
    snprintf(result->error, sizeof result->error, "CSD configuration word %u = 0x%08" PRIx32 ": %s", word,
             value, what);
    return false;
}

static bool read_configuration(struct qpu_dispatch *d, struct v3d_csd_result *result)
{
    const uint32_t *cfg = d->cfg;

    for (unsigned i = 0; i < 3; i++) {
        d->count[i] = cfg[i] >> 16;
        d->offset[i] = cfg[i] & 0xffff;
        if (d->count[i] == 0)
            return refuse(result, "no workgroups", i, cfg[i]);
    }
    if (cfg[3] & ~(uint32_t)CFG3_KNOWN)
        return refuse(result, "bits 31:27 have no known meaning", 3, cfg[3]);
    d->workgroup_size = cfg[3] & 0xff ? cfg[3] & 0xff : 256;
    d->workgroups_per_supergroup = cfg[3] >> 8 & 15 ? cfg[3] >> 8 & 15 : 16;
    d->workgroups = (uint64_t)d->count[0] * d->count[1] * d->count[2];
    d->index_bits = 6; /* of the local index: enough for the workgroup, at least 64 */
    while (1u << d->index_bits < d->workgroup_size)
        d->index_bits++;

    uint64_t rest = d->workgroups % d->workgroups_per_supergroup;
    d->full = (d->workgroups_per_supergroup * d->workgroup_size + QPU_LANES - 1) / QPU_LANES;
    d->filled = d->workgroups / d->workgroups_per_supergroup * d->full +
                (rest * d->workgroup_size + QPU_LANES - 1) / QPU_LANES;
    d->batches = (uint64_t)cfg[4] + v3d_traits(d->version)->has_free_batches;
    d->supergroups = (d->batches + d->full - 1) / d->full;
    if ((cfg[3] >> 12 & 0xff) + 1 != d->full)
        return refuse(result, "batches per supergroup do not fit the workgroups", 3, cfg[3]);
    if (!v3d_traits(d->version)->has_free_batches && d->batches != d->filled)
        return refuse(result, "number of batches does not fit the workgroups", 4, cfg[4]);
    if (cfg[6] % 4)
        return refuse(result, "uniforms at an address that is no multiple of 4", 6, cfg[6]);
    return true;
}

/* Keep why a supergroup has failed, unless a lower one has. */
static void keep_failure(struct qpu_worker_run *run, uint64_t supergroup)
{
    struct qpu_dispatch *d = run->dispatch;
    struct qpu_worker *worker = &run->worker;

    pthread_mutex_lock(&d->failing);
    if (supergroup < d->failed) {
        __atomic_store_n(&d->failed, supergroup, __ATOMIC_RELAXED);
        d->result->faulted = worker->faulted;
        d->result->fault_write = worker->fault_write;
        d->result->fault_va = worker->fault_va;
        memcpy(d->result->error, worker->error, sizeof d->result->error);
    }
    pthread_mutex_unlock(&d->failing);
    worker->faulted = false;
    worker->error[0] = 0;
}

static bool run_item(void *worker, uint64_t supergroup)
{
    struct qpu_worker_run *run = worker;

    if (qpu_run_supergroup(run, supergroup))
        return true;
    keep_failure(run, supergroup);
    return false;
}

/*
 * Of a program that reads its thread's number, where its scratch memory lies, supergroups of one column,
 * which are `columns` apart, have the same numbers, and those of two columns different ones. So columns may
 * run at once, each in its order, and scratch memory ends up as it does with one worker.
 */
static uint64_t columns_of(const struct qpu_dispatch *d)
{
    uint32_t at_once = qpu_threads_at_once(d);

    return v3d_traits(d->version)->has_thread_order && at_once % d->full == 0 ? at_once / d->full : 1;
}

/* Run a column but for the first supergroup, which has run, up to the lowest supergroup that has failed. */
static bool run_column(void *worker, uint64_t column)
{
    const struct qpu_dispatch *d = ((struct qpu_worker_run *)worker)->dispatch;

    for (uint64_t i = column ? column : d->columns; i < d->supergroups; i += d->columns)
        if (i > __atomic_load_n(&d->failed, __ATOMIC_RELAXED) || !run_item(worker, i))
            break;
    return true; /* another column may have a lower one that fails */
}

static bool prepare(struct qpu_worker_run *run, struct qpu_dispatch *d, struct v3d_mmu *mmu)
{
    size_t threads = d->program.uses_barrier ? qpu_batches_of(d, 0) : QPU_GANG;

    run->dispatch = d;
    run->worker.memory.mmu = mmu;
    run->worker.program = &d->program;
    run->worker.thread_limit = d->budget.limit < QPU_THREAD_LIMIT ? d->budget.limit : QPU_THREAD_LIMIT;
    if (d->program.moves_uniforms && !qpu_keep_stored(&run->worker))
        return false;
    run->threads = aligned_alloc(_Alignof(struct qpu_thread), threads * sizeof *run->threads);
    if (mmu->flow)
        run->labels = aligned_alloc(_Alignof(struct qpu_labels), threads * sizeof *run->labels);
    for (size_t i = 0; run->threads && i < threads; i++)
        for (uint8_t code = 0; code < QPU_SMALL_IMMEDIATES; code++) /* the same in every batch */
            run->threads[i].slot[QPU_SLOT_IMM + code] = qpu_splat(qpu_small_immediate(code));
    return run->threads && (run->labels || !mmu->flow);
}

/*
 * How many more workers the dispatch gets, once its first supergroup has run, for so many items of work. None
 * when supergroups must not overlap: the driver allocates shared memory for one supergroup at a time, and who
 * gets it must not depend on the number of workers.
 */
static unsigned extra_workers(const struct qpu_dispatch *d, const struct qpu_worker *first, uint64_t items,
                              unsigned threads)
{
    uint64_t left = (d->supergroups - 1) * first->instructions;

    if (d->program.uses_barrier || first->shared_memory || first->stored || first->memory.mmu->track ||
        first->memory.mmu->flow)
        return 0;
    uint64_t useful = left / WORTH_A_WORKER;
    if (useful > items - 1)
        useful = items - 1;
    if (threads > VGPU_MAX_WORKERS)
        threads = VGPU_MAX_WORKERS;
    return useful < threads ? (unsigned)useful : threads - 1;
}

/* What a meter does not see by itself. */
static void describe(const struct qpu_dispatch *d, uint64_t instructions, struct vgpu_dispatch *row)
{
    row->instructions = instructions;
    row->workgroups = d->workgroups;
    row->threads = d->workgroups * d->workgroup_size;
    row->groups = d->batches;
    row->resident = d->cfg[5] & CFG5_FOUR_THREADS ? 4 : 2;
    for (uint32_t i = 0; i < d->program.uops; i++) {
        uint32_t number = (uint32_t)d->program.uop[i].dst - QPU_SLOT_RF;

        if (number < 64 && number >= row->registers)
            row->registers = number + 1;
    }
}

/* Runs all supergroups, the first one alone: it says how many workers are worth their start. How many ran. */
static unsigned run_supergroups(struct qpu_dispatch *d, struct qpu_worker_run *runs, struct v3d_mmu *mmu,
                                unsigned threads)
{
    struct vgpu_work work = {.run = run_item, .next = 1, .count = d->supergroups, .failed = UINT64_MAX};
    void *each[VGPU_MAX_WORKERS] = {runs};
    unsigned workers = 1;

    if (mmu->track && d->program.uses_thread_index && !qpu_rehearse(&runs[0])) {
        keep_failure(&runs[0], 0);
    } else if (run_item(&runs[0], 0) && d->supergroups > 1) {
        d->columns = d->program.uses_thread_index ? columns_of(d) : d->supergroups;
        uint64_t items = d->columns < d->supergroups ? d->columns : d->supergroups;
        unsigned extra = extra_workers(d, &runs[0].worker, items, threads);
        if (extra && d->columns < d->supergroups)
            work = (struct vgpu_work){.run = run_column, .count = d->columns, .failed = UINT64_MAX};
        for (; workers <= extra && prepare(&runs[workers], d, mmu); workers++)
            each[workers] = &runs[workers];
        vgpu_work_run(&work, each, workers);
    }
    return workers;
}

void v3d_csd_run(struct v3d_mmu *mmu, enum v3d_version version, const uint32_t cfg[7], unsigned threads,
                 uint64_t limit, struct v3d_csd_result *result)
{
    struct qpu_dispatch d = {.version = version,
                             .cfg = cfg,
                             .hardware_threads = v3d_traits(version)->hardware_threads,
                             .budget.limit = limit ? limit : DISPATCH_LIMIT,
                             .result = result,
                             .failing = PTHREAD_MUTEX_INITIALIZER,
                             .failed = UINT64_MAX};

    *result = (struct v3d_csd_result){0};
    if (!read_configuration(&d, result))
        return;
    struct qpu_worker_run *runs = calloc(VGPU_MAX_WORKERS, sizeof *runs);
    bool ready = false;
    if (runs) {
        runs[0].worker.memory.mmu = mmu;
        ready = qpu_program_build(&d.program, &runs[0].worker, version, cfg[5] & ~(uint32_t)CFG5_FLAGS,
                                  cfg[5] & CFG5_SINGLE_SEGMENT,
                                  v3d_traits(version)->has_nan_flag && !(cfg[5] & CFG5_PROPAGATE_NAN)) &&
                prepare(&runs[0], &d, mmu) && (!mmu->flow || qpu_flow_prepare(&d.program, &runs[0].worker));
    }
    result->varies = ready && mmu->track && (mmu->flow || !qpu_mark_commands(&d.program));
    if (d.program.tmu_decides && d.program.uses_thread_index)
        runs[0].worker.own = qpu_own_create(); /* without: what is written and decides, varies */
    if (!ready) {
        snprintf(result->error, sizeof result->error, "out of host memory for a compute dispatch");
    } else if (d.batches > d.filled && qpu_reads_payload(&d.program)) {
        refuse(result, "batches beyond the workgroups, and the shader reads which workgroup it is", 4,
               cfg[4]);
    } else if ((d.program.uses_barrier && qpu_batches_of(&d, 0) > d.hardware_threads)) {
        snprintf(result->error, sizeof result->error,
                 "hang: a supergroup of %" PRIu32 " batches with a barrier, the GPU holds %" PRIu32
                 " at once",
                 qpu_batches_of(&d, 0), d.hardware_threads);
    } else {
        unsigned workers = run_supergroups(&d, runs, mmu, threads);
        for (unsigned i = 0; i < workers; i++) {
            result->instructions += runs[i].worker.instructions;
            result->bytes_read += runs[i].worker.bytes_read;
            result->bytes_written += runs[i].worker.bytes_written;
        }
        result->varies |= runs[0].worker.own && qpu_own_varies(runs[0].worker.own);
        if (mmu->meter)
            describe(&d, result->instructions, &mmu->meter->row);
    }
    for (unsigned i = 0; runs && i < VGPU_MAX_WORKERS; i++) {
        free(runs[i].threads);
        free(runs[i].labels);
        free(runs[i].worker.stored);
        qpu_own_free(runs[i].worker.own);
    }
    free(runs);
    qpu_program_free(&d.program);
}
