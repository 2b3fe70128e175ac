/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A libteec without a TEE: it plays the replayer in this process, notes each call, and fails the call that it
 * is set to. A trace is "loaded" when its bytes begin with 'S'; a run makes each byte of the output from the
 * input's. test_client_library.py knows what to expect.
 */
#include <stdlib.h>
#include <string.h>
#include <tee_client_api.h>

#include "fake_libteec.h"
#include "gramophone_tee.h"
#include "gramophone_trace.h"

enum { CALLS = 4096, INPUT = 0, OUTPUT = 1, SLOTS = 2, MASK = 0x5a, WAITING = 64 };

static struct {
    struct fake_call calls[CALLS];
    uint32_t count, fail_at, result, login, group, contexts, sessions, chunks;
    uint32_t answer_less; /* answers are this much shorter than requested */
    uint32_t slot_bytes;
    uint8_t node[16]; /* clockSeqAndNode and the rest of the UUID that was opened */
    uint8_t *trace, *input, *output;
    uint64_t trace_bytes, trace_done;
    bool computed, keeps_log;
    uint32_t waiting, written; /* entries of the log */
    uint32_t pieces, left;     /* of a request; 0: no joint traces */
    const uint8_t *shared;     /* the trace, of a device that reads it while it replays */
    bool streams;
    uint32_t looks; /* until another session has sent its trace */
} fake;

void fake_reset(uint32_t slot_bytes)
{
    free(fake.trace);
    free(fake.input);
    free(fake.output);
    memset(&fake, 0, sizeof fake);
    fake.slot_bytes = slot_bytes;
    fake.input = calloc(1, slot_bytes);
    fake.output = calloc(1, slot_bytes);
    fake.fail_at = UINT32_MAX;
}

void fake_fail(uint32_t at, uint32_t result)
{
    fake.fail_at = at;
    fake.result = result;
}

void fake_answer_less(uint32_t bytes)
{
    fake.answer_less = bytes;
}

uint32_t fake_count(void)
{
    return fake.count;
}

const struct fake_call *fake_call(uint32_t index)
{
    return &fake.calls[index];
}

/* 0: open contexts, 1: open sessions, 2: pieces of shared memory, 3: login, 4: group. */
uint32_t fake_state(uint32_t which)
{
    const uint32_t values[] = {fake.contexts, fake.sessions, fake.chunks, fake.login, fake.group};
    return values[which];
}

const uint8_t *fake_trace(void)
{
    return fake.trace;
}

const uint8_t *fake_uuid(void)
{
    return fake.node;
}

/* The device has a replay log. */
void fake_log(void)
{
    fake.keeps_log = true;
}

/* The device takes joint traces: one of two networks, of which the first has all slots. A request takes so
 * many pieces. */
void fake_share(uint32_t pieces)
{
    fake.pieces = pieces;
}

/* The device reads the trace while it replays. */
void fake_stream(void)
{
    fake.streams = true;
}

/* Another session sends a trace, and is done when its manifest has been asked for so often. */
void fake_sending(uint32_t looks)
{
    fake.looks = looks;
}

/* Note a call; its own result, when it is to fail. */
static uint32_t note(uint32_t command, uint32_t types, uint32_t a, uint32_t b, uint64_t bytes)
{
    const uint32_t index = fake.count++;
    if (index < CALLS)
        fake.calls[index] = (struct fake_call){command, types, a, b, bytes};
    return index == fake.fail_at ? fake.result : TEEC_SUCCESS;
}

TEEC_Result TEEC_InitializeContext(const char *name, TEEC_Context *context)
{
    (void)name, (void)context;
    const uint32_t result = note(0x100, 0, 0, 0, 0);
    fake.contexts += result == TEEC_SUCCESS;
    return result;
}

void TEEC_FinalizeContext(TEEC_Context *context)
{
    (void)context;
    fake.contexts--;
}

TEEC_Result TEEC_AllocateSharedMemory(TEEC_Context *context, TEEC_SharedMemory *memory)
{
    (void)context;
    const uint32_t result = note(0x101, memory->flags, 0, 0, memory->size);
    if (result == TEEC_SUCCESS) {
        memory->buffer = calloc(1, memory->size);
        fake.chunks++;
    }
    return result;
}

TEEC_Result TEEC_RegisterSharedMemory(TEEC_Context *context, TEEC_SharedMemory *memory)
{
    (void)context;
    const uint32_t result = note(0x103, memory->flags, 0, 0, memory->size);
    if (result == TEEC_SUCCESS) {
        fake.shared = memory->buffer;
        fake.chunks++;
    }
    return result;
}

void TEEC_ReleaseSharedMemory(TEEC_SharedMemory *memory)
{
    if (memory->buffer != fake.shared)
        free(memory->buffer);
    else
        fake.shared = NULL;
    fake.chunks--;
}

