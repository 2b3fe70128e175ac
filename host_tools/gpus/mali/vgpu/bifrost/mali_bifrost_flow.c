/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether words that a program loaded may decide what it accesses: an address, or a branch. Of a program that
 * has run, what comes from such words is followed through the slots, along all ways that were taken.
 *
 * Compilers find buffers by addresses in tables that the driver has made: few words, which nobody changes.
 * Where such words decide, they are marked as part of what the job is. Whether other jobs write them is not
 * known here.
 *
 * Compilers keep addresses in a thread's storage, so words that come from there count as what was put there.
 * The run showed which clauses access it, and that each thread found there what it had put there itself.
 * Where nothing is decided by other words, this is so in every run: the first access that differed would
 * differ because of words that do not. Registers that the job puts nothing into hold what another program
 * left there, so nothing may be decided by them either. Sources: see mali_bifrost.h.
 */
#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_batch.h"
#include "mali_bifrost_integer.h"

/* ---- while it runs ---- */

enum { CLAUSE_RAN = 1, ACCESSES_OWN = 2, ACCESSES_OTHER = 4, IS_UNCLEAR = 8 };
enum { MAX_THREADS = 384, MAX_WATCHED = 4096 }; /* of a core; bytes of storage a thread */
enum { MAX_LOADED = 16, TOO_MANY };

/* What the runs of a clause showed: bits, and of a load the addresses. */
struct bifrost_seen {
    uint64_t va[MAX_LOADED];
    uint8_t loaded, bits; /* addresses, or TOO_MANY */
};

bool bifrost_watch(struct bifrost_program *program)
{
    program->seen = calloc(program->clauses, sizeof(*program->seen));
    return program->seen != NULL;
}

/* An access of a lane to a word. */
static uint8_t seen_word(struct bifrost_batch *batch, int lane, uint64_t va, bool write)
{
    const struct bifrost_environment *environment = batch->worker->environment;
    uint64_t own = batch->slot[SLOT_STORAGE][lane] | (uint64_t)batch->slot[SLOT_STORAGE + 1][lane] << 32;
    uint64_t room = environment->thread_bytes, words = room / 4;

    if (va - own < room) {
        uint8_t *stored = &batch->stored[(uint64_t)lane * words + (va - own) / 4];
        *stored |= write;
        return *stored ? ACCESSES_OWN : IS_UNCLEAR;
    }
    return va - environment->thread_storage < MAX_THREADS * room ? IS_UNCLEAR : ACCESSES_OTHER;
}

/* Whether a lane may access storage of any thread. */
static bool is_near_storage(const struct bifrost_environment *environment, const struct bifrost_code *code,
                            const uint64_t *va, uint64_t lanes)
{
    uint64_t begin = environment->thread_storage - 4u * code->transfer.words,
             bytes = (uint64_t)MAX_THREADS * environment->thread_bytes + 4u * code->transfer.words;
    bool near = false;

    if (!environment->thread_bytes)
        return false;
    for (int lane = 0; lane < BIFROST_LANES; lane++)
        near |= (lanes >> lane & 1) && va[lane] - begin < bytes;
    return near;
}

static void note_loaded(struct bifrost_seen *seen, const uint64_t *va, uint64_t lanes)
{
    for (; lanes && seen->loaded < TOO_MANY; lanes &= lanes - 1) {
        uint64_t at = va[__builtin_ctzll(lanes)];
        unsigned i = 0;

        while (i < seen->loaded && seen->va[i] != at)
            i++;
        if (i < MAX_LOADED)
            seen->va[i] = at;
        seen->loaded = (uint8_t)(seen->loaded + (i == seen->loaded));
    }
}

