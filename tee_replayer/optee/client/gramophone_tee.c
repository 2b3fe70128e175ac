/* SPDX-License-Identifier: BSD-2-Clause */
#include "gramophone_tee.h"

#include <stdlib.h>
#include <string.h>
#include <tee_client_api.h>

#include "gramophone_ta.h"

/* Bytes that one call carries: a part of the 2 MiB that cores without dynamic shared memory
 * have for all clients. */
enum { CHUNK_BYTES = 256 << 10 };

#define NONE TEEC_NONE
#define VALUE TEEC_VALUE_INPUT
#define IN TEEC_MEMREF_PARTIAL_INPUT
#define OUT TEEC_MEMREF_PARTIAL_OUTPUT

struct gramophone_tee {
    TEEC_Context context;
    TEEC_Session session;
    TEEC_SharedMemory chunk;
    TEEC_SharedMemory trace; /* of a device that reads pieces of it while jobs run */
    bool shares_trace;
};

static uint32_t fail(uint32_t result, uint32_t *origin)
{
    if (origin)
        *origin = TEEC_ORIGIN_API;
    return result;
}

static uint32_t invoke(struct gramophone_tee *tee, enum gramophone_command command, TEEC_Operation *operation,
                       uint32_t *origin)
{
    uint32_t own = TEEC_ORIGIN_API;
    return TEEC_InvokeCommand(&tee->session, command, operation, origin ? origin : &own);
}

static uint32_t invoke_plain(struct gramophone_tee *tee, enum gramophone_command command, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(NONE, NONE, NONE, NONE)};
    return invoke(tee, command, &operation, origin);
}

/* The chunk, or its first `bytes` bytes, as a parameter. */
static TEEC_Parameter chunk_of(struct gramophone_tee *tee, size_t bytes)
{
    return (TEEC_Parameter){.memref = {.parent = &tee->chunk, .size = bytes, .offset = 0}};
}

static TEEC_Parameter numbers(uint32_t a, uint32_t b)
{
    return (TEEC_Parameter){.value = {a, b}};
}

static void withdraw_trace(struct gramophone_tee *tee)
{
    if (tee->shares_trace)
        TEEC_ReleaseSharedMemory(&tee->trace);
    tee->shares_trace = false;
}

/* A command that reads the trace, where it is shared. */
static uint32_t invoke_on_trace(struct gramophone_tee *tee, enum gramophone_command command, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(IN, NONE, NONE, NONE)};
    if (!tee->shares_trace)
        return invoke_plain(tee, command, origin);
    operation.params[0] = (TEEC_Parameter){.memref = {.parent = &tee->trace, .size = tee->trace.size}};
    return invoke(tee, command, &operation, origin);
}

/* Share the trace, for a device that does not take it as a copy. */
static uint32_t load_shared(struct gramophone_tee *tee, const void *data, size_t bytes, uint32_t *origin)
{
    tee->trace =
        (TEEC_SharedMemory){.buffer = (void *)(uintptr_t)data, .size = bytes, .flags = TEEC_MEM_INPUT};
    const TEEC_Result result = TEEC_RegisterSharedMemory(&tee->context, &tee->trace);
    if (result != TEEC_SUCCESS)
        return fail(result, origin);
    tee->shares_trace = true;
    return invoke_on_trace(tee, GRAMOPHONE_LOAD, origin);
}

/* What a command answered into the chunk: exactly `bytes`. */
static uint32_t take(struct gramophone_tee *tee, const TEEC_Parameter *param, void *data, size_t bytes,
                     uint32_t *origin)
{
    if (param->memref.size != bytes)
        return fail(TEEC_ERROR_COMMUNICATION, origin);
    memcpy(data, tee->chunk.buffer, bytes);
    return TEEC_SUCCESS;
}

static size_t at_most_a_chunk(size_t bytes)
{
    return bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
}

