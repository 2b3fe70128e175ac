/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs a batch clause by clause: of the lanes that are not at a barrier those at the lowest clause. So lanes
 * that took different ways meet again where the ways do. Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_batch.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_lanes.h"

bool bifrost_fail(struct bifrost_worker *worker, const struct bifrost_code *code, uint32_t status,
                  const char *format, ...)
{
    struct bifrost_failure *failure = &worker->failure;
    va_list args;
    int n = snprintf(failure->text, sizeof(failure->text),
                     "clause at GPU address 0x%llx: ", (unsigned long long)code->va);

    va_start(args, format);
    vsnprintf(failure->text + n, sizeof(failure->text) - (size_t)n, format, args);
    va_end(args);
    failure->status = status;
    return false;
}

struct bifrost_batch *bifrost_batch_create(struct bifrost_worker *worker)
{
    size_t slots = SLOT_CONSTANTS + worker->program->constants;
    struct bifrost_batch *batch = aligned_alloc(_Alignof(struct bifrost_batch), sizeof(*batch));

    if (!batch)
        return NULL;
    memset(batch, 0, sizeof(*batch));
    batch->worker = worker;
    batch->limit = worker->chain->limit < BIFROST_BATCH_LIMIT ? worker->chain->limit : BIFROST_BATCH_LIMIT;
    batch->slot = aligned_alloc(_Alignof(bifrost_vector), slots * sizeof(*batch->slot));
    if (!batch->slot) {
        free(batch);
        return NULL;
    }
    size_t watched = bifrost_watched_bytes(worker);
    batch->stored = watched ? malloc(watched) : NULL;
    for (uint32_t i = 0; i < worker->program->constants; i++)
        for (int lane = 0; lane < BIFROST_LANES; lane++)
            batch->slot[SLOT_CONSTANTS + i][lane] = worker->program->constant[i];
    return batch;
}

void bifrost_batch_free(struct bifrost_batch *batch)
{
    if (batch) {
        free(batch->slot);
        free(batch->stored);
    }
    free(batch);
}

/* ---- which lanes ---- */

/* Bit i: lane i of a vector of conditions holds. */
static uint64_t lanes_of(const uint32_t *condition)
{
    uint64_t lanes = 0;

    for (int byte = 0; byte < BIFROST_LANES / 8; byte++) {
        uint64_t eight = 0;
        for (int i = 0; i < 8; i++)
            eight |= (uint64_t)(condition[8 * byte + i] & (1u << i));
        lanes |= eight << 8 * byte;
    }
    return lanes;
}

/* The lanes at the lowest clause, of those that can run. */
static uint64_t lowest(const struct bifrost_batch *batch, uint64_t runnable, int32_t *at)
{
    uint64_t active = 0;

    *at = INT32_MAX;
    for (uint64_t left = runnable; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        if (batch->pc[lane] < *at) {
            *at = batch->pc[lane];
            active = 0;
        }
        if (batch->pc[lane] == *at)
            active |= UINT64_C(1) << lane;
    }
    return active;
}

static void scatter(struct bifrost_batch *batch, uint64_t lanes, int32_t pc)
{
    if (pc == BIFROST_END)
        batch->alive &= ~lanes;
    else
        for (; lanes; lanes &= lanes - 1)
            batch->pc[__builtin_ctzll(lanes)] = pc;
}

/* Active lanes go on. */
static void go_on(struct bifrost_batch *batch, const struct bifrost_code *code, uint64_t active)
{
    uint64_t taken = code->branches ? lanes_of(batch->slot[SLOT_TAKEN]) & active : 0;

    if (code->message == MESSAGE_BARRIER)
        batch->waiting |= active;
    if (batch->together && active == batch->alive && (taken == 0 || taken == active)) {
        batch->at = taken ? code->target : code->next;
        if (batch->at == BIFROST_END)
            batch->alive = 0;
        return;
    }
    if (batch->together)
        scatter(batch, batch->alive, batch->at);
    batch->together = false;
    scatter(batch, taken, code->target);
    scatter(batch, active & ~taken, code->next);
    int32_t at;
    if (lowest(batch, batch->alive, &at) == batch->alive) {
        batch->together = true;
        batch->at = at;
    }
}

/* ---- micro-operations ---- */

