/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world that takes random commands from the mailbox and gives them to the pseudo-TA, each with
 * random parameters; now and then it has a trace replayed properly. The outcome stands after the
 * mailbox's response (struct answer), for test_random.py, which makes the commands.
 */
#include "program.h"

#define STEPS_AT UINT64_C(0x1000000)
enum { MAX_STEPS = 2048, PROPER = 0xffff, OUTPUT = 1 };

struct step {
    uint32_t command; /* PROPER: a whole replay */
    struct {
        uint32_t kind, a, b; /* enum tee_kind; numbers, or offset in the chunk and bytes */
    } params[TEE_PARAMS];
};

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin; /* of what must succeed */
    uint32_t count, replays, different;
    uint32_t results[MAX_STEPS];
} answer;

static uint32_t first[1024];

static uint32_t do_random(uint32_t session, const struct step *step)
{
    struct tee_param params[TEE_PARAMS];
    for (int i = 0; i < TEE_PARAMS; i++) {
        const bool is_memory = step->params[i].kind >= TEE_MEMREF_IN;
        params[i].kind = step->params[i].kind;
        params[i].a = step->params[i].a + (is_memory ? (uintptr_t)tee_chunk() : 0);
        params[i].b = step->params[i].b;
    }
    return tee_invoke(session, step->command, params);
}

static uint32_t do_properly(uint32_t session, const struct mailbox_request *request, uint64_t output_bytes)
{
    const uint32_t *output = tee_chunk();
    bool is_same = true;
    uint32_t result = send_trace(session, request);
    if (!result)
        result = INVOKE(session, GRAMOPHONE_LOAD, {0});
    if (!result)
        result = INVOKE(session, GRAMOPHONE_RUN, {0});
    if (!result)
        result = INVOKE(session, GRAMOPHONE_GET_OUTPUT, {TEE_VALUE_IN, OUTPUT, 0},
                        {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), output_bytes});
    if (!answer.replays++)
        memcpy(first, output, output_bytes);
    for (uint64_t i = 0; i < output_bytes / 4; i++)
        is_same &= output[i] == first[i];
    answer.different += !is_same;
    return result;
}

int normal_world(void)
{
    struct mailbox_request request;
    struct mailbox_buffer buffers[2]; /* of the input and the output */
    const struct step *steps = mailbox(STEPS_AT);
    uint32_t session = 0;
    memcpy(&request, mailbox(0), sizeof request);
    memcpy(buffers, mailbox(sizeof request), sizeof buffers);
    answer.result =
        tee_start() && buffers[1].bytes <= sizeof first ? open_session(&session) : TEE_CALL_FAILED;
    for (; !answer.result && answer.count < request.repeat && answer.count < MAX_STEPS; answer.count++) {
        if (steps[answer.count].command == PROPER)
            answer.result = do_properly(session, &request, buffers[1].bytes);
        else
            answer.results[answer.count] = do_random(session, &steps[answer.count]);
    }
    if (!answer.result)
        answer.result = tee_close(session);
    answer.origin = tee_origin();
    leave(&answer, sizeof answer);
    return 0;
}

LEAVE_ON_EXCEPTION(answer)
