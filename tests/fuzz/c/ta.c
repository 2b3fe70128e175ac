/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the user TA, between a client and a pseudo-TA that may answer anything. An input begins with
 * the client's login and what the secure storage answers; calls of 16 bytes follow: command, how, types
 * (u16), a (u32), b (u32), size of the buffer (u32). Calls that are not to be strange get the command's own
 * types.
 */
#include "fake_tee.h"
#include "gramophone_ta.h"
#include "gramophone_trace.h"

#include <stdio.h>
#include <stdlib.h>

enum { SETUP_BYTES = 8, CALL_BYTES = 16, MOST_CALLS = 32, MOST_BUFFER = 200 << 10, TRACES = 3 };
enum { STRANGE_COMMAND = 1, STRANGE_TYPES = 2, PTA_FAILS = 4, PTA_EXAGGERATES = 8 };

struct setup {
    uint8_t login, uuid, storage, read_less, versions[TRACES], name;
};

struct call {
    uint8_t command, how;
    uint16_t types;
    uint32_t a, b, bytes;
};

static const uint16_t types_of[] = {0x1, 0x5, 0x0, 0x61, 0x51, 0x0, 0x61, 0x0, 0x6, 0x6, 0x0};
static struct {
    struct setup setup;
    struct call call;
    uint8_t *buffers[4]; /* the client's, of the call at hand */
    size_t rooms[4];
    bool open, loaded; /* the pseudo-TA's session, a trace in it */
    bool stored;       /* a counter is in the storage */
    uint32_t version, trace;
} world;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void promise(bool condition, const char *text)
{
    if (condition)
        return;
    fprintf(stderr, "FINDING: %s\n", text);
    abort();
}

TEE_Result TEE_GetPropertyAsIdentity(TEE_PropSetHandle set, const char *name, TEE_Identity *identity)
{
    (void)set, (void)name;
    memset(identity, world.setup.uuid, sizeof *identity);
    identity->login = world.setup.login & 1 ? TEE_LOGIN_USER : TEE_LOGIN_TRUSTED_APP;
    return world.setup.login & 2 ? TEE_ERROR_ITEM_NOT_FOUND : TEE_SUCCESS;
}

TEE_Result TEE_OpenTASession(const TEE_UUID *uuid, uint32_t timeout, uint32_t types, TEE_Param params[4],
                             TEE_TASessionHandle *session, uint32_t *origin)
{
    (void)uuid, (void)timeout, (void)types, (void)params;
    promise((world.setup.login & 3) == 0, "only a client that the policy names gets a session");
    *origin = 0;
    *session = (TEE_TASessionHandle)&world;
    world.open = true;
    return TEE_SUCCESS;
}

void TEE_CloseTASession(TEE_TASessionHandle session)
{
    promise(session == (TEE_TASessionHandle)&world, "the session that was opened is closed");
    world.open = world.loaded = false;
}

static void check_memory(const void *at, size_t bytes)
{
    const uint8_t *p = at;
    for (uint32_t i = 0; i < 4; i++)
        promise(!world.buffers[i] || p + bytes <= world.buffers[i] || p >= world.buffers[i] + world.rooms[i],
                "no memory of the client is passed on");
}

/* The client writes to what it shares, while the TA works. */
static void meddle(void)
{
    for (uint32_t i = 0; i < 4; i++)
        for (size_t at = 0; at < world.rooms[i] && at < 64; at++)
            world.buffers[i][at] ^= 0x55;
}