uint32_t gramophone_tee_open(struct gramophone_tee **tee, enum gramophone_tee_via via,
                             enum gramophone_tee_login login, uint32_t group, uint32_t *origin)
{
    static const TEEC_UUID ta = GRAMOPHONE_TA_UUID, pta = GRAMOPHONE_PTA_UUID;
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(NONE, NONE, NONE, NONE)};
    struct gramophone_tee *opened = calloc(1, sizeof *opened);
    uint32_t own = TEEC_ORIGIN_API;
    TEEC_Result result = TEEC_ERROR_OUT_OF_MEMORY;
    *tee = NULL;
    if (!opened)
        return fail(result, origin);
    result = TEEC_InitializeContext(NULL, &opened->context);
    if (result != TEEC_SUCCESS)
        goto no_context;
    opened->chunk.size = CHUNK_BYTES;
    opened->chunk.flags = TEEC_MEM_INPUT | TEEC_MEM_OUTPUT;
    result = TEEC_AllocateSharedMemory(&opened->context, &opened->chunk);
    if (result != TEEC_SUCCESS)
        goto no_memory;
    result = TEEC_OpenSession(&opened->context, &opened->session, via == GRAMOPHONE_TEE_VIA_PTA ? &pta : &ta,
                              login, login == GRAMOPHONE_TEE_LOGIN_GROUP ? &group : NULL, &operation, &own);
    if (result == TEEC_SUCCESS) {
        *tee = opened;
        return TEEC_SUCCESS;
    }
    TEEC_ReleaseSharedMemory(&opened->chunk);
no_memory:
    TEEC_FinalizeContext(&opened->context);
no_context:
    free(opened);
    if (origin)
        *origin = own;
    return result;
}

void gramophone_tee_close(struct gramophone_tee *tee)
{
    if (!tee)
        return;
    TEEC_CloseSession(&tee->session);
    withdraw_trace(tee);
    TEEC_ReleaseSharedMemory(&tee->chunk);
    TEEC_FinalizeContext(&tee->context);
    free(tee);
}

uint32_t gramophone_tee_load(struct gramophone_tee *tee, const void *data, size_t bytes, uint32_t *origin)
{
    const uint64_t total = bytes;
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(VALUE, NONE, NONE, NONE)};
    uint32_t result = TEEC_SUCCESS;
    operation.params[0] = numbers((uint32_t)total, (uint32_t)(total >> 32));
    withdraw_trace(tee);
    result = invoke(tee, GRAMOPHONE_LOAD_BEGIN, &operation, origin);
    if (result == TEEC_ERROR_NOT_SUPPORTED)
        return load_shared(tee, data, bytes, origin);
    for (size_t done = 0; result == TEEC_SUCCESS && done < bytes;) {
        const size_t piece = at_most_a_chunk(bytes - done);
        memcpy(tee->chunk.buffer, (const uint8_t *)data + done, piece);
        operation.paramTypes = TEEC_PARAM_TYPES(IN, NONE, NONE, NONE);
        operation.params[0] = chunk_of(tee, piece);
        result = invoke(tee, GRAMOPHONE_LOAD_DATA, &operation, origin);
        done += piece;
    }
    return result == TEEC_SUCCESS ? invoke_plain(tee, GRAMOPHONE_LOAD, origin) : result;
}

uint32_t gramophone_tee_trace(struct gramophone_tee *tee, struct gr_manifest *manifest, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(OUT, NONE, NONE, NONE)};
    uint8_t stored[GR_MANIFEST_BYTES];
    operation.params[0] = chunk_of(tee, sizeof stored);
    uint32_t result = invoke(tee, GRAMOPHONE_DESCRIBE_TRACE, &operation, origin);
    if (result == TEEC_SUCCESS)
        result = take(tee, &operation.params[0], stored, sizeof stored, origin);
    if (result == TEEC_SUCCESS && !gr_manifest_load(manifest, stored, sizeof stored))
        result = fail(TEEC_ERROR_BAD_FORMAT, origin);
    return result;
}

/* What a command says of one slot or network. */
static uint32_t describe(struct gramophone_tee *tee, enum gramophone_command command, uint32_t index,
                         void *info, size_t bytes, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(VALUE, OUT, NONE, NONE)};
    operation.params[0] = numbers(index, 0);
    operation.params[1] = chunk_of(tee, bytes);
    const uint32_t result = invoke(tee, command, &operation, origin);
    return result == TEEC_SUCCESS ? take(tee, &operation.params[1], info, bytes, origin) : result;
}

/* How many there are that it describes, at most `most`; `info` has room for one. */
static uint32_t count_all(struct gramophone_tee *tee, enum gramophone_command command, uint32_t most,
                          void *info, size_t bytes, uint32_t *count, uint32_t *origin)
{
    for (*count = 0; *count <= most; (*count)++) {
        const uint32_t result = describe(tee, command, *count, info, bytes, origin);
        if (result == TEEC_ERROR_ITEM_NOT_FOUND)
            return TEEC_SUCCESS;
        if (result != TEEC_SUCCESS)
            return result;
    }
    return fail(TEEC_ERROR_COMMUNICATION, origin);
}

