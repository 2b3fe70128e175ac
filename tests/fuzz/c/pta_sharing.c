/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: sessions that share a joint trace through the pseudo-TA. An input is a list of calls of 16
 * bytes as those of pta.c; bits 4 and 5 of `how` say whose session, and command CLOSE ends it. The target
 * keeps a model of who has what, and of each network's data.
 */
#include "pta.h"

enum { MOST_BUFFER = 256, SESSIONS = 4, CLOSE = 0xff };
enum { NETWORKS = 2, SLOTS_EACH = 2, SLOT = 24, NOBODY = -1 };

static void *sessions[SESSIONS];
static int owner[NETWORKS], sender, chosen[SESSIONS];
static bool loaded, waits[NETWORKS], has_output[NETWORKS];
/* What was sent of an input, which counts once its last piece is there; before, a replay finds wiped memory.
 */
static uint8_t given[NETWORKS][SLOT], output[NETWORKS][SLOT];
static bool is_given[NETWORKS];

static const uint16_t types_of[] = {
    [GRAMOPHONE_LOAD_BEGIN] = 0x1,     [GRAMOPHONE_LOAD_DATA] = 0x5,   [GRAMOPHONE_DESCRIBE] = 0x61,
    [GRAMOPHONE_SET_INPUT] = 0x51,     [GRAMOPHONE_GET_OUTPUT] = 0x61, [GRAMOPHONE_GET_LOG] = 0x6,
    [GRAMOPHONE_DESCRIBE_TRACE] = 0x6, [GRAMOPHONE_CHOOSE] = 0x1,      [GRAMOPHONE_DESCRIBE_NETWORK] = 0x61,
    [GRAMOPHONE_SUBMIT] = 0x1,         [GRAMOPHONE_STEP] = 0x2,        [GRAMOPHONE_YIELD] = 0};

static bool exists(uint32_t command)
{
    return command <= GRAMOPHONE_FORGET ||
           (command >= GRAMOPHONE_CHOOSE && command < sizeof types_of / sizeof *types_of);
}

static void lose(int n)
{
    owner[n] = NOBODY;
    waits[n] = has_output[n] = is_given[n] = false;
    memset(given[n], 0, SLOT);
}

/* A session has nothing more. */
static void leave(int s)
{
    bool is_shared = false;
    if (sender != NOBODY && sender != s)
        return;
    sender = NOBODY;
    for (int n = 0; n < NETWORKS; n++) {
        if (owner[n] == s)
            lose(n);
        is_shared |= owner[n] != NOBODY;
    }
    loaded &= is_shared;
}

/* A replay is over. */
static void take_output(int n)
{
    waits[n] = false;
    has_output[n] = true;
    memset(output[n], 0, SLOT);
    if (is_given[n])
        memcpy(output[n], given[n], SLOT);
}

static int network_of(uint32_t slot)
{
    return slot < NETWORKS * SLOTS_EACH ? (int)(slot / SLOTS_EACH) : NOBODY;
}

static bool has(int s, int n)
{
    return n != NOBODY && owner[n] == s;
}

/* In which state a command may succeed. What a slot's command needs besides is in `follow`. */
enum state { ALWAYS, SENDS, IS_LOADED, HAS_CHOSEN };
static const enum state needs[] = {
    [GRAMOPHONE_LOAD_BEGIN] = ALWAYS,
    [GRAMOPHONE_LOAD_DATA] = SENDS,
    [GRAMOPHONE_LOAD] = SENDS,
    [GRAMOPHONE_DESCRIBE] = IS_LOADED,
    [GRAMOPHONE_SET_INPUT] = HAS_CHOSEN,
    [GRAMOPHONE_RUN] = HAS_CHOSEN,
    [GRAMOPHONE_GET_OUTPUT] = HAS_CHOSEN,
    [GRAMOPHONE_UNLOAD] = ALWAYS,
    [GRAMOPHONE_GET_LOG] = ALWAYS,
    [GRAMOPHONE_DESCRIBE_TRACE] = IS_LOADED,
    [GRAMOPHONE_FORGET] = HAS_CHOSEN,
    [GRAMOPHONE_CHOOSE] = IS_LOADED,
    [GRAMOPHONE_DESCRIBE_NETWORK] = IS_LOADED,
    [GRAMOPHONE_SUBMIT] = HAS_CHOSEN,
    [GRAMOPHONE_STEP] = HAS_CHOSEN,
    [GRAMOPHONE_YIELD] = HAS_CHOSEN,
};
_Static_assert(sizeof needs / sizeof *needs == sizeof types_of / sizeof *types_of,
               "every command has a state");

