/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world that misuses the pseudo-TA. It takes the request from the mailbox; its number of replays
 * says what to do: 0 walks through the commands, in and out of turn, and writes each TEE_Result after the
 * mailbox's response; other numbers read what the normal world may not. test_client.py knows what to expect.
 */
#include "gramophone_trace.h"
#include "program.h"

void *memset(void *to, int byte, size_t bytes);

enum { WALK = 0, READ_GPU = 1, READ_CARVEOUT = 2 };
enum { GPU = 0x0b000000, SECURE_RAM = 0x0e100000, INPUT = 0, OUTPUT = 1, FAR = 1 << 20 };
#define CARVEOUT UINT64_C(0xc0000000)

#define NOTHING                                                                                              \
    {                                                                                                        \
        TEE_NONE, 0, 0                                                                                       \
    }
#define NUMBERS(a, b)                                                                                        \
    {                                                                                                        \
        TEE_VALUE_IN, a, b                                                                                   \
    }
#define CHUNK(kind, bytes)                                                                                   \
    {                                                                                                        \
        kind, (uintptr_t)tee_chunk(), bytes                                                                  \
    }

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin;
    uint32_t count;
    uint32_t results[64];
} answer;

static void note(uint32_t result)
{
    answer.results[answer.count++] = result;
}

/* The signed trace, which fits one chunk; the chunk changes before it is checked. */
static uint32_t load(uint32_t session, const struct mailbox_request *request)
{
    const uint32_t result = send_trace(session, request);
    memset(tee_chunk(), 0xff, request->trace_bytes);
    return result ? result : INVOKE(session, GRAMOPHONE_LOAD, NOTHING);
}

/* How many of the commands that this pseudo-TA lacks it does not refuse as it refuses those that do not
 * exist, whatever their parameters. */
static uint32_t not_refused(uint32_t session)
{
    uint32_t count = 0;
    for (uint32_t command = GRAMOPHONE_FORGET + 1; command < 99; command++) {
        const uint32_t refusal = INVOKE(session, 99, NOTHING);
        count += INVOKE(session, command, NOTHING) != refusal;
        count += INVOKE(session, command, NUMBERS(0, 0)) != refusal;
        count += INVOKE(session, command, CHUNK(TEE_MEMREF_IN, 8)) != refusal;
        count += INVOKE(session, command, CHUNK(TEE_MEMREF_OUT, 8)) != refusal;
    }
    return count;
}

static void before_loading(uint32_t session)
{
    note(INVOKE(session, 99, NOTHING));
    note(not_refused(session));
    note(INVOKE(session, GRAMOPHONE_LOAD_DATA, CHUNK(TEE_MEMREF_IN, 8)));
    note(INVOKE(session, GRAMOPHONE_LOAD, NOTHING));
    note(INVOKE(session, GRAMOPHONE_DESCRIBE, NUMBERS(INPUT, 0), CHUNK(TEE_MEMREF_OUT, 88)));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(INPUT, 0), CHUNK(TEE_MEMREF_IN, 8)));
    note(INVOKE(session, GRAMOPHONE_RUN, NOTHING));
    note(INVOKE(session, GRAMOPHONE_GET_OUTPUT, NUMBERS(OUTPUT, 0), CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_GET_LOG, CHUNK(TEE_MEMREF_OUT, sizeof(struct gr_report))));
    note(INVOKE(session, GRAMOPHONE_DESCRIBE_TRACE, CHUNK(TEE_MEMREF_OUT, FAR)));
    note(INVOKE(session, GRAMOPHONE_FORGET, NOTHING));
    note(INVOKE(session, GRAMOPHONE_UNLOAD, NOTHING));
}

static void loading(uint32_t session)
{
    note(INVOKE(session, GRAMOPHONE_LOAD_BEGIN, CHUNK(TEE_MEMREF_IN, 8)));
    note(INVOKE(session, GRAMOPHONE_LOAD_BEGIN, NUMBERS(8, 0), NUMBERS(8, 0)));
    note(INVOKE(session, GRAMOPHONE_LOAD_BEGIN, NUMBERS(0, 0)));
    note(INVOKE(session, GRAMOPHONE_LOAD_BEGIN, NUMBERS(0, 1)));
    note(INVOKE(session, GRAMOPHONE_LOAD_BEGIN, NUMBERS(4096, 0)));
    note(INVOKE(session, GRAMOPHONE_LOAD_DATA, CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_LOAD_DATA, {TEE_MEMREF_IN, SECURE_RAM, 8}));
    note(INVOKE(session, GRAMOPHONE_LOAD_DATA, CHUNK(TEE_MEMREF_IN, 4097)));
    note(INVOKE(session, GRAMOPHONE_LOAD_DATA, CHUNK(TEE_MEMREF_IN, 0)));
    note(INVOKE(session, GRAMOPHONE_LOAD, NOTHING));
    note(INVOKE(session, GRAMOPHONE_LOAD_DATA, CHUNK(TEE_MEMREF_IN, 4096)));
    note(INVOKE(session, GRAMOPHONE_LOAD, NOTHING));
}