uint32_t gramophone_tee_slot(struct gramophone_tee *tee, uint32_t slot, struct gramophone_slot *info,
                             uint32_t *origin)
{
    return describe(tee, GRAMOPHONE_DESCRIBE, slot, info, sizeof *info, origin);
}

uint32_t gramophone_tee_slot_count(struct gramophone_tee *tee, uint32_t *count, uint32_t *origin)
{
    struct gramophone_slot info;
    return count_all(tee, GRAMOPHONE_DESCRIBE, GR_SLOTS, &info, sizeof info, count, origin);
}

uint32_t gramophone_tee_network(struct gramophone_tee *tee, uint32_t network, struct gramophone_network *info,
                                uint32_t *origin)
{
    return describe(tee, GRAMOPHONE_DESCRIBE_NETWORK, network, info, sizeof *info, origin);
}

uint32_t gramophone_tee_network_count(struct gramophone_tee *tee, uint32_t *count, uint32_t *origin)
{
    struct gramophone_network info;
    return count_all(tee, GRAMOPHONE_DESCRIBE_NETWORK, GR_MAX_NETWORKS, &info, sizeof info, count, origin);
}

static uint32_t invoke_numbers(struct gramophone_tee *tee, enum gramophone_command command, uint32_t a,
                               uint32_t b, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(VALUE, NONE, NONE, NONE)};
    operation.params[0] = numbers(a, b);
    return invoke(tee, command, &operation, origin);
}

uint32_t gramophone_tee_choose(struct gramophone_tee *tee, uint32_t network, uint32_t *origin)
{
    return invoke_numbers(tee, GRAMOPHONE_CHOOSE, network, 0, origin);
}

uint32_t gramophone_tee_submit(struct gramophone_tee *tee, uint64_t within_us, uint32_t *origin)
{
    return invoke_numbers(tee, GRAMOPHONE_SUBMIT, (uint32_t)within_us, (uint32_t)(within_us >> 32), origin);
}

uint32_t gramophone_tee_step(struct gramophone_tee *tee, bool *waits, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(TEEC_VALUE_OUTPUT, NONE, NONE, NONE)};
    const uint32_t result = invoke(tee, GRAMOPHONE_STEP, &operation, origin);
    *waits = result == TEEC_SUCCESS && operation.params[0].value.a;
    return result;
}

uint32_t gramophone_tee_yield(struct gramophone_tee *tee, uint32_t *origin)
{
    return invoke_plain(tee, GRAMOPHONE_YIELD, origin);
}

/* The slot is of `bytes` bytes, and each of them can be named by the commands' 32 bits. */
static uint32_t check_size(struct gramophone_tee *tee, uint32_t slot, size_t bytes, uint32_t *origin)
{
    struct gramophone_slot info;
    const uint32_t result = gramophone_tee_slot(tee, slot, &info, origin);
    if (result != TEEC_SUCCESS)
        return result;
    return info.bytes == bytes && bytes <= UINT32_MAX ? TEEC_SUCCESS
                                                      : fail(TEEC_ERROR_BAD_PARAMETERS, origin);
}

uint32_t gramophone_tee_set_input(struct gramophone_tee *tee, uint32_t slot, const void *data, size_t bytes,
                                  uint32_t *origin)
{
    uint32_t result = check_size(tee, slot, bytes, origin);
    for (size_t done = 0; result == TEEC_SUCCESS && done < bytes;) {
        TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(VALUE, IN, NONE, NONE)};
        const size_t piece = at_most_a_chunk(bytes - done);
        memcpy(tee->chunk.buffer, (const uint8_t *)data + done, piece);
        operation.params[0] = numbers(slot, (uint32_t)done);
        operation.params[1] = chunk_of(tee, piece);
        result = invoke(tee, GRAMOPHONE_SET_INPUT, &operation, origin);
        done += piece;
    }
    return result;
}

uint32_t gramophone_tee_run(struct gramophone_tee *tee, uint32_t *origin)
{
    return invoke_on_trace(tee, GRAMOPHONE_RUN, origin);
}

