/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the pseudo-TA's commands. An input is a list of calls of 16 bytes: command, how, types (u16),
 * a (u32), b (u32), size of the buffer (u32). Calls that are not to be strange get the command's own types;
 * data that is sent is the sample trace, from where the transfer is.
 */
#include "pta.h"

enum { MOST_BUFFER = 1 << 16 };

static uint64_t sent;

static const uint16_t types_of[] = {0x1, 0x5, 0x0, 0x61, 0x51, 0x0, 0x61, 0x0, 0x6, 0x6, 0x0};
static bool loaded, computed;

static void invoke(void *session, const struct call *call)
{
    const uint32_t commands = sizeof types_of / sizeof *types_of;
    const uint32_t command = call->how & 1 ? call->command : call->command % commands;
    const uint32_t types = call->how & 2 || command >= commands ? call->types : types_of[command];
    TEE_Param params[TEE_NUM_PARAMS] = {0};
    uint8_t *buffers[TEE_NUM_PARAMS] = {0};
    size_t rooms[TEE_NUM_PARAMS] = {0};
    for (uint32_t i = 0; i < TEE_NUM_PARAMS; i++) {
        const uint32_t type = types >> 4 * i & 15;
        if (type <= 3) {
            params[i].value.a = call->a;
            params[i].value.b = call->b;
            continue;
        }
        rooms[i] = call->bytes % MOST_BUFFER;
        buffers[i] = malloc(rooms[i] ? rooms[i] : 1);
        PROMISE(buffers[i], "there is memory");
        memset(buffers[i], call->how, rooms[i]);
        if (command == GRAMOPHONE_LOAD_DATA && !(call->how & 4)) {
            const uint64_t left = sent < sizeof fuzz_trace ? sizeof fuzz_trace - sent : 0;
            memcpy(buffers[i], fuzz_trace + (left ? sent : 0), rooms[i] < left ? rooms[i] : left);
        }
        params[i].memref.buffer = buffers[i];
        if (!rooms[i]) /* as OP-TEE may give it */
            params[i].memref.buffer = NULL;
        params[i].memref.size = rooms[i];
    }
    const bool announces = command == GRAMOPHONE_LOAD_BEGIN && types == types_of[command];
    if (announces && !(call->how & 4)) {
        params[0].value.a = sizeof fuzz_trace;
        params[0].value.b = 0;
    }
    const TEE_Result result = fuzz_pta.invoke_command_entry_point(session, command, types, params);
    const bool good = result == TEE_SUCCESS;
    if (command >= commands || types != types_of[command]) {
        PROMISE(!good, "no command with other parameters succeeds");
    } else {
        for (uint32_t i = 0; i < TEE_NUM_PARAMS; i++)
            if ((types >> 4 * i & 15) == TEE_PARAM_TYPE_MEMREF_OUTPUT && good)
                PROMISE(params[i].memref.size <= rooms[i], "no answer is longer than its room");
        switch (command) {
        case GRAMOPHONE_LOAD_BEGIN:
            loaded = computed = false;
            sent = 0;
            break;
        case GRAMOPHONE_LOAD_DATA: sent += good ? rooms[0] : 0; break;
        case GRAMOPHONE_LOAD:
            if (result != TEE_ERROR_BAD_STATE) {
                loaded = good;
                computed = false;
            }
            break;
        case GRAMOPHONE_RUN:
            PROMISE(!good || loaded, "nothing runs that was not loaded");
            computed = good;
            break;
        case GRAMOPHONE_GET_OUTPUT: PROMISE(!good || computed, "no output that was not computed"); break;
        case GRAMOPHONE_UNLOAD: loaded = computed = false; break;
        case GRAMOPHONE_FORGET:
            PROMISE(!good || loaded, "nothing is forgotten of a trace that is not loaded");
            computed = false;
            break;
        case GRAMOPHONE_GET_LOG: break;
        default: PROMISE(!good || loaded, "nothing is answered of a trace that is not loaded");
        }
    }
    for (uint32_t i = 0; i < TEE_NUM_PARAMS; i++)
        free(buffers[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    void *session = NULL, *second = NULL;
    TEE_Param none[TEE_NUM_PARAMS] = {0};
    reset_machine();
    loaded = computed = false;
    sent = 0;
    PROMISE(fuzz_pta.open_session_entry_point(0, none, &session) == TEE_SUCCESS, "a session opens");
    PROMISE(fuzz_pta.open_session_entry_point(0, none, &second) == TEE_ERROR_BUSY, "one session at a time");
    for (size_t i = 0; i < size / CALL_BYTES && i < MOST_CALLS; i++) {
        struct call call;
        memcpy(&call, data + i * CALL_BYTES, sizeof call);
        invoke(session, &call);
    }
    fuzz_pta.close_session_entry_point(second);
    PROMISE(secure, "a session that did not open gives nothing back");
    fuzz_pta.close_session_entry_point(session);
    PROMISE(!secure, "the end of the session gives the GPU back");
    return 0;
}