static bool may(int s, uint32_t command)
{
    switch (needs[command]) {
    case ALWAYS: return true;
    case SENDS: return sender == s;
    case IS_LOADED: return loaded;
    case HAS_CHOSEN: return loaded && has(s, chosen[s]);
    }
    return false;
}

/* What follows from a call that went well. */
static void follow(int s, uint32_t command, const TEE_Param given_params[], const TEE_Param *params)
{
    const uint32_t a = given_params[0].value.a, b = given_params[0].value.b;
    const int n = network_of(a), own = chosen[s];
    PROMISE(may(s, command), "a command succeeds in its state only");
    switch (command) {
    case GRAMOPHONE_LOAD_BEGIN:
        leave(s);
        PROMISE(!loaded && sender == NOBODY, "nobody's trace is taken away");
        sender = s;
        break;
    case GRAMOPHONE_LOAD_DATA: PROMISE(sender == s, "nobody adds to another's trace"); break;
    case GRAMOPHONE_LOAD:
        PROMISE(sender == s, "nobody loads another's trace");
        sender = NOBODY;
        loaded = true;
        owner[0] = s;
        chosen[s] = 0;
        break;
    case GRAMOPHONE_SET_INPUT:
        PROMISE(has(s, n) && !waits[n],
                "an input is set by whose network it is, and not while it is replayed");
        memcpy(given[n] + b, params[1].memref.buffer, params[1].memref.size);
        is_given[n] |= b + params[1].memref.size == SLOT;
        break;
    case GRAMOPHONE_GET_OUTPUT:
        PROMISE(has(s, n) && has_output[n], "an output goes to whose network it is, once it has been told");
        PROMISE(!memcmp(params[1].memref.buffer, output[n] + b, params[1].memref.size),
                "an output is that of its own session's input");
        break;
    case GRAMOPHONE_CHOOSE:
        PROMISE(loaded && a < NETWORKS && (owner[a] == NOBODY || owner[a] == s),
                "a network is one session's");
        owner[a] = s;
        chosen[s] = (int)a;
        break;
    case GRAMOPHONE_SUBMIT:
        PROMISE(has(s, own) && !waits[own], "a request is for one's own network, and one at a time");
        waits[own] = true;
        has_output[own] = false;
        break;
    case GRAMOPHONE_STEP:
        PROMISE(has(s, own) && waits[own], "only who has asked takes steps");
        if (!params[0].value.a)
            take_output(own);
        break;
    case GRAMOPHONE_RUN:
        PROMISE(has(s, own) && !waits[own], "a replay is one's own network's");
        take_output(own);
        break;
    case GRAMOPHONE_FORGET:
        for (int i = 0; i < NETWORKS; i++) {
            if (owner[i] != s)
                continue;
            lose(i);
            owner[i] = s;
        }
        break;
    case GRAMOPHONE_UNLOAD: leave(s); break;
    case GRAMOPHONE_YIELD:
    case GRAMOPHONE_GET_LOG: break;
    default: PROMISE(loaded, "nothing is answered of a trace that is not loaded");
    }
}

