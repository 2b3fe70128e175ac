/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Compute jobs: from descriptors to batches of threads on worker threads.
 *
 * Layouts: mali_descriptors.h (Mesa 22.3.6 src/panfrost/lib/genxml); what their fields mean was found by
 * running recorded jobs.
 */
#include "mali_compute.h"

#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_batch.h"
#include "mali_descriptors.h"
#include "workers.h"

enum {
    MAX_UNIFORMS = MALI_RENDERER_STATE_UNIFORM_COUNT_MAX,
    MAX_WORKGROUP = 384, /* THREAD_MAX_WORKGROUP_SIZE */
    MAX_TEAM = (MAX_WORKGROUP + BIFROST_LANES - 1) / BIFROST_LANES,
    MAX_STORAGE = 16,     /* 16 << n bytes of storage a thread */
    FIRST_PRELOADED = 55, /* register */
    /* Caches that a meter has: a core's, whose size no public source has, a guess; the L2 of a Kirin 960's
     * G71, two (MEM_FEATURES 0x101) of 512 KiB (L2_FEATURES 0x07130206), as GPUReplay's recordings show them.
     */
    CORE_CACHE_BYTES = 16 << 10,
    L2_BYTES = 1 << 20,
};
/* Slots that must be left to do for another worker thread to be worth its start. */
#define WORTH_A_WORKER 2000000u

/* Preloaded registers: bits that follow one another, as the registers do. */
#define PRELOAD_LOCAL_XY MALI_RENDERER_STATE_PRELOAD_LOCAL_INVOCATION_XY_MASK
#define PRELOAD_LOCAL_Z MALI_RENDERER_STATE_PRELOAD_LOCAL_INVOCATION_Z_MASK
#define PRELOAD_GROUP MALI_RENDERER_STATE_PRELOAD_WORK_GROUP_X_MASK         /* then y, z */
#define PRELOAD_GLOBAL MALI_RENDERER_STATE_PRELOAD_GLOBAL_INVOCATION_X_MASK /* then y, z */
#define PRELOAD_REGISTERS (2 * MALI_RENDERER_STATE_PRELOAD_GLOBAL_INVOCATION_Z_MASK - PRELOAD_LOCAL_XY)
#define PRELOAD_REFUSED (MALI_RENDERER_STATE_PRELOAD_UNNAMED | MALI_RENDERER_STATE_PRELOAD_PC_MASK)

struct dispatch {
    struct mali_device *dev;
    unsigned space;
    struct mali_memory memory; /* of the space */
    uint64_t va;
    uint32_t size[3], groups[3], group_threads;
    uint64_t threads;
    uint32_t preload;
    bool may_wait; /* for other threads, at barriers */
    struct bifrost_environment environment;
    struct bifrost_program program;
    struct vgpu_meter *meter; /* or NULL */
    uint32_t uniform[2 * MAX_UNIFORMS];
    struct bifrost_uniform_buffer buffer[BIFROST_UNIFORM_BUFFERS];
};

/* What a worker thread has. A team is a workgroup with barriers, else one batch. */
struct runner {
    const struct dispatch *dispatch;
    struct bifrost_worker worker;
    struct bifrost_batch *batch[MAX_TEAM];
    uint64_t failed; /* item, or UINT64_MAX */
};

static uint32_t refuse(const struct dispatch *d, uint32_t status, const char *what, uint64_t value)
{
    vgpu_fail(&d->dev->base, "%s: compute job at GPU address 0x%llx: %s (0x%llx)", d->dev->chip->name,
              (unsigned long long)d->va, what, (unsigned long long)value);
    return status;
}

/* ---- descriptors ---- */

