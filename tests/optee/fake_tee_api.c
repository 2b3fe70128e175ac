/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the TA calls, without a TEE: the client's identity, the pseudo-TA and the secure storage, in
 * this process. Compiled with the TA's own sources and the development kit's headers; test_ta.py sets
 * the scene and looks.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <tee_internal_api.h>

#include "fake_tee_api.h"
#include "gramophone_pta.h"
#include "gramophone_trace.h"

enum { OBJECTS = 8, CALLS = 4096, NAME_BYTES = 64, DATA_BYTES = 64 };

static struct {
    struct fake_call calls[CALLS];
    uint32_t count, login, trust_version;
    TEE_UUID client;
    bool loaded, open;
    uint32_t fail_command, fail_result, open_result, create_result, read_less;
    uint8_t manifest[GR_MANIFEST_BYTES];
    struct {
        uint8_t name[NAME_BYTES], data[DATA_BYTES];
        size_t name_bytes, bytes;
        bool used;
    } objects[OBJECTS];
    uint32_t opened; /* index of an object + 1 */
    uint8_t *data;   /* what the client sent, in order */
    uint64_t data_bytes, slot_bytes;
#ifdef GRAMOPHONE_LOG
    struct gr_log_tail tail;
    bool log_is_open;
#endif
} fake;

void fake_reset(void)
{
    memset(fake.objects, 0, sizeof fake.objects);
    fake.count = fake.opened = fake.fail_result = fake.open_result = fake.create_result = fake.read_less = 0;
    fake.loaded = fake.open = false;
    fake.data_bytes = fake.slot_bytes = 0;
#ifdef GRAMOPHONE_LOG
    fake.log_is_open = false;
#endif
}

void fake_client(uint32_t login, const uint8_t uuid[16])
{
    fake.login = login;
    memcpy(&fake.client, uuid, sizeof fake.client);
}

void fake_trust(uint32_t version)
{
    fake.trust_version = version;
}

void fake_manifest(const uint8_t *manifest)
{
    memcpy(fake.manifest, manifest, sizeof fake.manifest);
}

/* The pseudo-TA answers so to this command. */
void fake_fail(uint32_t command, uint32_t result)
{
    fake.fail_command = command;
    fake.fail_result = result;
}

/* The storage answers so; what is read is that many bytes short. */
void fake_storage(uint32_t open_result, uint32_t create_result, uint32_t read_less)
{
    fake.open_result = open_result;
    fake.create_result = create_result;
    fake.read_less = read_less;
}

void fake_slot(uint64_t bytes)
{
    fake.slot_bytes = bytes;
}

uint32_t fake_count(void)
{
    return fake.count;
}

const struct fake_call *fake_call(uint32_t index)
{
    return &fake.calls[index];
}

bool fake_loaded(void)
{
    return fake.loaded;
}

bool fake_open(void)
{
    return fake.open;
}

const uint8_t *fake_data(uint64_t *bytes)
{
    *bytes = fake.data_bytes;
    return fake.data;
}

uint32_t fake_objects(void)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < OBJECTS; i++)
        count += fake.objects[i].used;
    return count;
}

TEE_Result TEE_GetPropertyAsIdentity(TEE_PropSetHandle set, const char *name, TEE_Identity *identity)
{
    if (set != TEE_PROPSET_CURRENT_CLIENT || strcmp(name, "gpd.client.identity"))
        return TEE_ERROR_ITEM_NOT_FOUND;
    identity->login = fake.login;
    identity->uuid = fake.client;
    return TEE_SUCCESS;
}

TEE_Result TEE_OpenTASession(const TEE_UUID *uuid, uint32_t timeout, uint32_t types, TEE_Param params[4],
                             TEE_TASessionHandle *session, uint32_t *origin)
{
    static const TEE_UUID pta = GRAMOPHONE_PTA_UUID;
    (void)timeout, (void)types, (void)params;
    *origin = TEE_ORIGIN_TEE;
    if (memcmp(uuid, &pta, sizeof pta))
        return TEE_ERROR_ITEM_NOT_FOUND;
    if (fake.open)
        return TEE_ERROR_BUSY;
    fake.open = true;
    *session = (TEE_TASessionHandle)&fake;
    return TEE_SUCCESS;
}

