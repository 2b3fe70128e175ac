/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compute jobs: from a dispatch (mali_dispatch.c) to batches of threads on worker threads.
 * Sources: see mali_dispatch.c.
 */
#include "mali_compute.h"

#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_batch.h"
#include "mali_dispatch.h"
#include "workers.h"

enum {
    MAX_TEAM = (MALI_MAX_WORKGROUP + BIFROST_LANES - 1) / BIFROST_LANES,
    /* Caches that a meter has: a core's, whose size no public source has, a guess; the L2 of a Kirin 960's
     * G71, two (MEM_FEATURES 0x101) of 512 KiB (L2_FEATURES 0x07130206), as GPUReplay's recordings show them.
     */
    CORE_CACHE_BYTES = 16 << 10,
    L2_BYTES = 1 << 20,
};
/* Slots that must be left to do for another worker thread to be worth its start. */
#define WORTH_A_WORKER 2000000u

/* What a worker thread has. A team is a workgroup with barriers, else one batch. */
struct runner {
    const struct mali_dispatch *dispatch;
    struct bifrost_worker worker;
    struct bifrost_batch *batch[MAX_TEAM];
    uint64_t failed; /* item, or UINT64_MAX */
};

/* ---- threads ---- */

/* Count to the next thread. */
static void advance(const struct mali_dispatch *d, uint32_t local[3], uint32_t group[3])
{
    for (unsigned i = 0; i < 3; i++) {
        if (++local[i] < d->size[i])
            return;
        local[i] = 0;
    }
    for (unsigned i = 0; i < 3; i++) {
        if (++group[i] < d->groups[i])
            return;
        group[i] = 0;
    }
}

static void preload(const struct mali_dispatch *d, bifrost_vector *slot, int lane, const uint32_t local[3],
                    const uint32_t group[3])
{
    if (d->preload & MALI_PRELOAD_LOCAL_XY)
        slot[MALI_FIRST_PRELOADED][lane] = local[0] | local[1] << 16;
    if (d->preload & MALI_PRELOAD_LOCAL_Z)
        slot[MALI_FIRST_PRELOADED + 1][lane] = local[2];
    for (unsigned i = 0; i < 3; i++) {
        if (d->preload & MALI_PRELOAD_GROUP << i)
            slot[MALI_FIRST_PRELOADED + 2 + i][lane] = group[i];
        if (d->preload & MALI_PRELOAD_GLOBAL << i)
            slot[MALI_FIRST_PRELOADED + 5 + i][lane] = group[i] * d->size[i] + local[i];
    }
}

/* A batch at its first clause: `count` threads from number `first` on, which are `own` in the team and so
 * have the storage. Registers start as zero: on the device they hold what a thread before left. */
static void start(const struct mali_dispatch *d, struct bifrost_batch *batch, uint64_t first, unsigned count,
                  unsigned own)
{
    uint64_t number = first / d->group_threads;
    uint32_t inside = (uint32_t)(first % d->group_threads);
    uint32_t local[3] = {inside % d->size[0], inside / d->size[0] % d->size[1],
                         inside / d->size[0] / d->size[1]};
    uint32_t group[3] = {(uint32_t)(number % d->groups[0]), (uint32_t)(number / d->groups[0] % d->groups[1]),
                         (uint32_t)(number / d->groups[0] / d->groups[1])};

    memset(batch->slot, 0, SLOT_CONSTANTS * sizeof(*batch->slot));
    bifrost_watch_start(batch);
    for (unsigned i = 0; i < count; i++) {
        uint64_t storage = d->environment.thread_storage + (uint64_t)(own + i) * d->environment.thread_bytes;
        preload(d, batch->slot, (int)i, local, group);
        batch->slot[SLOT_LANE][i] = (uint32_t)((first + i) % d->group_threads % d->dev->chip->warp);
        batch->slot[SLOT_STORAGE][i] = (uint32_t)storage;
        batch->slot[SLOT_STORAGE + 1][i] = (uint32_t)(storage >> 32);
        advance(d, local, group);
    }
    batch->alive = count == BIFROST_LANES ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    batch->together = true;
    batch->at = d->program.entry;
    batch->clauses = 0;
}