/* Six values, each stored less one, from a bit to the next one's. */
static uint32_t read_invocation(struct dispatch *d, const uint8_t *invocation)
{
    uint32_t packed = mali_invocation_invocations(invocation), shifts = mali_invocation_shifts(invocation);
    unsigned starts[7] = {0,
                          mali_invocation_size_y_shift(invocation),
                          mali_invocation_size_z_shift(invocation),
                          mali_invocation_workgroups_x_shift(invocation),
                          mali_invocation_workgroups_y_shift(invocation),
                          mali_invocation_workgroups_z_shift(invocation),
                          32};
    uint32_t values[6];
    uint64_t group = 1, groups = 1;

    for (unsigned i = 0; i < 6; i++) {
        if (starts[i] > starts[i + 1])
            return refuse(d, MALI_JOB_CONFIG_FAULT, "fields of the invocation overlap", shifts);
        uint64_t field = ((UINT64_C(1) << (starts[i + 1] - starts[i])) - 1) & (uint64_t)packed >> starts[i];
        if (field == UINT32_MAX)
            return refuse(d, MALI_JOB_CONFIG_FAULT, "a dispatch of 2^32 threads in a row", packed);
        values[i] = (uint32_t)field + 1;
        if (i < 3)
            group *= values[i];
        else
            groups *= values[i];
    }
    if (group > MAX_WORKGROUP)
        return refuse(d, MALI_JOB_CONFIG_FAULT, "a workgroup of more threads than the GPU holds", group);
    memcpy(d->size, values, sizeof(d->size));
    memcpy(d->groups, values + 3, sizeof(d->groups));
    d->group_threads = (uint32_t)group;
    d->threads = group * groups;
    return 0;
}

static uint32_t read_storage(struct dispatch *d, uint64_t va)
{
    uint8_t storage[MALI_LOCAL_STORAGE_BYTES];

    if (!va)
        return 0;
    if (!mali_read(d->dev, d->space, va, storage, sizeof(storage)))
        return MALI_JOB_READ_FAULT;
    unsigned size = mali_local_storage_tls_size(storage);
    if (size > MAX_STORAGE)
        return refuse(d, MALI_JOB_CONFIG_FAULT, "an unknown size of thread storage",
                      mali_local_storage_tls(storage));
    d->environment.thread_storage = mali_local_storage_tls_base_pointer(storage);
    /* The smallest size is 0, too, and has an address (Mesa 25.0.7 src/panfrost/lib/pan_scratch.c,
     * pan_desc.c). */
    d->environment.thread_bytes = size || d->environment.thread_storage ? 16u << size : 0;
    d->environment.group_storage = mali_local_storage_wls_base_pointer(storage);
    d->environment.has_group_storage =
        mali_local_storage_wls_instances(storage) != MALI_LOCAL_STORAGE_WLS_INSTANCES_NONE &&
        d->environment.group_storage;
    return 0;
}

static uint32_t read_uniforms(struct dispatch *d, uint64_t va, uint32_t count)
{
    d->environment.uniforms = count;
    d->environment.uniform = d->uniform;
    return !d->environment.uniforms ||
                   mali_read(d->dev, d->space, va, d->uniform, 8 * d->environment.uniforms)
               ? 0
               : MALI_JOB_READ_FAULT;
}

/* The table of uniform buffers, of a program that loads from them. */
static uint32_t read_buffers(struct dispatch *d, uint64_t va, uint32_t count)
{
    uint8_t entry[MALI_UNIFORM_BUFFER_BYTES];

    for (uint32_t i = 0; i < count; i++) {
        if (!mali_read(d->dev, d->space, va + i * sizeof(entry), entry, sizeof(entry)))
            return MALI_JOB_READ_FAULT;
        uint64_t at = mali_uniform_buffer_pointer(entry);
        if (at) /* 0: there is none */
            d->buffer[i] = (struct bifrost_uniform_buffer){at, 16 * mali_uniform_buffer_entries(entry)};
    }
    d->environment.buffer = d->buffer;
    d->environment.buffers = count;
    return 0;
}