void TEE_CloseTASession(TEE_TASessionHandle session)
{
    if (session == (TEE_TASessionHandle)&fake)
        fake.open = fake.loaded = false;
}

/* Data is appended to what came before, and the piece is overwritten: the TA must not use it again. */
static void append(void *piece, size_t bytes)
{
    fake.data = realloc(fake.data, fake.data_bytes + bytes + 1);
    memcpy(fake.data + fake.data_bytes, piece, bytes);
    memset(piece, 0xee, bytes);
    fake.data_bytes += bytes;
}

static TEE_Result answer(TEE_Param *param, const void *data, size_t bytes)
{
    const size_t room = param->memref.size;
    param->memref.size = bytes;
    if (room < bytes)
        return TEE_ERROR_SHORT_BUFFER;
    memcpy(param->memref.buffer, data, bytes);
    return TEE_SUCCESS;
}

static TEE_Result output(TEE_Param params[4])
{
    if (params[0].value.b > fake.slot_bytes)
        return TEE_ERROR_BAD_PARAMETERS;
    const uint64_t left = fake.slot_bytes - params[0].value.b;
    if (params[1].memref.size > left)
        params[1].memref.size = left;
    for (size_t i = 0; i < params[1].memref.size; i++)
        ((uint8_t *)params[1].memref.buffer)[i] = (uint8_t)((params[0].value.b + i) % 251);
    return TEE_SUCCESS;
}

#ifdef GRAMOPHONE_LOG
static TEE_Result log_open(TEE_Param params[4])
{
    if (params[0].memref.size != sizeof fake.tail)
        return TEE_ERROR_BAD_PARAMETERS;
    if (!fake.log_is_open) {
        memcpy(&fake.tail, params[0].memref.buffer, sizeof fake.tail);
        fake.tail.boots++;
        fake.tail.entries++;
    }
    fake.log_is_open = true;
    return TEE_SUCCESS;
}

/* The machine starts anew: the storage stays. */
void fake_boot(void)
{
    fake.log_is_open = fake.open = fake.loaded = false;
    fake.count = 0;
}

uint64_t fake_tail(bool boots)
{
    return boots ? fake.tail.boots : fake.tail.entries;
}
#endif

TEE_Result TEE_InvokeTACommand(TEE_TASessionHandle session, uint32_t timeout, uint32_t command,
                               uint32_t types, TEE_Param params[4], uint32_t *origin)
{
    static const struct gramophone_slot slot = {.name = "data"};
    const bool value = TEE_PARAM_TYPE_GET(types, 0) == TEE_PARAM_TYPE_VALUE_INPUT;
    const uint32_t second = TEE_PARAM_TYPE_GET(types, 1);
    const uint64_t bytes = second                                   ? params[1].memref.size
                           : value || !TEE_PARAM_TYPE_GET(types, 0) ? 0
                                                                    : params[0].memref.size;
    (void)session, (void)timeout;
    *origin = TEE_ORIGIN_TRUSTED_APP;
    if (fake.count < CALLS)
        fake.calls[fake.count++] = (struct fake_call){command, types, value ? params[0].value.a : 0,
                                                      value ? params[0].value.b : 0, bytes};
    if (fake.fail_result && fake.fail_command == command)
        return fake.fail_result;
    switch (command) {
#ifdef GRAMOPHONE_LOG
    case GRAMOPHONE_LOG_OPEN: return log_open(params);
    case GRAMOPHONE_LOG_TAIL: return answer(&params[0], &fake.tail, sizeof fake.tail);
    case GRAMOPHONE_GET_ENTRIES: return answer(&params[0], "entries", 7);
    case GRAMOPHONE_ATTEST_NONCE:
        append(params[0].memref.buffer, params[0].memref.size);
        return answer(&params[1], "attestation", 11);
    case GRAMOPHONE_DEVICE_KEY: return answer(&params[0], "key", 3);
    case GRAMOPHONE_RUN: fake.tail.entries++; return TEE_SUCCESS;
    case GRAMOPHONE_LOAD:
        fake.tail.entries++;
        fake.loaded = true;
        return TEE_SUCCESS;
#else
    case GRAMOPHONE_LOAD: fake.loaded = true; return TEE_SUCCESS;
#endif
    case GRAMOPHONE_UNLOAD: fake.loaded = false; return TEE_SUCCESS;
    case GRAMOPHONE_LOAD_DATA: append(params[0].memref.buffer, params[0].memref.size); return TEE_SUCCESS;
    case GRAMOPHONE_SET_INPUT: append(params[1].memref.buffer, params[1].memref.size); return TEE_SUCCESS;
    case GRAMOPHONE_GET_OUTPUT: return output(params);
    case GRAMOPHONE_DESCRIBE: return answer(&params[1], &slot, sizeof slot);
    case GRAMOPHONE_TRUST_VERSION: return answer(&params[0], &fake.trust_version, sizeof fake.trust_version);
    case GRAMOPHONE_DESCRIBE_TRACE: return answer(&params[0], fake.manifest, sizeof fake.manifest);
    default: return TEE_SUCCESS;
    }
}