void bifrost_watch_access(struct bifrost_batch *batch, const struct bifrost_code *code, const uint64_t *va,
                          uint64_t lanes)
{
    const struct bifrost_program *program = batch->worker->program;
    struct bifrost_seen *seen = &program->seen[code - program->code];

    seen->bits |= CLAUSE_RAN;
    if (code->message == MESSAGE_ATOMIC) /* what it gives depends on the other threads */
        seen->bits |= IS_UNCLEAR;
    if (code->message != MESSAGE_LOAD && code->message != MESSAGE_STORE)
        return;
    if (code->message == MESSAGE_LOAD)
        note_loaded(seen, va, lanes);
    if (!is_near_storage(batch->worker->environment, code, va, lanes))
        seen->bits |= ACCESSES_OTHER;
    else if (!batch->stored || code->transfer.bytes % 4) /* a part of a word says nothing of the rest */
        seen->bits |= IS_UNCLEAR;
    else
        for (; lanes; lanes &= lanes - 1)
            for (unsigned w = 0; w < code->transfer.words; w++)
                seen->bits |= seen_word(batch, __builtin_ctzll(lanes), va[__builtin_ctzll(lanes)] + 4 * w,
                                        code->message == MESSAGE_STORE);
}

size_t bifrost_watched_bytes(const struct bifrost_worker *worker)
{
    uint32_t bytes = worker->environment->thread_bytes;

    return worker->program->seen && bytes <= MAX_WATCHED ? BIFROST_LANES * (size_t)bytes / 4 : 0;
}

void bifrost_watch_start(struct bifrost_batch *batch)
{
    if (batch->stored)
        memset(batch->stored, 0, bifrost_watched_bytes(batch->worker));
}

/* ---- afterwards ---- */

/* Sets of labels: a bit for each of some of the loads, and one for registers that nothing was put into. */
enum { LABELS = 63 };
#define FROM_REGISTERS (UINT64_C(1) << LABELS)

/* What is in the slots comes from; constants and push uniforms come from no load. */
struct origins {
    uint64_t of[SLOT_CONSTANTS];
};

struct flow {
    const struct bifrost_program *program;
    struct origins *at;    /* where each clause begins */
    bool *reached;         /* some way leads to the clause */
    uint32_t first, loads; /* number of the first load that has a label; of all loads */
    uint64_t storage;      /* where words in threads' storage may come from */
    uint64_t deciding;     /* where words come from that decide */
    bool again;            /* something has been added */
};

static bool accesses_memory(const struct bifrost_code *code)
{
    return code->message == MESSAGE_LOAD || code->message == MESSAGE_STORE;
}

static bool loads_other(const struct bifrost_program *program, uint32_t clause)
{
    return program->code[clause].message == MESSAGE_LOAD && program->seen[clause].bits & ACCESSES_OTHER;
}

static uint64_t origin(const struct origins *origins, unsigned slot)
{
    return slot < SLOT_CONSTANTS ? origins->of[slot] : 0;
}

static void follow_uop(struct origins *origins, const struct bifrost_uop *uop)
{
    bool wide = uop->run == bifrost_imad64;
    uint64_t found = 0;

    for (unsigned i = 0; i < BIFROST_SOURCES; i++)
        found |= origin(origins, uop->from[i]);
    for (unsigned i = 0; wide && i < 3; i++)
        found |= origin(origins, uop->high[i]);
    if (wide)
        origins->of[uop->detail] = found;
    else if (uop->run == bifrost_pointer_u32 || uop->run == bifrost_pointer_s32 ||
             uop->run == bifrost_pointer_i64 || uop->run == bifrost_segment_low)
        origins->of[SLOT_HIDDEN] = found;
    origins->of[uop->to] = found;
}

/* `own`: the label of the load. */
static void follow_message(struct flow *flow, struct origins *origins, const struct bifrost_code *code,
                           uint8_t seen, uint64_t own)
{
    bool keeps = seen & ACCESSES_OWN; /* in the thread's storage */
    bool partly = code->transfer.width < 32 * code->transfer.words;
    uint64_t before = flow->storage;

    if (code->message == MESSAGE_ADDRESS) { /* buffers are where the job's descriptors say */
        origins->of[code->staging] = origins->of[code->staging + 1] =
            origins->of[SLOT_ADDRESS] | origins->of[SLOT_ADDRESS + 1];
        return;
    }
    flow->deciding |= origins->of[SLOT_ADDRESS] | origins->of[SLOT_ADDRESS + 1];
    for (unsigned i = 0; i < code->transfer.words; i++) {
        if (code->message == MESSAGE_LOAD)
            origins->of[code->staging + i] =
                own | (keeps ? flow->storage : 0) | (partly ? origins->of[code->staging + i] : 0);
        else if (keeps)
            flow->storage |= origins->of[code->staging + i];
    }
    flow->again |= flow->storage != before;
}