TEEC_Result TEEC_OpenSession(TEEC_Context *context, TEEC_Session *session, const TEEC_UUID *uuid,
                             uint32_t login, const void *data, TEEC_Operation *operation, uint32_t *origin)
{
    (void)context, (void)session;
    const uint32_t result = note(0x102, operation->paramTypes, login, 0, 0);
    *origin = TEEC_ORIGIN_TEE;
    memcpy(fake.node, uuid, sizeof *uuid);
    fake.login = login;
    if (data)
        memcpy(&fake.group, data, sizeof fake.group);
    fake.sessions += result == TEEC_SUCCESS;
    return result;
}

void TEEC_CloseSession(TEEC_Session *session)
{
    (void)session;
    fake.sessions--;
}

static uint32_t answer(TEEC_Parameter *param, const void *data, size_t bytes)
{
    if (param->memref.size < bytes)
        return TEEC_ERROR_SHORT_BUFFER;
    memcpy((uint8_t *)param->memref.parent->buffer + param->memref.offset, data, bytes);
    param->memref.size = bytes - fake.answer_less;
    return TEEC_SUCCESS;
}

static uint32_t describe(TEEC_Parameter params[4])
{
    struct gramophone_slot slot = {.rank = 1, .dtype = GR_DTYPE_UINT8, .bytes = fake.slot_bytes};
    if (params[0].value.a >= SLOTS)
        return TEEC_ERROR_ITEM_NOT_FOUND;
    slot.kind = params[0].value.a == INPUT ? GRAMOPHONE_INPUT : GRAMOPHONE_OUTPUT;
    strcpy(slot.name, params[0].value.a == INPUT ? "data" : "prob");
    slot.dims[0] = fake.slot_bytes;
    return answer(&params[1], &slot, sizeof slot);
}

static uint32_t load_begin(TEEC_Parameter params[4])
{
    fake.trace_bytes = params[0].value.a | (uint64_t)params[0].value.b << 32;
    fake.trace_done = 0;
    free(fake.trace);
    fake.trace = malloc(fake.trace_bytes);
    return TEEC_SUCCESS;
}

static uint32_t load_data(TEEC_Parameter params[4])
{
    if (params[0].memref.size > fake.trace_bytes - fake.trace_done)
        return TEEC_ERROR_EXCESS_DATA;
    memcpy(fake.trace + fake.trace_done, params[0].memref.parent->buffer, params[0].memref.size);
    fake.trace_done += params[0].memref.size;
    return TEEC_SUCCESS;
}

/* Each byte of an entry is its number. */
static uint32_t entries(TEEC_Parameter *param)
{
    uint8_t all[WAITING * GRAMOPHONE_TEE_ENTRY_BYTES] = {0};
    const size_t room = param->memref.size / GRAMOPHONE_TEE_ENTRY_BYTES;
    const uint32_t taken = fake.waiting < room ? fake.waiting : (uint32_t)room;
    for (uint32_t i = 0; i < taken; i++)
        memset(all + i * GRAMOPHONE_TEE_ENTRY_BYTES, (int)(fake.written - fake.waiting + i),
               GRAMOPHONE_TEE_ENTRY_BYTES);
    if (fake.waiting && !room)
        return TEEC_ERROR_SHORT_BUFFER;
    fake.waiting -= taken;
    return answer(param, all, taken * GRAMOPHONE_TEE_ENTRY_BYTES);
}

static void compute(void)
{
    for (uint32_t i = 0; i < fake.slot_bytes; i++)
        fake.output[i] = fake.input[i] ^ MASK;
    fake.computed = true;
}

static uint32_t share(uint32_t command, TEEC_Parameter params[4])
{
    static const struct gramophone_network networks[] = {
        {.name = "first", .slot_count = SLOTS, .predicted_us = 900}, {.name = "second", .first_slot = SLOTS}};
    const uint32_t network = params[0].value.a;
    switch (command) {
    case GRAMOPHONE_DESCRIBE_NETWORK:
        return network < 2 ? answer(&params[1], &networks[network], sizeof *networks)
                           : TEEC_ERROR_ITEM_NOT_FOUND;
    case GRAMOPHONE_CHOOSE: return network < 2 ? TEEC_SUCCESS : TEEC_ERROR_ITEM_NOT_FOUND;
    case GRAMOPHONE_SUBMIT: fake.left = fake.pieces; return TEEC_SUCCESS;
    case GRAMOPHONE_STEP:
        if (!fake.left)
            return TEEC_ERROR_BAD_STATE;
        params[0].value.a = --fake.left ? 1 : 0;
        if (!fake.left)
            compute();
        return TEEC_SUCCESS;
    default: return TEEC_ERROR_NOT_SUPPORTED;
    }
}