/* All that a dispatch takes from memory; 0, or the exception. */
static uint32_t read_job(struct dispatch *d)
{
    uint8_t invocation[MALI_INVOCATION_BYTES], draw[MALI_DRAW_BYTES], state[MALI_RENDERER_STATE_BYTES];
    const char *reason;

    if (!mali_read(d->dev, d->space, d->va + MALI_COMPUTE_JOB_INVOCATION_AT, invocation,
                   sizeof(invocation)) ||
        !mali_read(d->dev, d->space, d->va + MALI_COMPUTE_JOB_DRAW_AT, draw, sizeof(draw)) ||
        !mali_read(d->dev, d->space, mali_draw_state(draw), state, sizeof(state)))
        return MALI_JOB_READ_FAULT;
    uint32_t exception = read_invocation(d, invocation);
    d->preload = mali_renderer_state_preload(state);
    if (!exception && d->preload & PRELOAD_REFUSED)
        exception = refuse(d, MALI_JOB_CONFIG_FAULT, "preloaded registers that are not modelled", d->preload);
    if (!exception)
        exception = read_storage(d, mali_draw_thread_storage(draw));
    if (!exception)
        exception = read_uniforms(d, mali_draw_push_uniforms(draw), mali_renderer_state_uniform_count(state));
    if (exception)
        return exception;
    uint64_t shader = mali_renderer_state_shader(state);
    const bool built = bifrost_program_build(&d->program, &d->memory, shader, &d->environment, &reason);
    /* The first batch finds that it was too much. */
    (void)vgpu_budget_spend(&d->dev->chain, d->program.clauses);
    if (!built)
        return refuse(d, MALI_INSTR_INVALID_ENC, reason, shader);
    d->program.given = (uint64_t)((d->preload & PRELOAD_REGISTERS) / PRELOAD_LOCAL_XY) << FIRST_PRELOADED;
    if (d->program.uses_uniform_buffers)
        exception =
            read_buffers(d, mali_draw_uniform_buffers(draw), mali_renderer_state_uniform_buffer_count(state));
    if (exception)
        return exception;
    /* The threads of a warp are in one batch only where a workgroup begins a batch. */
    d->may_wait = d->program.uses_barrier || d->program.exchanges;
    if (d->program.uses_barrier && !mali_renderer_state_shader_contains_barrier(state))
        return refuse(d, MALI_INSTR_BARRIER_FAULT, "a barrier in a shader whose state says that it has none",
                      mali_renderer_state_properties(state));
    return 0;
}

/* ---- threads ---- */

/* Count to the next thread. */
static void advance(const struct dispatch *d, uint32_t local[3], uint32_t group[3])
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

static void preload(const struct dispatch *d, bifrost_vector *slot, int lane, const uint32_t local[3],
                    const uint32_t group[3])
{
    if (d->preload & PRELOAD_LOCAL_XY)
        slot[FIRST_PRELOADED][lane] = local[0] | local[1] << 16;
    if (d->preload & PRELOAD_LOCAL_Z)
        slot[FIRST_PRELOADED + 1][lane] = local[2];
    for (unsigned i = 0; i < 3; i++) {
        if (d->preload & PRELOAD_GROUP << i)
            slot[FIRST_PRELOADED + 2 + i][lane] = group[i];
        if (d->preload & PRELOAD_GLOBAL << i)
            slot[FIRST_PRELOADED + 5 + i][lane] = group[i] * d->size[i] + local[i];
    }
}

/* A batch at its first clause: `count` threads from number `first` on, which are `own` in the team and so
 * have the storage. Registers start as zero: on the device they hold what a thread before left. */
static void start(const struct dispatch *d, struct bifrost_batch *batch, uint64_t first, unsigned count,
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
    const struct dispatch *d = runner->dispatch;
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
    const struct dispatch *d = runner->dispatch;
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

static bool prepare(struct runner *runner, const struct dispatch *d)
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
static unsigned extra_workers(const struct dispatch *d, const struct runner *first, uint64_t items)
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
static uint32_t collect(const struct dispatch *d, struct runner *const *runners, unsigned workers,
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

static uint32_t run_all(const struct dispatch *d, struct runner **runners, unsigned *workers)
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
static void describe(const struct dispatch *d)
{
    struct vgpu_dispatch *row = &d->meter->row;

    row->workgroups = d->threads / d->group_threads;
    row->threads = d->threads;
    row->groups = row->workgroups * ((d->group_threads + d->dev->chip->warp - 1) / d->dev->chip->warp);
    for (uint32_t i = 0; i < d->program.uops; i++)
        if (d->program.uop[i].to < BIFROST_REGISTERS && d->program.uop[i].to >= row->registers)
            row->registers = d->program.uop[i].to + 1u;
}

uint32_t mali_compute(struct mali_device *dev, unsigned space, uint64_t va)
{
    struct dispatch *d = calloc(1, sizeof(*d));
    struct runner *runners[VGPU_MAX_WORKERS] = {calloc(1, sizeof(struct runner))};
    unsigned workers = 1;
    uint32_t exception = 0;

    if (d && runners[0]) {
        d->dev = dev;
        d->space = space;
        d->memory = mali_memory_of(dev, space);
        d->va = va;
        exception = read_job(d);
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