/* Add origins to those at a clause's begin. */
static void join(struct flow *flow, int32_t clause, const struct origins *origins)
{
    if (clause == BIFROST_END)
        return;
    flow->again |= !flow->reached[clause];
    flow->reached[clause] = true;
    for (unsigned i = 0; i < SLOT_CONSTANTS; i++) {
        uint64_t *to = &flow->at[clause].of[i];
        flow->again |= (origins->of[i] & ~*to) != 0;
        *to |= origins->of[i];
    }
}

static void follow_clause(struct flow *flow, uint32_t number, uint64_t own)
{
    const struct bifrost_code *code = &flow->program->code[number];
    struct origins origins = flow->at[number];

    for (uint32_t i = 0; i < code->uops; i++)
        follow_uop(&origins, &flow->program->uop[code->first + i]);
    if (accesses_memory(code) || code->message == MESSAGE_ADDRESS)
        follow_message(flow, &origins, code, flow->program->seen[number].bits, own);
    if (code->branches) {
        flow->deciding |= origins.of[SLOT_TAKEN];
        join(flow, code->target, &origins);
    }
    join(flow, code->next, &origins);
}

/* All clauses, until nothing is added any more. */
static void follow(struct flow *flow)
{
    const struct bifrost_program *program = flow->program;

    memset(flow->at, 0, program->clauses * sizeof(*flow->at));
    flow->storage = flow->deciding = 0;
    flow->reached[program->entry] = true;
    for (unsigned i = 0; i < BIFROST_REGISTERS; i++)
        flow->at[program->entry].of[i] = program->given >> i & 1 ? 0 : FROM_REGISTERS;
    do {
        flow->again = false;
        flow->loads = 0;
        for (uint32_t i = 0; i < program->clauses; i++) {
            uint32_t number = flow->loads - flow->first; /* of those before `first`: a large one */
            bool other = loads_other(program, i);

            flow->loads += other;
            if (flow->reached[i] && program->seen[i].bits & CLAUSE_RAN)
                follow_clause(flow, i, other && number < LABELS ? UINT64_C(1) << number : 0);
        }
    } while (flow->again);
}

/* Words that decide: constants, if a clause loads few of them and the job does not write them. */
static bool are_constant(const struct bifrost_program *program, uint32_t clause,
                         const struct mali_memory *memory)
{
    const struct bifrost_seen *seen = &program->seen[clause];

    for (unsigned i = 0; i < seen->loaded && seen->loaded < TOO_MANY; i++)
        for (unsigned byte = 0; byte < program->code[clause].transfer.bytes; byte++) {
            struct mali_fault fault;
            uint8_t *flags = NULL;

            if (!memory->host(memory, seen->va[i] + byte, 1, MALI_READ, &fault, &flags) || !flags ||
                *flags & VGPU_ACCESS_WRITTEN)
                return false;
            *flags |= VGPU_ACCESS_COMMAND;
        }
    return seen->loaded < TOO_MANY;
}

/* Of the loads that have labels. */
static bool decide_by_others(const struct flow *flow, const struct mali_memory *memory)
{
    uint32_t loads = 0;
    bool varies = flow->deciding & FROM_REGISTERS;

    for (uint32_t i = 0; i < flow->program->clauses; i++) {
        if (!loads_other(flow->program, i))
            continue;
        uint32_t number = loads++ - flow->first;
        if (number < LABELS && flow->deciding >> number & 1)
            varies |= !are_constant(flow->program, i, memory);
    }
    return varies;
}

bool bifrost_accesses_vary(const struct bifrost_program *program, const struct mali_memory *memory)
{
    struct flow flow = {.program = program,
                        .at = calloc(program->clauses, sizeof(*flow.at)),
                        .reached = calloc(program->clauses, sizeof(*flow.reached))};
    bool varies = program->seen && (!flow.at || !flow.reached);

    for (uint32_t i = 0; program->seen && i < program->clauses; i++)
        varies |= (program->seen[i].bits & IS_UNCLEAR) != 0;
    if (program->seen && !varies)
        do {
            follow(&flow);
            varies = decide_by_others(&flow, memory);
            flow.first += LABELS;
        } while (!varies && flow.first < flow.loads);
    free(flow.at);
    free(flow.reached);
    return varies;
}
