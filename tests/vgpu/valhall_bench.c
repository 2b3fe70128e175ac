/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs Valhall programs on flat memory, workgroup by workgroup, without a device (test_valhall_*.py). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_batch.h"
#include "mali_valhall.h"

enum { MAX_GROUP = 1024, WARP = 16, LOCAL = 55, GROUP = 57, GLOBAL = 60 };

struct bench {
    uint8_t *memory; /* of `bytes` bytes at GPU address `base`, all of it for everything */
    uint64_t base, bytes, code, thread_storage, group_storage;
    const uint32_t *uniform;
    const struct bifrost_uniform_buffer *buffer;
    const uint32_t *table;
    uint32_t uniforms, tables, buffers, thread_bytes, threads, group;
    uint64_t instructions; /* of threads; a result */
};

static uint8_t *host(const struct mali_memory *memory, uint64_t va, uint32_t bytes, enum mali_access access,
                     struct mali_fault *fault, uint8_t **flags)
{
    const struct bench *bench = memory->owner;

    *flags = NULL;
    if (va - bench->base < bench->bytes && bytes <= bench->bytes - (va - bench->base))
        return bench->memory + (va - bench->base);
    *fault = (struct mali_fault){.va = va, .exception = MALI_TRANSLATION_FAULT, .access = access};
    return NULL;
}

static void start(const struct bench *bench, struct bifrost_batch *batch, uint32_t group, uint32_t first)
{
    uint32_t left = bench->group - first, count = left < BIFROST_LANES ? left : BIFROST_LANES;

    memset(batch->slot, 0, SLOT_CONSTANTS * sizeof(*batch->slot));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t storage = bench->thread_storage + (uint64_t)(first + i) * bench->thread_bytes;
        batch->slot[LOCAL][i] = first + i;
        batch->slot[GROUP][i] = group;
        batch->slot[GLOBAL][i] = group * bench->group + first + i;
        batch->slot[SLOT_LANE][i] = (first + i) % WARP;
        batch->slot[SLOT_STORAGE][i] = (uint32_t)storage;
        batch->slot[SLOT_STORAGE + 1][i] = (uint32_t)(storage >> 32);
    }
    batch->alive = count == BIFROST_LANES ? UINT64_MAX : (UINT64_C(1) << count) - 1;
    batch->together = true;
    batch->at = batch->worker->program->entry;
    batch->clauses = 0;
}

static bool run_group(const struct bench *bench, struct bifrost_batch **batch, uint32_t group)
{
    uint32_t batches = (bench->group + BIFROST_LANES - 1) / BIFROST_LANES, ended = 0;

    for (uint32_t i = 0; i < batches; i++)
        start(bench, batch[i], group, i * BIFROST_LANES);
    while (ended < batches) {
        ended = 0;
        for (uint32_t i = 0; i < batches; i++) {
            enum bifrost_state state = bifrost_batch_run(batch[i]);
            if (state == BATCH_FAILED)
                return false;
            ended += state == BATCH_ENDED;
        }
    }
    return true;
}

/* 0, or the exception; `error` says why. */
uint32_t valhall_bench(struct bench *bench, char *error, size_t room)
{
    struct mali_memory memory = {.host = host, .owner = bench};
    struct vgpu_budget budget = {.limit = 1 << 20};
    struct bifrost_environment environment = {.thread_storage = bench->thread_storage,
                                              .thread_bytes = bench->thread_bytes,
                                              .group_storage = bench->group_storage,
                                              .has_group_storage = bench->group_storage != 0,
                                              .uniform = bench->uniform,
                                              .uniforms = bench->uniforms,
                                              .buffer = bench->buffer,
                                              .buffers = bench->buffers,
                                              .table = bench->table,
                                              .tables = bench->tables};
    struct bifrost_program program;
    struct bifrost_worker worker = {
        .memory = &memory, .chain = &budget, .program = &program, .environment = &environment, .warp = WARP};
    struct bifrost_batch *batch[MAX_GROUP / BIFROST_LANES] = {NULL};
    const char *reason = "";
    bool done = valhall_program_build(&program, &memory, bench->code, &environment, &reason);

    snprintf(error, room, "%s", done ? "" : reason);
    for (uint32_t i = 0; done && i < (bench->group + BIFROST_LANES - 1) / BIFROST_LANES; i++)
        batch[i] = bifrost_batch_create(&worker);
    for (uint32_t group = 0; done && group < bench->threads / bench->group; group++)
        done = run_group(bench, batch, group);
    if (worker.failure.status)
        snprintf(error, room, "%s (%#llx)", worker.failure.text, (unsigned long long)worker.failure.fault.va);
    bench->instructions = worker.slots;
    for (uint32_t i = 0; i < MAX_GROUP / BIFROST_LANES; i++)
        bifrost_batch_free(batch[i]);
    bifrost_program_free(&program);
    return done ? 0 : worker.failure.status ? worker.failure.status : MALI_INSTR_INVALID_ENC;
}
