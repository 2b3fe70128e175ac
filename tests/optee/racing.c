/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world with two cores: while the first sends a signed trace to the pseudo-TA, the second changes
 * the shared memory as fast as it can, in each chunk of the trace once, or in each `repeat`-th; then while
 * the trace is checked and replayed. The outcome stands after the mailbox's response (struct answer), for
 * test_racing.py.
 */
#include "racing.h"

enum { CHUNK_BYTES = 4096, TRIES = 1000, MAX_CHUNKS = 256, OUTPUT = 1, OUTPUT_BYTES = 4096 };

struct outcome {
    uint32_t result;  /* of LOAD */
    uint32_t changes; /* of the shared memory while the core copied the chunk */
    uint32_t same;    /* 1: loaded, replayed, and the output is that of the trace when nothing interferes */
};

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin; /* of what must succeed */
    uint32_t count;
    struct outcome chunks[MAX_CHUNKS], loaded;
} answer;

static uint8_t expected[OUTPUT_BYTES];
static uint32_t output_bytes;

/* Send the trace, with chunk `attacked` under attack; how often it changed while it was copied. */
static uint32_t send(uint32_t session, const struct mailbox_request *request, uint64_t attacked, uint32_t try,
                     uint32_t *result)
{
    uint32_t changes = 0;
    *result = INVOKE(session, GRAMOPHONE_LOAD_BEGIN, {TEE_VALUE_IN, request->trace_bytes, 0});
    for (uint64_t done = 0; !*result && done < request->trace_bytes; done += CHUNK_BYTES) {
        const uint64_t left = request->trace_bytes - done, bytes = left < CHUNK_BYTES ? left : CHUNK_BYTES;
        const bool is_attacked = done / CHUNK_BYTES == attacked;
        uint8_t *chunk = tee_chunk();
        memcpy(chunk, mailbox(request->trace_offset + done), bytes);
        if (is_attacked)
            start_attack(chunk + bytes / 2, try);
        const uint32_t before = attack.changes;
        *result = INVOKE(session, GRAMOPHONE_LOAD_DATA, {TEE_MEMREF_IN, (uintptr_t)chunk, bytes});
        if (is_attacked) {
            changes = attack.changes - before;
            end_attack();
        }
    }
    return changes;
}

static bool is_expected(const uint8_t *output)
{
    for (uint32_t i = 0; i < output_bytes; i++)
        if (output[i] != expected[i])
            return false;
    return true;
}

static uint32_t replay(uint32_t session)
{
    const uint32_t result = INVOKE(session, GRAMOPHONE_RUN, {0});
    return result ? result
                  : INVOKE(session, GRAMOPHONE_GET_OUTPUT, {TEE_VALUE_IN, OUTPUT, 0},
                           {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), output_bytes});
}

static void attack_chunk(uint32_t session, const struct mailbox_request *request, uint32_t chunk)
{
    struct outcome *outcome = &answer.chunks[chunk];
    for (uint32_t i = 0; i < TRIES && !outcome->changes && !answer.result; i++)
        outcome->changes = send(session, request, chunk, i, &answer.result);
    outcome->result = INVOKE(session, GRAMOPHONE_LOAD, {0});
    if (!outcome->result)
        outcome->same = !replay(session) && is_expected(tee_chunk());
}

/* The trace is in the secure world: after this, nothing that the normal world does to
 * its own memory counts. */
static void attack_after_sending(uint32_t session, const struct mailbox_request *request)
{
    send(session, request, UINT64_MAX, 0, &answer.result);
    start_attack((uint8_t *)tee_chunk() + CHUNK_BYTES / 2, 0);
    const uint32_t before = attack.changes;
    answer.loaded.result = INVOKE(session, GRAMOPHONE_LOAD, {0});
    if (!answer.loaded.result)
        answer.loaded.result = INVOKE(session, GRAMOPHONE_RUN, {0});
    answer.loaded.changes = attack.changes - before;
    end_attack();
    answer.loaded.same = !replay(session) && is_expected(tee_chunk());
}

static void race(const struct mailbox_request *request)
{
    struct mailbox_buffer buffers[2]; /* of the input and the output */
    uint32_t session = 0;
    memcpy(buffers, mailbox(sizeof *request), sizeof buffers);
    output_bytes = (uint32_t)buffers[1].bytes;
    answer.result = start_second_core();
    if (!answer.result)
        answer.result = open_session(&session);
    if (!answer.result)
        send(session, request, UINT64_MAX, 0, &answer.result);
    if (!answer.result)
        answer.result = INVOKE(session, GRAMOPHONE_LOAD, {0});
    if (!answer.result)
        answer.result = replay(session);
    memcpy(expected, tee_chunk(), output_bytes);
    const uint64_t chunks = (request->trace_bytes + CHUNK_BYTES - 1) / CHUNK_BYTES;
    for (; !answer.result && answer.count < chunks; answer.count += request->repeat)
        attack_chunk(session, request, answer.count);
    if (!answer.result)
        attack_after_sending(session, request);
    if (!answer.result)
        answer.result = tee_close(session);
}

RACE(answer, race, (uint64_t)MAX_CHUNKS *CHUNK_BYTES)