/* Over the chunk; it depends on the order. */
static uint32_t sum_of(uint64_t bytes)
{
    const uint8_t *data = tee_chunk();
    uint32_t sum = 0;
    for (uint64_t i = 0; i < bytes; i++)
        sum = sum * 31 + data[i];
    return sum;
}

static void loaded(uint32_t session, uint64_t input_bytes, uint64_t output_bytes)
{
    note(INVOKE(session, GRAMOPHONE_DESCRIBE, NUMBERS(99, 0), CHUNK(TEE_MEMREF_OUT, 88)));
    note(INVOKE(session, GRAMOPHONE_DESCRIBE, NUMBERS(INPUT, 1), CHUNK(TEE_MEMREF_OUT, 88)));
    note(INVOKE(session, GRAMOPHONE_DESCRIBE, NUMBERS(INPUT, 0), CHUNK(TEE_MEMREF_OUT, 87)));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(OUTPUT, 0), CHUNK(TEE_MEMREF_IN, 8)));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(99, 0), CHUNK(TEE_MEMREF_IN, 8)));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(INPUT, 0), CHUNK(TEE_MEMREF_IN, input_bytes + 1)));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(INPUT, input_bytes), CHUNK(TEE_MEMREF_IN, 1)));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(INPUT, 0xffffffff), CHUNK(TEE_MEMREF_IN, 1)));
    note(INVOKE(session, GRAMOPHONE_GET_OUTPUT, NUMBERS(OUTPUT, 0), CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_RUN, NUMBERS(1, 0)));
    note(INVOKE(session, GRAMOPHONE_RUN, NOTHING));
    note(INVOKE(session, GRAMOPHONE_GET_OUTPUT, NUMBERS(INPUT, 0), CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_GET_OUTPUT, NUMBERS(OUTPUT, FAR), CHUNK(TEE_MEMREF_OUT, 8)));
    struct tee_param params[TEE_PARAMS] = {NUMBERS(OUTPUT, 4), CHUNK(TEE_MEMREF_OUT, FAR)};
    note(tee_invoke(session, GRAMOPHONE_GET_OUTPUT, params));
    note(params[1].b == output_bytes - 4 ? 0 : 1);
    const uint32_t computed = sum_of(output_bytes - 4);
    note(INVOKE(session, GRAMOPHONE_GET_LOG, CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_DESCRIBE_TRACE, CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_DESCRIBE_TRACE, CHUNK(TEE_MEMREF_OUT, FAR)));
    const uint8_t *manifest = tee_chunk();
    note(*(const uint32_t *)(const void *)(manifest + GR_MANIFEST_AT_SECURITY_VERSION));
    note(INVOKE(session, GRAMOPHONE_SET_INPUT, NUMBERS(INPUT, 0), CHUNK(TEE_MEMREF_IN, input_bytes)));
    note(INVOKE(session, GRAMOPHONE_FORGET, NUMBERS(1, 0)));
    note(INVOKE(session, GRAMOPHONE_FORGET, NOTHING));
    note(INVOKE(session, GRAMOPHONE_GET_OUTPUT, NUMBERS(OUTPUT, 0), CHUNK(TEE_MEMREF_OUT, 8)));
    note(INVOKE(session, GRAMOPHONE_RUN, NOTHING));
    note(INVOKE(session, GRAMOPHONE_GET_OUTPUT, NUMBERS(OUTPUT, 4), CHUNK(TEE_MEMREF_OUT, FAR)));
    note(sum_of(output_bytes - 4) == computed ? 0 : 1);
}

static void walk(const struct mailbox_request *request)
{
    struct mailbox_buffer buffers[2]; /* of the input and the output */
    uint32_t session, second;
    memcpy(buffers, mailbox(sizeof *request), sizeof buffers);
    note(open_session(&session));
    note(open_session(&second));
    before_loading(session);
    loading(session);
    note(load(session, request));
    loaded(session, buffers[0].bytes, buffers[1].bytes);
    note(tee_close(session)); /* without UNLOAD */
    note(open_session(&session));
    note(INVOKE(session, GRAMOPHONE_RUN, NOTHING));
    note(load(session, request));
    note(INVOKE(session, GRAMOPHONE_RUN, NOTHING));
    note(INVOKE(session, GRAMOPHONE_UNLOAD, NOTHING));
    note(INVOKE(session, GRAMOPHONE_RUN, NOTHING));
    note(tee_close(session));
}

int normal_world(void)
{
    struct mailbox_request request;
    memcpy(&request, mailbox(0), sizeof request);
    if (request.repeat == WALK && tee_start())
        walk(&request);
    else
        note(*(volatile uint32_t *)(uintptr_t)(request.repeat == READ_GPU ? GPU : CARVEOUT));
    leave(&answer, sizeof answer);
    return 0;
}

LEAVE_ON_EXCEPTION(answer)
