/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether words that a program loaded may decide what it accesses: an address, or a branch. Of a program that
 * has run, slots that may hold what comes from such words are followed along all ways that were taken.
 *
 * Compilers keep addresses in a thread's storage, so words that come from there count as what was put there.
 * The run showed which clauses access it, and that each thread found there what it had put there itself.
 * Where nothing is decided by other words, this is so in every run: the first access that differed would
 * differ because of words that do not. Sources: see mali_bifrost.h.
 */
#include <stdlib.h>
#include <string.h>

#include "mali_bifrost_batch.h"
#include "mali_bifrost_integer.h"

/* ---- while it runs ---- */

enum { CLAUSE_RAN = 1, ACCESSES_OWN = 2, ACCESSES_OTHER = 4, IS_UNCLEAR = 8 };
enum { MAX_THREADS = 384, MAX_WATCHED = 4096 }; /* of a core; bytes of storage a thread */

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
    uint64_t begin = environment->thread_storage - 4u * code->words,
             bytes = (uint64_t)MAX_THREADS * environment->thread_bytes + 4u * code->words;
    bool near = false;

    if (!environment->thread_bytes)
        return false;
    for (int lane = 0; lane < BIFROST_LANES; lane++)
        near |= (lanes >> lane & 1) && va[lane] - begin < bytes;
    return near;
}

void bifrost_watch_access(struct bifrost_batch *batch, const struct bifrost_code *code, const uint64_t *va,
                          uint64_t lanes)
{
    const struct bifrost_program *program = batch->worker->program;
    uint8_t *seen = &program->seen[code - program->code];

    *seen |= CLAUSE_RAN;
    if (code->message != MESSAGE_LOAD && code->message != MESSAGE_STORE)
        return;
    if (!is_near_storage(batch->worker->environment, code, va, lanes))
        *seen |= ACCESSES_OTHER;
    else if (!batch->stored)
        *seen |= IS_UNCLEAR;
    else
        for (; lanes; lanes &= lanes - 1)
            for (unsigned w = 0; w < code->words; w++)
                *seen |= seen_word(batch, __builtin_ctzll(lanes), va[__builtin_ctzll(lanes)] + 4 * w,
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

/* Slots that hold what comes from loaded words; constants and push uniforms never do. */
struct loaded {
    uint64_t bits[2];
};

_Static_assert(SLOT_CONSTANTS <= 128, "a bit for each slot");

struct flow {
    const struct bifrost_program *program;
    struct loaded *at;   /* where each clause begins */
    bool *reached;       /* some way leads to the clause */
    bool storage_loaded; /* loaded words may be in threads' storage */
    bool again;          /* something has been added */
};

static bool is_loaded(const struct loaded *loaded, unsigned slot)
{
    return slot < SLOT_CONSTANTS && loaded->bits[slot / 64] >> slot % 64 & 1;
}

static void set(struct loaded *loaded, unsigned slot, bool value)
{
    uint64_t bit = UINT64_C(1) << slot % 64;

    loaded->bits[slot / 64] = value ? loaded->bits[slot / 64] | bit : loaded->bits[slot / 64] & ~bit;
}

static void follow_uop(struct loaded *loaded, const struct bifrost_uop *uop)
{
    bool wide = uop->run == bifrost_imad64, found = false;

    for (unsigned i = 0; i < BIFROST_SOURCES; i++)
        found |= is_loaded(loaded, uop->from[i]);
    for (unsigned i = 0; wide && i < 3; i++)
        found |= is_loaded(loaded, uop->high[i]);
    if (wide)
        set(loaded, uop->detail, found);
    else if (uop->run == bifrost_pointer_u32 || uop->run == bifrost_pointer_s32 ||
             uop->run == bifrost_pointer_i64 || uop->run == bifrost_segment_low)
        set(loaded, SLOT_HIDDEN, found);
    set(loaded, uop->to, found);
}

static void follow_message(struct flow *flow, struct loaded *loaded, const struct bifrost_code *code,
                           uint8_t seen)
{
    bool load = code->message == MESSAGE_LOAD, stored = false;

    for (unsigned i = 0; i < code->words; i++) {
        stored |= is_loaded(loaded, code->staging + i);
        if (load)
            set(loaded, code->staging + i, seen & ACCESSES_OTHER || flow->storage_loaded);
    }
    if (!load && stored && seen & ACCESSES_OWN && !flow->storage_loaded)
        flow->again = flow->storage_loaded = true;
}

/* Add slots to those at a clause's begin. */
static void join(struct flow *flow, int32_t clause, const struct loaded *loaded)
{
    if (clause == BIFROST_END)
        return;
    struct loaded *to = &flow->at[clause], before = *to;

    to->bits[0] |= loaded->bits[0];
    to->bits[1] |= loaded->bits[1];
    flow->again |= !flow->reached[clause] || memcmp(&before, to, sizeof(before)) != 0;
    flow->reached[clause] = true;
}

/* Follow a clause. True: it lets loaded words decide. */
static bool follow_clause(struct flow *flow, uint32_t number)
{
    const struct bifrost_code *code = &flow->program->code[number];
    struct loaded loaded = flow->at[number];
    bool accesses = code->message == MESSAGE_LOAD || code->message == MESSAGE_STORE;

    for (uint32_t i = 0; i < code->uops; i++)
        follow_uop(&loaded, &flow->program->uop[code->first + i]);
    if (accesses && (is_loaded(&loaded, SLOT_ADDRESS) || is_loaded(&loaded, SLOT_ADDRESS + 1)))
        return true;
    if (accesses)
        follow_message(flow, &loaded, code, flow->program->seen[number]);
    join(flow, code->next, &loaded);
    if (code->branches)
        join(flow, code->target, &loaded);
    return code->branches && is_loaded(&loaded, SLOT_TAKEN);
}

static bool follow(struct flow *flow)
{
    const uint8_t *seen = flow->program->seen;

    for (uint32_t i = 0; i < flow->program->clauses; i++)
        if (seen[i] & IS_UNCLEAR)
            return true;
    flow->reached[flow->program->entry] = true;
    do { /* things are only added, so this ends */
        flow->again = false;
        for (uint32_t i = 0; i < flow->program->clauses; i++)
            if (flow->reached[i] && seen[i] & CLAUSE_RAN && follow_clause(flow, i))
                return true;
    } while (flow->again);
    return false;
}

bool bifrost_accesses_vary(const struct bifrost_program *program)
{
    struct flow flow = {.program = program,
                        .at = calloc(program->clauses, sizeof(*flow.at)),
                        .reached = calloc(program->clauses, sizeof(*flow.reached))};
    bool varies = program->seen && (!flow.at || !flow.reached || follow(&flow));

    free(flow.at);
    free(flow.reached);
    return varies;
}