static void set_mask(struct bifrost_batch *batch, uint64_t active)
{
    for (int i = 0; i < BIFROST_LANES; i++)
        batch->mask[i] = 0u - (uint32_t)(active >> i & 1);
}

/* Registers of lanes that are not active stay as they are; other slots hold nothing beyond a clause. */
static void run_masked(struct bifrost_batch *batch, const struct bifrost_uop *uop)
{
    uint32_t *const to = batch->slot[uop->to], *const result = batch->slot[SLOT_MASKED];
    const uint32_t *const mask = batch->mask;

    if (uop->to >= BIFROST_REGISTERS) {
        uop->run(uop, batch->slot, to);
        return;
    }
    uop->run(uop, batch->slot, result);
    BIFROST_EACH to[i] = (to[i] & ~mask[i]) | (result[i] & mask[i]);
}

/* What a clause costs beside its access: each warp that has an active lane runs it. */
static void meter_clause(const struct bifrost_worker *worker, const struct bifrost_code *code,
                         uint64_t active)
{
    const uint64_t warp = (UINT64_C(1) << worker->warp) - 1;
    unsigned warps = 0;

    for (unsigned first = 0; first < BIFROST_LANES; first += worker->warp)
        warps += (active >> first & warp) != 0;
    worker->meter->row.clauses += warps;
    worker->meter->row.instructions += (uint64_t)warps * code->tuples;
}

static bool run_clause(struct bifrost_batch *batch, const struct bifrost_code *code, uint64_t active)
{
    struct bifrost_worker *worker = batch->worker;
    const struct bifrost_uop *uop = &worker->program->uop[code->first], *end = uop + code->uops;

    if (code->status && !code->reason) {
        worker->failure = (struct bifrost_failure){.status = code->status, .fault = code->fault};
        return false;
    }
    if (code->status)
        return bifrost_fail(worker, code, code->status, "%s (0x%06llx)", code->reason,
                            (unsigned long long)code->encoding);
    if (++batch->clauses > batch->limit)
        return bifrost_fail(worker, code, MALI_TERMINATED, "hang: threads ran more than %llu clauses",
                            (unsigned long long)batch->limit);
    if (worker->program->exchanges)
        for (int i = 0; i < BIFROST_LANES; i++)
            batch->slot[SLOT_ACTIVE][i] = active >> i & 1;
    if (active == batch->alive) {
        for (; uop < end; uop++)
            uop->run(uop, batch->slot, batch->slot[uop->to]);
    } else {
        set_mask(batch, active);
        for (; uop < end; uop++)
            run_masked(batch, uop);
    }
    worker->slots += code->slots * (uint64_t)__builtin_popcountll(active);
    if (worker->meter)
        meter_clause(worker, code, active);
    if (code->message != MESSAGE_NONE && code->message != MESSAGE_BARRIER)
        return bifrost_message(batch, code, active);
    if (worker->program->seen)
        bifrost_watch_access(batch, code, NULL, active);
    return true;
}

/* Which clause was the one too many depends on the number of workers, so it is not named. */
static enum bifrost_state spend(struct bifrost_worker *worker, uint64_t clauses, enum bifrost_state state)
{
    struct vgpu_budget *chain = worker->chain;

    if (vgpu_budget_spend(chain, clauses))
        return state;
    worker->failure.status = MALI_TERMINATED;
    snprintf(worker->failure.text, sizeof(worker->failure.text), "hang: its chain ran more than %llu clauses",
             (unsigned long long)chain->limit);
    return BATCH_FAILED;
}

enum bifrost_state bifrost_batch_run(struct bifrost_batch *batch)
{
    uint64_t before = batch->clauses;

    batch->waiting = 0;
    for (;;) {
        uint64_t runnable = batch->alive & ~batch->waiting, active = runnable;
        int32_t at = batch->at;

        if (!runnable)
            return spend(batch->worker, batch->clauses - before,
                         batch->alive ? BATCH_AT_BARRIER : BATCH_ENDED);
        if (!batch->together)
            active = lowest(batch, runnable, &at);
        const struct bifrost_code *code = &batch->worker->program->code[at];
        if (!run_clause(batch, code, active))
            return BATCH_FAILED;
        go_on(batch, code, active);
    }
}
