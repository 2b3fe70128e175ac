/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TA: policy, then the pseudo-TA.
 *
 * Memory that a client shares may change at any time. It is copied once, into `piece`, and only the copy is
 * passed on; nothing here looks at the original. A trace of which pieces are read while jobs run is passed on
 * as it is: the pseudo-TA copies from it what it checks.
 */
#include <string.h>
#include <tee_internal_api.h>
#include <tee_internal_api_extensions.h>

#include "gramophone_ta.h"
#include "log_tail.h"
#include "policy.h"
#include "rollback.h"

enum { PIECE_BYTES = 64 << 10 };

#define NONE TEE_PARAM_TYPE_NONE
#define VALUE TEE_PARAM_TYPE_VALUE_INPUT
#define VALUE_OUT TEE_PARAM_TYPE_VALUE_OUTPUT
#define IN TEE_PARAM_TYPE_MEMREF_INPUT
#define OUT TEE_PARAM_TYPE_MEMREF_OUTPUT

/* An instance has one session, and one command at a time. */
static uint8_t piece[PIECE_BYTES];
static TEE_TASessionHandle pta;

static TEE_Result invoke(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    uint32_t origin = 0;
    return TEE_InvokeTACommand(pta, TEE_TIMEOUT_INFINITE, command, types, params, &origin);
}

static TEE_Result invoke_plain(uint32_t command)
{
    TEE_Param none[TEE_NUM_PARAMS] = {0};
    return invoke(command, TEE_PARAM_TYPES(NONE, NONE, NONE, NONE), none);
}

static size_t at_most_a_piece(size_t bytes)
{
    return bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
}

/* Whether a command's offset can grow by `bytes`. */
static bool can_advance(const TEE_Param *place, size_t bytes)
{
    return bytes <= UINT32_MAX && place->value.b <= UINT32_MAX - (uint32_t)bytes;
}

/* The parameter with a command's memory: the first one, or the one behind numbers. */
static size_t memory_of(uint32_t types)
{
    return TEE_PARAM_TYPE_GET(types, 0) == VALUE;
}

/* A command that takes data: piece by piece. With numbers, each has the offset at which the one before ended.
 */
static TEE_Result send(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    const size_t memref = memory_of(types);
    const bool advance = memref;
    TEE_Param own[TEE_NUM_PARAMS] = {0};
    const uint8_t *data = params[memref].memref.buffer;
    const size_t bytes = params[memref].memref.size;
    TEE_Result result = TEE_SUCCESS;
    size_t done = 0;
    if (advance && !can_advance(&params[0], bytes))
        return TEE_ERROR_BAD_PARAMETERS;
    do {
        const size_t next = at_most_a_piece(bytes - done);
        if (advance) {
            own[0].value.a = params[0].value.a;
            own[0].value.b = params[0].value.b + (uint32_t)done;
        }
        TEE_MemMove(piece, data + done, next);
        own[memref].memref.buffer = piece;
        own[memref].memref.size = next;
        result = invoke(command, types, own);
        done += next;
    } while (result == TEE_SUCCESS && done < bytes);
    return result;
}

/* What a command answered into the piece. */
static TEE_Result pass_on(TEE_Result result, const TEE_Param *answer, size_t room, TEE_Param *to)
{
    const size_t bytes = answer->memref.size;
    if (result == TEE_SUCCESS && bytes > room)
        return TEE_ERROR_GENERIC;
    if (result == TEE_SUCCESS)
        TEE_MemMove(to->memref.buffer, piece, bytes);
    if (result == TEE_SUCCESS || result == TEE_ERROR_SHORT_BUFFER)
        to->memref.size = bytes;
    return result;
}

/* A command whose answer fits one piece. */
static TEE_Result query(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    const size_t memref = memory_of(types);
    TEE_Param own[TEE_NUM_PARAMS] = {0};
    const size_t room = at_most_a_piece(params[memref].memref.size);
    if (memref)
        own[0].value = params[0].value;
    own[memref].memref.buffer = piece;
    own[memref].memref.size = room;
    return pass_on(invoke(command, types, own), &own[memref], room, &params[memref]);
}