static unsigned at_most(uint64_t threads)
{
    return threads < BIFROST_LANES ? (unsigned)threads : BIFROST_LANES;
}

/* Batches that wait for one another: round after round, up to the next barrier. */
static bool run_team(struct runner *runner, uint64_t workgroup)
{
    const struct mali_dispatch *d = runner->dispatch;
    unsigned batches = (d->group_threads + BIFROST_LANES - 1) / BIFROST_LANES;
    unsigned done = 0;

    for (unsigned i = 0; i < batches; i++)
        start(d, runner->batch[i], workgroup * d->group_threads + i * BIFROST_LANES,
              at_most(d->group_threads - i * BIFROST_LANES), i * BIFROST_LANES);
    while (done < batches) {
        unsigned ended = 0;
        done = 0;
        for (unsigned i = 0; i < batches; i++) {
            uint64_t before = runner->batch[i]->alive;
            enum bifrost_state state = bifrost_batch_run(runner->batch[i]);
            if (state == BATCH_FAILED)
                return false;
            done += state == BATCH_ENDED;
            ended += runner->batch[i]->alive != before || !before;
        }
        if (done < batches && ended)
            return bifrost_fail(
                &runner->worker, &d->program.code[d->program.entry], MALI_INSTR_BARRIER_FAULT,
                "threads of workgroup %llu wait at a barrier that others ended without reaching",
                (unsigned long long)workgroup);
    }
    return true;
}

static bool run_item(void *worker, uint64_t item)
{
    struct runner *runner = worker;
    const struct mali_dispatch *d = runner->dispatch;
    bool done;

    if (d->may_wait) {
        done = run_team(runner, item);
    } else {
        start(d, runner->batch[0], item * BIFROST_LANES, at_most(d->threads - item * BIFROST_LANES), 0);
        done = bifrost_batch_run(runner->batch[0]) == BATCH_ENDED;
    }
    if (!done)
        runner->failed = item;
    return done;
}

/* ---- workers ---- */

static bool prepare(struct runner *runner, const struct mali_dispatch *d)
{
    unsigned batches = d->may_wait ? (d->group_threads + BIFROST_LANES - 1) / BIFROST_LANES : 1;

    runner->dispatch = d;
    runner->failed = UINT64_MAX;
    runner->worker = (struct bifrost_worker){.memory = &d->memory,
                                             .chain = &d->dev->chain,
                                             .program = &d->program,
                                             .environment = &d->environment,
                                             .meter = d->meter,
                                             .warp = d->dev->chip->warp};
    for (unsigned i = 0; i < batches; i++) {
        runner->batch[i] = bifrost_batch_create(&runner->worker);
        if (!runner->batch[i])
            return false;
    }
    return true;
}

/* More workers than the first, which has run the first item. None where threads have storage, or where the
 * order of threads shows: who gets which must not depend on the number of workers. */
static unsigned extra_workers(const struct mali_dispatch *d, const struct runner *first, uint64_t items)
{
    uint64_t useful = (items - 1) * first->worker.slots / WORTH_A_WORKER;
    unsigned threads = vgpu_worker_threads(&d->dev->base.options);

    if (d->program.uses_storage || d->program.uses_atomics)
        return 0;
    if (useful > items - 1)
        useful = items - 1;
    return useful < threads ? (unsigned)useful : threads - 1;
}