TEE_Result TEE_InvokeTACommand(TEE_TASessionHandle session, uint32_t timeout, uint32_t command,
                               uint32_t types, TEE_Param params[4], uint32_t *origin)
{
    (void)timeout;
    promise(session == (TEE_TASessionHandle)&world && world.open, "commands go to the open session");
    promise(command < sizeof types_of / sizeof *types_of && types == types_of[command],
            "a command of the pseudo-TA, with its parameters");
    *origin = 0;
    for (uint32_t i = 0; i < 4; i++) {
        const uint32_t type = types >> 4 * i & 15;
        if (type < TEE_PARAM_TYPE_MEMREF_INPUT)
            continue;
        check_memory(params[i].memref.buffer, params[i].memref.size);
        if (type == TEE_PARAM_TYPE_MEMREF_OUTPUT)
            memset(params[i].memref.buffer, 0xa5, params[i].memref.size);
        if (type == TEE_PARAM_TYPE_MEMREF_OUTPUT && world.call.how & PTA_EXAGGERATES)
            params[i].memref.size += world.call.a;
    }
    meddle();
    if (command == GRAMOPHONE_UNLOAD || command == GRAMOPHONE_LOAD)
        world.loaded = false;
    if (world.call.how & PTA_FAILS && command != GRAMOPHONE_UNLOAD)
        return world.call.a & 1 ? TEE_ERROR_SHORT_BUFFER : TEE_ERROR_GENERIC;
    if (command == GRAMOPHONE_LOAD) {
        world.loaded = true;
        world.trace = world.call.a % TRACES;
    }
    if (command == GRAMOPHONE_RUN)
        promise(!world.loaded || world.setup.versions[world.trace] >= world.version || !world.stored,
                "nothing older than what was loaded before runs");
    if (command == GRAMOPHONE_DESCRIBE_TRACE) {
        const struct gr_manifest manifest = {.security_version = world.setup.versions[world.trace]};
        uint8_t bytes[GR_MANIFEST_BYTES] = {0};
        memcpy(bytes + GR_MANIFEST_AT_SECURITY_VERSION, &manifest.security_version, 4);
        const size_t room = params[0].memref.size;
        memcpy(params[0].memref.buffer, bytes, room < sizeof bytes ? room : sizeof bytes);
    }
    return TEE_SUCCESS;
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

TEE_Result TEE_OpenPersistentObject(uint32_t storage, const void *name, size_t bytes, uint32_t flags,
                                    TEE_ObjectHandle *object)
{
    (void)storage, (void)name, (void)flags;
    promise(bytes <= TEE_OBJECT_ID_MAX_LEN, "an object's identifier is not too long");
    if (world.setup.storage & 1)
        return TEE_ERROR_CORRUPT_OBJECT;
    if (!world.stored)
        return TEE_ERROR_ITEM_NOT_FOUND;
    *object = (TEE_ObjectHandle)&world;
    return TEE_SUCCESS;
}

TEE_Result TEE_ReadObjectData(TEE_ObjectHandle object, void *data, size_t bytes, size_t *count)
{
    (void)object;
    *count = bytes - (world.setup.read_less & 3 && bytes ? 1 : 0);
    memcpy(data, &world.version, *count < 4 ? *count : 4);
    return world.setup.storage & 2 ? TEE_ERROR_CORRUPT_OBJECT : TEE_SUCCESS;
}

TEE_Result TEE_CreatePersistentObject(uint32_t storage, const void *name, size_t bytes, uint32_t flags,
                                      TEE_ObjectHandle attributes, const void *data, size_t data_bytes,
                                      TEE_ObjectHandle *object)
{
    uint32_t version = 0;
    (void)storage, (void)name, (void)bytes, (void)flags, (void)attributes;
    promise(data_bytes == sizeof version, "a counter has one size");
    memcpy(&version, data, sizeof version);
    promise(!world.stored || version > world.version, "a counter only grows");
    if (world.setup.storage & 4)
        return TEE_ERROR_GENERIC;
    world.version = version;
    world.stored = true;
    *object = (TEE_ObjectHandle)&world;
    return TEE_SUCCESS;
}

void TEE_CloseObject(TEE_ObjectHandle object)
{
    promise(object == (TEE_ObjectHandle)&world, "the object that was opened is closed");
}

static void invoke(void)
{
    const struct call *call = &world.call;
    const uint32_t commands = sizeof types_of / sizeof *types_of;
    const uint32_t command = call->how & STRANGE_COMMAND ? call->command : call->command % commands;
    const uint32_t types = call->how & STRANGE_TYPES || command >= commands ? call->types : types_of[command];
    TEE_Param params[4] = {0};
    for (uint32_t i = 0; i < 4; i++) {
        if ((types >> 4 * i & 15) < TEE_PARAM_TYPE_MEMREF_INPUT) {
            params[i].value.a = call->a;
            params[i].value.b = call->b;
            continue;
        }
        world.rooms[i] = call->bytes % MOST_BUFFER;
        world.buffers[i] = malloc(world.rooms[i] ? world.rooms[i] : 1);
        promise(world.buffers[i] != NULL, "there is memory");
        memset(world.buffers[i], call->how, world.rooms[i]);
        params[i].memref.buffer = world.buffers[i];
        params[i].memref.size = world.rooms[i];
    }
    const TEE_Result result = TA_InvokeCommandEntryPoint(NULL, command, types, params);
    if (command >= commands || types != types_of[command])
        promise(result != TEE_SUCCESS, "no command with other parameters succeeds");
    else
        for (uint32_t i = 0; i < 4; i++)
            if ((types >> 4 * i & 15) == TEE_PARAM_TYPE_MEMREF_OUTPUT && result == TEE_SUCCESS)
                promise(params[i].memref.size <= world.rooms[i], "no answer is longer than its room");
    if (command == GRAMOPHONE_LOAD && types == types_of[command])
        promise((result == TEE_SUCCESS) == world.loaded, "what is not admitted is unloaded");
    for (uint32_t i = 0; i < 4; i++) {
        free(world.buffers[i]);
        world.buffers[i] = NULL;
        world.rooms[i] = 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    TEE_Param none[4] = {0};
    void *session = NULL;
    if (size < SETUP_BYTES)
        return 0;
    memset(&world, 0, sizeof world);
    memcpy(&world.setup, data, sizeof world.setup);
    if (TA_OpenSessionEntryPoint(0, none, &session) != TEE_SUCCESS)
        return 0;
    for (size_t at = SETUP_BYTES, n = 0; at + CALL_BYTES <= size && n < MOST_CALLS; at += CALL_BYTES, n++) {
        memcpy(&world.call, data + at, sizeof world.call);
        invoke();
    }
    TA_CloseSessionEntryPoint(session);
    promise(!world.open, "the end of the session closes the pseudo-TA's");
    return 0;
}