static TEE_Result get_output(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    const size_t room = params[1].memref.size;
    uint8_t *data = params[1].memref.buffer;
    TEE_Result result = TEE_SUCCESS;
    size_t done = 0, requested = 0, got = 0;
    if (!can_advance(&params[0], room))
        return TEE_ERROR_BAD_PARAMETERS;
    do {
        TEE_Param next[TEE_NUM_PARAMS] = {0};
        requested = at_most_a_piece(room - done);
        next[0].value.a = params[0].value.a;
        next[0].value.b = params[0].value.b + (uint32_t)done;
        next[1].memref.buffer = data + done;
        next[1].memref.size = requested;
        result = query(command, types, next);
        got = result == TEE_SUCCESS ? next[1].memref.size : 0;
        done += got;
    } while (got == requested && done < room);
    params[1].memref.size = done;
    return result;
}

static bool trace_allowed(const char *name)
{
    size_t count = 0;
    for (; policy_traces[count]; count++)
        if (!strcmp(policy_traces[count], name))
            return true;
    return count == 0;
}

#ifdef GRAMOPHONE_TRUST
/* Whether no newer trust policy than the one under which the trace was accepted has counted before. */
static TEE_Result admit_policy(void)
{
    TEE_Param params[TEE_NUM_PARAMS] = {0};
    uint32_t version = 0;
    params[0].memref.buffer = piece;
    params[0].memref.size = sizeof version;
    const TEE_Result result =
        invoke(GRAMOPHONE_TRUST_VERSION, TEE_PARAM_TYPES(OUT, NONE, NONE, NONE), params);
    if (result != TEE_SUCCESS)
        return result;
    if (params[0].memref.size != sizeof version)
        return TEE_ERROR_BAD_FORMAT;
    TEE_MemMove(&version, piece, sizeof version);
    return rollback_check_policy(version);
}
#endif

/* Whether the trace that has just been verified and loaded may be replayed. */
static TEE_Result admit(void)
{
    TEE_Param params[TEE_NUM_PARAMS] = {0};
    struct gr_manifest manifest;
    params[0].memref.buffer = piece;
    params[0].memref.size = GR_MANIFEST_BYTES;
    TEE_Result result = invoke(GRAMOPHONE_DESCRIBE_TRACE, TEE_PARAM_TYPES(OUT, NONE, NONE, NONE), params);
    if (result != TEE_SUCCESS)
        return result;
    if (!gr_manifest_load(&manifest, piece, params[0].memref.size))
        return TEE_ERROR_BAD_FORMAT;
    if (!trace_allowed(manifest.name))
        return GRAMOPHONE_TA_ERROR_TRACE;
    result = rollback_check(&manifest);
#ifdef GRAMOPHONE_TRUST
    if (result == TEE_SUCCESS)
        result = admit_policy();
#endif
    return result;
}

/* A command of which the replay log has an entry. Without a place for the log's end nothing stays loaded, so
 * nothing of a replay goes out. */
static TEE_Result invoke_logged(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    const TEE_Result result = invoke(command, types, params), kept = log_tail_keep(pta);
    if (kept != TEE_SUCCESS)
        (void)invoke_plain(GRAMOPHONE_UNLOAD); /* which cannot fail */
    return kept == TEE_SUCCESS ? result : kept;
}

/* After a command that went well, what must go well, too, for the trace to stay loaded. */
static TEE_Result and_then(TEE_Result result, TEE_Result (*next)(void))
{
    if (result == TEE_SUCCESS) {
        result = next();
        if (result != TEE_SUCCESS)
            (void)invoke_plain(GRAMOPHONE_UNLOAD);
    }
    return result;
}

static TEE_Result load(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    return and_then(invoke_logged(command, types, params), admit);
}

static TEE_Result run(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    return and_then(invoke_logged(command, types, params), rollback_raise);
}

#ifdef GRAMOPHONE_LOG
static TEE_Result get_entries(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    const TEE_Result kept = log_tail_keep(pta);
    return kept == TEE_SUCCESS ? query(command, types, params) : kept;
}
#endif