/* A command that reads the trace, where it is shared. */
static uint32_t read_shared(uint32_t command, TEEC_Parameter params[4])
{
    if (command != GRAMOPHONE_LOAD && command != GRAMOPHONE_RUN)
        return TEEC_ERROR_NOT_SUPPORTED;
    if (!fake.shared || params[0].memref.parent->buffer != fake.shared || params[0].memref.offset)
        return TEEC_ERROR_BAD_PARAMETERS;
    if (fake.shared[0] != 'S')
        return GRAMOPHONE_RESULT(command == GRAMOPHONE_RUN ? GR_STATUS_CHUNK : GR_STATUS_SIGNATURE);
    if (command == GRAMOPHONE_RUN)
        compute();
    return TEEC_SUCCESS;
}

static uint32_t perform(uint32_t command, TEEC_Parameter params[4])
{
    static const uint8_t key[GRAMOPHONE_DEVICE_KEY_BYTES] = {4, 1};
    if (fake.keeps_log && (command == GRAMOPHONE_LOAD || command == GRAMOPHONE_RUN)) {
        if (fake.waiting == WAITING)
            return GRAMOPHONE_RESULT(GR_STATUS_LOG);
        fake.waiting++;
        fake.written++;
    }
    if (fake.streams && (command <= GRAMOPHONE_LOAD || command == GRAMOPHONE_RUN))
        return read_shared(command, params);
    if (command >= GRAMOPHONE_CHOOSE)
        return fake.pieces ? share(command, params) : TEEC_ERROR_NOT_SUPPORTED;
    if (!fake.keeps_log && command > GRAMOPHONE_FORGET)
        return TEEC_ERROR_NOT_SUPPORTED;
    static const struct gr_report report = {.jobs = 14, .actions = 307};
    static const uint8_t manifest[GR_MANIFEST_BYTES] = "lenet";
    const size_t bytes = params[1].memref.size, at = params[0].value.b;
    switch (command) {
    case GRAMOPHONE_LOAD_BEGIN: return fake.looks ? TEEC_ERROR_BUSY : load_begin(params);
    case GRAMOPHONE_LOAD_DATA: return load_data(params);
    case GRAMOPHONE_LOAD:
        if (fake.trace_done != fake.trace_bytes || !fake.trace_bytes)
            return TEEC_ERROR_BAD_STATE;
        return fake.trace[0] == 'S' ? TEEC_SUCCESS : GRAMOPHONE_RESULT(GR_STATUS_SIGNATURE);
    case GRAMOPHONE_DESCRIBE: return describe(params);
    case GRAMOPHONE_DESCRIBE_TRACE:
        if (fake.looks && --fake.looks)
            return TEEC_ERROR_BAD_STATE;
        return answer(&params[0], manifest, sizeof manifest);
    case GRAMOPHONE_GET_LOG: return answer(&params[0], &report, sizeof report);
    case GRAMOPHONE_SET_INPUT:
        memcpy(fake.input + at, params[1].memref.parent->buffer, bytes);
        return TEEC_SUCCESS;
    case GRAMOPHONE_RUN: compute(); return TEEC_SUCCESS;
    case GRAMOPHONE_GET_OUTPUT:
        return fake.computed ? answer(&params[1], fake.output + at, bytes) : TEEC_ERROR_BAD_STATE;
    case GRAMOPHONE_UNLOAD: return TEEC_SUCCESS;
    case GRAMOPHONE_GET_ENTRIES: return entries(&params[0]);
    case GRAMOPHONE_ATTEST_NONCE: /* the nonce itself */
        return answer(&params[1], (uint8_t *)params[0].memref.parent->buffer + params[0].memref.offset,
                      params[0].memref.size);
    case GRAMOPHONE_DEVICE_KEY: return answer(&params[0], key, sizeof key);
    default: return TEEC_ERROR_NOT_SUPPORTED;
    }
}

TEEC_Result TEEC_InvokeCommand(TEEC_Session *session, uint32_t command, TEEC_Operation *operation,
                               uint32_t *origin)
{
    (void)session;
    TEEC_Parameter *params = operation->params;
    const bool first_is_value = TEEC_PARAM_TYPE_GET(operation->paramTypes, 0) == TEEC_VALUE_INPUT;
    const uint32_t second = TEEC_PARAM_TYPE_GET(operation->paramTypes, 1);
    uint64_t bytes = second == TEEC_NONE ? 0 : params[1].memref.size;
    const uint32_t first = TEEC_PARAM_TYPE_GET(operation->paramTypes, 0);
    if (!first_is_value && first != TEEC_NONE && first != TEEC_VALUE_OUTPUT)
        bytes = params[0].memref.size;
    *origin = TEEC_ORIGIN_TRUSTED_APP;
    const uint32_t result = note(command, operation->paramTypes, first_is_value ? params[0].value.a : 0,
                                 first_is_value ? params[0].value.b : 0, bytes);
    return result == TEEC_SUCCESS ? perform(command, params) : result;
}