/* What follows from one that did not. */
static void follow_failure(int s, uint32_t command, TEE_Result result)
{
    const int own = chosen[s];
    if (command == GRAMOPHONE_LOAD_BEGIN && result != TEE_ERROR_BUSY) {
        leave(s);
        sender = s;
    }
    if (command == GRAMOPHONE_LOAD && sender == s && result != TEE_ERROR_BAD_STATE)
        sender = NOBODY;
    if (!has(s, own) || result == TEE_ERROR_BAD_STATE)
        return;
    if (command == GRAMOPHONE_RUN || command == GRAMOPHONE_STEP || command == GRAMOPHONE_SUBMIT) {
        waits[own] = false;
        has_output[own] = false;
    }
}

static void invoke(int s, const struct call *call)
{
    const uint32_t count = sizeof types_of / sizeof *types_of;
    const uint32_t command = call->how & 1 ? call->command : call->command % count;
    const uint32_t types = call->how & 2 || command >= count ? call->types : types_of[command];
    TEE_Param params[TEE_NUM_PARAMS] = {0}, before[TEE_NUM_PARAMS];
    uint8_t *buffers[TEE_NUM_PARAMS] = {0};
    for (uint32_t i = 0; i < TEE_NUM_PARAMS; i++) {
        const uint32_t type = types >> 4 * i & 15;
        if (type <= 3) {
            params[i].value.a = call->a;
            params[i].value.b = call->b;
            continue;
        }
        const size_t room = command == GRAMOPHONE_LOAD_DATA ? sizeof fuzz_trace : call->bytes % MOST_BUFFER;
        buffers[i] = malloc(room + 1);
        PROMISE(buffers[i], "there is memory");
        memset(buffers[i], call->how ^ (int)call->b, room);
        if (command == GRAMOPHONE_LOAD_DATA && !(call->how & 4))
            memcpy(buffers[i], fuzz_trace, sizeof fuzz_trace);
        params[i].memref.buffer = buffers[i];
        params[i].memref.size = room;
    }
    if (command == GRAMOPHONE_LOAD_BEGIN && types == types_of[command] && !(call->how & 4))
        params[0].value.a = sizeof fuzz_trace, params[0].value.b = 0;
    memcpy(before, params, sizeof before);
    for_a_while = command == GRAMOPHONE_YIELD;
    const TEE_Result result = fuzz_pta.invoke_command_entry_point(sessions[s], command, types, params);
    for_a_while = false;
    if (!exists(command) || types != types_of[command])
        PROMISE(result != TEE_SUCCESS, "no command with other parameters succeeds");
    else if (result == TEE_SUCCESS)
        follow(s, command, before, params);
    else
        follow_failure(s, command, result);
    for (uint32_t i = 0; i < TEE_NUM_PARAMS; i++)
        free(buffers[i]);
}

static void end(int s)
{
    fuzz_pta.close_session_entry_point(sessions[s]);
    if (!sessions[s])
        return;
    sessions[s] = NULL;
    leave(s);
    chosen[s] = 0;
}

static int count_open(void)
{
    int open = 0;
    for (int s = 0; s < SESSIONS; s++)
        open += sessions[s] != NULL;
    return open;
}

/* Open a session that is not; whether there is one. */
static bool begin(int s)
{
    TEE_Param none[TEE_NUM_PARAMS] = {0};
    const int open = count_open();
    if (sessions[s])
        return true;
    const TEE_Result result = fuzz_pta.open_session_entry_point(0, none, &sessions[s]);
    PROMISE(result == (open < NETWORKS ? TEE_SUCCESS : TEE_ERROR_BUSY), "as many sessions as networks");
    return result == TEE_SUCCESS;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    reset_machine();
    loaded = false;
    sender = NOBODY;
    for (int n = 0; n < NETWORKS; n++)
        lose(n);
    for (size_t i = 0; i < size / CALL_BYTES && i < MOST_CALLS; i++) {
        struct call call;
        memcpy(&call, data + i * CALL_BYTES, sizeof call);
        const int s = call.how >> 4 & 3;
        if (call.command == CLOSE)
            end(s);
        else if (begin(s))
            invoke(s, &call);
    }
    for (int s = 0; s < SESSIONS; s++)
        end(s);
    PROMISE(!secure, "the end of the last session gives the GPU back");
    check_wiped();
    return 0;
}
