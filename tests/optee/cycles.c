/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world that loads, replays and unloads again and again, each time in a session of its own, and
 * reads how much of its heaps the core has allocated, before and after (struct answer), for test_cycles.py.
 */
#include "heap.h"
#include "program.h"

enum { WARM_UP = 3, INPUT = 0, OUTPUT = 1 };

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin;    /* of the first call that failed */
    uint32_t cycles, different; /* done; with another output than the first one's */
    struct heap before, after;
} answer;

static uint32_t first[1024];

/* One session: load, an input, a replay, an output. Every other one ends without UNLOAD. */
static uint32_t cycle(const struct mailbox_request *request, const struct mailbox_buffer buffers[2])
{
    uint32_t session, result = open_session(&session);
    if (result)
        return result;
    result = send_trace(session, request);
    if (!result)
        result = INVOKE(session, GRAMOPHONE_LOAD, {0});
    memcpy(tee_chunk(), mailbox(buffers[INPUT].offset), buffers[INPUT].bytes);
    if (!result)
        result = INVOKE(session, GRAMOPHONE_SET_INPUT, {TEE_VALUE_IN, INPUT, 0},
                        {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), buffers[INPUT].bytes});
    if (!result)
        result = INVOKE(session, GRAMOPHONE_RUN, {0});
    if (!result)
        result = INVOKE(session, GRAMOPHONE_GET_OUTPUT, {TEE_VALUE_IN, OUTPUT, 0},
                        {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), buffers[OUTPUT].bytes});
    if (!result && answer.cycles % 2)
        result = INVOKE(session, GRAMOPHONE_UNLOAD, {0});
    const uint32_t closed = tee_close(session);
    return result ? result : closed;
}

static void compare(uint64_t bytes)
{
    const uint32_t *output = tee_chunk();
    bool is_same = true;
    if (!answer.cycles)
        memcpy(first, output, bytes);
    for (uint64_t i = 0; i < bytes / 4; i++)
        is_same &= output[i] == first[i];
    answer.different += !is_same;
}

int normal_world(void)
{
    struct mailbox_request request;
    struct mailbox_buffer buffers[2];
    memcpy(&request, mailbox(0), sizeof request);
    memcpy(buffers, mailbox(sizeof request), sizeof buffers);
    if (!tee_start() || request.trace_bytes > TEE_CHUNK_BYTES || buffers[OUTPUT].bytes > sizeof first)
        answer.result = TEE_CALL_FAILED;
    for (; !answer.result && answer.cycles < request.repeat; answer.cycles++) {
        if (answer.cycles == WARM_UP)
            answer.result = read_heap(&answer.before);
        if (!answer.result)
            answer.result = cycle(&request, buffers);
        if (!answer.result)
            compare(buffers[OUTPUT].bytes);
    }
    if (!answer.result)
        answer.result = read_heap(&answer.after);
    answer.origin = tee_origin();
    leave(&answer, sizeof answer);
    return 0;
}

LEAVE_ON_EXCEPTION(answer)