void TEE_MemFill(void *to, uint32_t byte, size_t bytes)
{
    memset(to, (int)byte, bytes);
}

void TEE_MemMove(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memmove(to, from, bytes);
}

int32_t TEE_MemCompare(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes);
}

static uint32_t find(const void *name, size_t bytes)
{
    uint32_t i = 0;
    while (i < OBJECTS && !(fake.objects[i].used && bytes == fake.objects[i].name_bytes &&
                            !memcmp(fake.objects[i].name, name, bytes)))
        i++;
    return i;
}

TEE_Result TEE_OpenPersistentObject(uint32_t storage, const void *name, size_t bytes, uint32_t flags,
                                    TEE_ObjectHandle *object)
{
    (void)storage, (void)flags;
    const uint32_t index = find(name, bytes);
    if (fake.open_result)
        return fake.open_result;
    if (index == OBJECTS)
        return TEE_ERROR_ITEM_NOT_FOUND;
    fake.opened = index + 1;
    *object = (TEE_ObjectHandle)&fake;
    return TEE_SUCCESS;
}

TEE_Result TEE_ReadObjectData(TEE_ObjectHandle object, void *data, size_t bytes, size_t *count)
{
    (void)object;
    *count = fake.objects[fake.opened - 1].bytes - fake.read_less;
    if (*count > bytes)
        *count = bytes;
    memcpy(data, fake.objects[fake.opened - 1].data, *count);
    return TEE_SUCCESS;
}

TEE_Result TEE_CreatePersistentObject(uint32_t storage, const void *name, size_t bytes, uint32_t flags,
                                      TEE_ObjectHandle attributes, const void *data, size_t data_bytes,
                                      TEE_ObjectHandle *object)
{
    (void)storage, (void)attributes;
    uint32_t index = find(name, bytes);
    if (fake.create_result || data_bytes > DATA_BYTES || bytes > NAME_BYTES)
        return fake.create_result ? fake.create_result : TEE_ERROR_BAD_PARAMETERS;
    if (index < OBJECTS && !(flags & TEE_DATA_FLAG_OVERWRITE))
        return TEE_ERROR_ACCESS_CONFLICT;
    for (uint32_t i = 0; index == OBJECTS && i < OBJECTS; i++)
        if (!fake.objects[i].used)
            index = i;
    memcpy(fake.objects[index].name, name, bytes);
    memcpy(fake.objects[index].data, data, data_bytes);
    fake.objects[index].name_bytes = bytes;
    fake.objects[index].bytes = data_bytes;
    fake.objects[index].used = true;
    *object = (TEE_ObjectHandle)&fake;
    return TEE_SUCCESS;
}

void TEE_CloseObject(TEE_ObjectHandle object)
{
    (void)object;
    fake.opened = 0;
}