/* The exception of the item that failed, or 0. */
static uint32_t collect(const struct mali_dispatch *d, struct runner *const *runners, unsigned workers,
                        uint64_t failed)
{
    struct vgpu_counters *counters = &d->dev->base.counters;
    const struct bifrost_failure *failure = NULL;

    for (unsigned i = 0; i < workers; i++) {
        counters->instructions += runners[i]->worker.slots;
        counters->bytes_read += runners[i]->worker.bytes_read;
        counters->bytes_written += runners[i]->worker.bytes_written;
        if (failed != UINT64_MAX && runners[i]->failed == failed)
            failure = &runners[i]->worker.failure;
    }
    if (!failure)
        return 0;
    if (failure->text[0])
        vgpu_fail(&d->dev->base, "%s: compute job at GPU address 0x%llx: %s", d->dev->chip->name,
                  (unsigned long long)d->va, failure->text);
    else
        mali_report(d->dev, d->space, &failure->fault);
    return failure->status;
}

static uint32_t run_all(const struct mali_dispatch *d, struct runner **runners, unsigned *workers)
{
    uint64_t items =
        d->may_wait ? d->threads / d->group_threads : (d->threads + BIFROST_LANES - 1) / BIFROST_LANES;
    struct vgpu_work work = {.run = run_item, .next = 1, .count = items, .failed = UINT64_MAX};

    if (!run_item(runners[0], 0))
        return collect(d, runners, 1, 0);
    unsigned count = 1, wanted = 1 + extra_workers(d, runners[0], items);
    while (count < wanted) {
        runners[count] = calloc(1, sizeof(*runners[count]));
        if (!runners[count])
            break;
        *workers = count + 1;
        if (!prepare(runners[count], d))
            break;
        count++;
    }
    vgpu_work_run(&work, (void *const *)runners, count);
    return collect(d, runners, count, work.failed);
}

/* What a meter does not see by itself. */
static void describe(const struct mali_dispatch *d)
{
    struct vgpu_dispatch *row = &d->meter->row;

    row->workgroups = d->threads / d->group_threads;
    row->threads = d->threads;
    row->groups = row->workgroups * ((d->group_threads + d->dev->chip->warp - 1) / d->dev->chip->warp);
    for (uint32_t i = 0; i < d->program.uops; i++)
        if (d->program.uop[i].to < BIFROST_REGISTERS && d->program.uop[i].to >= row->registers)
            row->registers = d->program.uop[i].to + 1u;
}

uint32_t mali_compute(struct mali_device *dev, unsigned space, uint64_t va, mali_dispatch_reader *read,
                      const void *from)
{
    struct mali_dispatch *d = calloc(1, sizeof(*d));
    struct runner *runners[VGPU_MAX_WORKERS] = {calloc(1, sizeof(struct runner))};
    unsigned workers = 1;
    uint32_t exception = 0;

    if (d && runners[0]) {
        d->dev = dev;
        d->space = space;
        d->memory = mali_memory_of(dev, space);
        d->va = va;
        d->from = from;
        exception = read(d);
        d->meter =
            dev->base.options.meter && !exception ? vgpu_meter_create(CORE_CACHE_BYTES, L2_BYTES) : NULL;
        if (!exception && !d->meter == !dev->base.options.meter && prepare(runners[0], d))
            exception = run_all(d, runners, &workers);
        else if (!exception)
            vgpu_fail(&dev->base, "%s: out of memory", dev->chip->name);
        if (d->meter && !vgpu_error(&dev->base)) {
            describe(d);
            vgpu_keep_dispatch(&dev->base, &d->meter->row);
        }
        vgpu_meter_free(d->meter);
        dev->base.access_varies |= bifrost_accesses_vary(&d->program, &d->memory);
        bifrost_program_free(&d->program);
    } else {
        vgpu_fail(&dev->base, "%s: out of memory", dev->chip->name);
    }
    for (unsigned i = 0; i < workers && runners[i]; i++) {
        for (unsigned b = 0; b < MAX_TEAM; b++)
            bifrost_batch_free(runners[i]->batch[b]);
        free(runners[i]);
    }
    free(d);
    return exception;
}