uint32_t gramophone_tee_get_output(struct gramophone_tee *tee, uint32_t slot, void *data, size_t bytes,
                                   uint32_t *origin)
{
    uint32_t result = check_size(tee, slot, bytes, origin);
    for (size_t done = 0; result == TEEC_SUCCESS && done < bytes;) {
        TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(VALUE, OUT, NONE, NONE)};
        const size_t piece = at_most_a_chunk(bytes - done);
        operation.params[0] = numbers(slot, (uint32_t)done);
        operation.params[1] = chunk_of(tee, piece);
        result = invoke(tee, GRAMOPHONE_GET_OUTPUT, &operation, origin);
        if (result == TEEC_SUCCESS)
            result = take(tee, &operation.params[1], (uint8_t *)data + done, piece, origin);
        done += piece;
    }
    return result;
}

uint32_t gramophone_tee_log(struct gramophone_tee *tee, struct gr_report *report, uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(OUT, NONE, NONE, NONE)};
    operation.params[0] = chunk_of(tee, sizeof *report);
    const uint32_t result = invoke(tee, GRAMOPHONE_GET_LOG, &operation, origin);
    return result == TEEC_SUCCESS ? take(tee, &operation.params[0], report, sizeof *report, origin) : result;
}

/* What a command answered into the chunk: at most `room` bytes. */
static uint32_t take_some(struct gramophone_tee *tee, const TEEC_Parameter *param, void *data, size_t room,
                          size_t *bytes, uint32_t *origin)
{
    if (param->memref.size > room)
        return fail(TEEC_ERROR_COMMUNICATION, origin);
    *bytes = param->memref.size;
    memcpy(data, tee->chunk.buffer, *bytes);
    return TEEC_SUCCESS;
}

uint32_t gramophone_tee_entries(struct gramophone_tee *tee, void *data, size_t room, size_t *bytes,
                                uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(OUT, NONE, NONE, NONE)};
    const size_t size = at_most_a_chunk(room);
    *bytes = 0;
    operation.params[0] = chunk_of(tee, size);
    const uint32_t result = invoke(tee, GRAMOPHONE_GET_ENTRIES, &operation, origin);
    return result == TEEC_SUCCESS ? take_some(tee, &operation.params[0], data, size, bytes, origin) : result;
}

uint32_t gramophone_tee_attest(struct gramophone_tee *tee, const void *nonce, size_t nonce_bytes, void *data,
                               size_t room, size_t *bytes, uint32_t *origin)
{
    enum { NONCE_MIN = 8, NONCE_MAX = 64 };
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(IN, OUT, NONE, NONE)};
    const size_t size = room < GRAMOPHONE_TEE_ATTESTATION_BYTES ? room : GRAMOPHONE_TEE_ATTESTATION_BYTES;
    *bytes = 0;
    if (nonce_bytes < NONCE_MIN || nonce_bytes > NONCE_MAX)
        return fail(TEEC_ERROR_BAD_PARAMETERS, origin);
    memcpy((uint8_t *)tee->chunk.buffer + GRAMOPHONE_TEE_ATTESTATION_BYTES, nonce, nonce_bytes);
    operation.params[0] = chunk_of(tee, nonce_bytes);
    operation.params[0].memref.offset = GRAMOPHONE_TEE_ATTESTATION_BYTES;
    operation.params[1] = chunk_of(tee, size);
    const uint32_t result = invoke(tee, GRAMOPHONE_ATTEST_NONCE, &operation, origin);
    return result == TEEC_SUCCESS ? take_some(tee, &operation.params[1], data, size, bytes, origin) : result;
}

uint32_t gramophone_tee_device_key(struct gramophone_tee *tee, uint8_t key[65], uint32_t *origin)
{
    TEEC_Operation operation = {.paramTypes = TEEC_PARAM_TYPES(OUT, NONE, NONE, NONE)};
    operation.params[0] = chunk_of(tee, GRAMOPHONE_DEVICE_KEY_BYTES);
    const uint32_t result = invoke(tee, GRAMOPHONE_DEVICE_KEY, &operation, origin);
    return result == TEEC_SUCCESS ? take(tee, &operation.params[0], key, GRAMOPHONE_DEVICE_KEY_BYTES, origin)
                                  : result;
}

uint32_t gramophone_tee_forget(struct gramophone_tee *tee, uint32_t *origin)
{
    return invoke_plain(tee, GRAMOPHONE_FORGET, origin);
}

uint32_t gramophone_tee_unload(struct gramophone_tee *tee, uint32_t *origin)
{
    return invoke_plain(tee, GRAMOPHONE_UNLOAD, origin);
}