#ifdef GRAMOPHONE_ATTEST
static TEE_Result attest(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    TEE_Param own[TEE_NUM_PARAMS] = {0};
    uint8_t nonce[GR_NONCE_MAX];
    const size_t nonce_bytes = params[0].memref.size, room = at_most_a_piece(params[1].memref.size);
    const TEE_Result kept = log_tail_keep(pta);
    if (nonce_bytes > sizeof nonce)
        return TEE_ERROR_BAD_PARAMETERS;
    if (kept != TEE_SUCCESS)
        return kept;
    TEE_MemMove(nonce, params[0].memref.buffer, nonce_bytes);
    own[0].memref.buffer = nonce;
    own[0].memref.size = nonce_bytes;
    own[1].memref.buffer = piece;
    own[1].memref.size = room;
    const TEE_Result result = invoke(command, types, own);
    return pass_on(result, &own[1], room, &params[1]);
}
#endif

/* A command that is for the TA alone. */
static __maybe_unused TEE_Result deny(uint32_t command __unused, uint32_t types __unused,
                                      TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    return TEE_ERROR_ACCESS_DENIED;
}

#ifdef GRAMOPHONE_NETWORKS
/* Whoever did not load the trace is asked here whether it may be replayed. */
static TEE_Result choose(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    return and_then(invoke(command, types, params), admit);
}
#endif

#ifdef GRAMOPHONE_SCHEDULE
/* A piece of what waits. The version counts once this session's own replay is over. */
static TEE_Result step(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS])
{
    const TEE_Result result = invoke(command, types, params);
    return params[0].value.a ? result : and_then(result, rollback_raise);
}
#endif

static const struct {
    uint32_t types;
    TEE_Result (*run)(uint32_t command, uint32_t types, TEE_Param params[TEE_NUM_PARAMS]);
} commands[] = {
#define ROW(name, first, second, in_pta, here)                                                               \
    [GRAMOPHONE_##name] = {TEE_PARAM_TYPES(first, second, NONE, NONE), here},
#include "gramophone_commands.h"
};

TEE_Result TA_InvokeCommandEntryPoint(void *session __unused, uint32_t command, uint32_t types,
                                      TEE_Param params[TEE_NUM_PARAMS])
{
    if (command >= sizeof commands / sizeof *commands || !commands[command].run)
        return TEE_ERROR_NOT_SUPPORTED;
    if (types != commands[command].types)
        return TEE_ERROR_BAD_PARAMETERS;
    return commands[command].run(command, types, params);
}

static bool client_allowed(const TEE_Identity *client)
{
    for (size_t i = 0; i < sizeof policy_clients / sizeof *policy_clients; i++) {
        const struct policy_client *known = &policy_clients[i];
        if (known->login == client->login &&
            (known->anyone || !TEE_MemCompare(&known->uuid, &client->uuid, sizeof client->uuid)))
            return true;
    }
    return false;
}

TEE_Result TA_OpenSessionEntryPoint(uint32_t types, TEE_Param params[TEE_NUM_PARAMS] __unused,
                                    void **session __unused)
{
    static const TEE_UUID uuid = GRAMOPHONE_PTA_UUID;
    TEE_Param none[TEE_NUM_PARAMS] = {0};
    TEE_Identity client = {0};
    uint32_t origin = 0;
    if (types != TEE_PARAM_TYPES(NONE, NONE, NONE, NONE))
        return TEE_ERROR_BAD_PARAMETERS;
    if (TEE_GetPropertyAsIdentity(TEE_PROPSET_CURRENT_CLIENT, "gpd.client.identity", &client) !=
            TEE_SUCCESS ||
        !client_allowed(&client))
        return TEE_ERROR_ACCESS_DENIED;
    TEE_Result result = TEE_OpenTASession(&uuid, TEE_TIMEOUT_INFINITE, types, none, &pta, &origin);
    if (result != TEE_SUCCESS)
        return result;
    result = log_tail_open(pta);
    if (result != TEE_SUCCESS)
        TEE_CloseTASession(pta);
    return result;
}

void TA_CloseSessionEntryPoint(void *session __unused)
{
    TEE_CloseTASession(pta);
    pta = TEE_HANDLE_NULL;
}

TEE_Result TA_CreateEntryPoint(void)
{
    return TEE_SUCCESS;
}

void TA_DestroyEntryPoint(void) {}
