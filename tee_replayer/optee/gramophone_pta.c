/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pseudo-TA: parameters, and where data lies; its sessions are in gramophone_pta_sessions.c.
 * gramophone_pta.h says what its commands do.
 *
 * The core calls a pseudo-TA that is not TA_FLAG_CONCURRENT one command at a time. The carve-out's last part,
 * the staging area, is for the CPU only: the replayer gives the GPU addresses in its own part.
 */
#include "gramophone_pta.h"

#include <kernel/pseudo_ta.h>
#include <kernel/user_access.h>
#include <string.h>
#include <util.h>

#include "optee_port.h"

enum { SLOT_ALIGNMENT = 64 };

#define NONE TEE_PARAM_TYPE_NONE
#define VALUE TEE_PARAM_TYPE_VALUE_INPUT
#define VALUE_OUT TEE_PARAM_TYPE_VALUE_OUTPUT
#define IN TEE_PARAM_TYPE_MEMREF_INPUT
#define OUT TEE_PARAM_TYPE_MEMREF_OUTPUT

static struct {
    struct gr_replayer replayer;
    struct gr_memory memory; /* the replayer's part of the carve-out */
    uint8_t *staging;
    uint64_t signed_bytes;   /* of the trace that is being sent; 0: none is */
    uint64_t received_bytes; /* of it, in the staging area */
    uint64_t staged_bytes;   /* of the staging area that may not be zero */
    bool loaded;
#ifndef GRAMOPHONE_NETWORKS
    bool in_use, computed;
#endif
} device;

static TEE_Result result_of(enum gr_status status)
{
    return GRAMOPHONE_RESULT(status);
}

static void wipe_staging(void)
{
    memset(device.staging, 0, device.staged_bytes);
    device.staged_bytes = 0;
    device.signed_bytes = 0;
    device.received_bytes = 0;
}

static void unload(void)
{
    if (device.loaded)
        gr_unload(&device.replayer);
    device.loaded = false;
#ifndef GRAMOPHONE_NETWORKS
    device.computed = false;
#endif
    wipe_staging();
}

/* Where a slot's data lies in the staging area, and what slot it is; a slot's place depends only
 * on those before it. */
static TEE_Result find_slot(uint32_t slot, struct gr_slot_info *info, uint8_t **data)
{
    uint64_t at = 0;
    for (uint32_t i = 0;; i++) {
        if (!gr_slot_info(&device.replayer, i, info))
            return TEE_ERROR_ITEM_NOT_FOUND;
        if (info->bytes > GR_STAGING_BYTES - at)
            return TEE_ERROR_OUT_OF_MEMORY;
        *data = device.staging + at;
        if (i == slot)
            return TEE_SUCCESS;
        at += ROUNDUP(info->bytes, SLOT_ALIGNMENT);
    }
}

/* Give slots their places, and outputs their memory; no input has a value yet. */
static TEE_Result place_slots(uint32_t first, uint32_t end)
{
    for (uint32_t slot = first; slot < end; slot++) {
        struct gr_slot_info info;
        uint8_t *data = NULL;
        TEE_Result result = find_slot(slot, &info, &data);
        if (result == TEE_SUCCESS && info.kind == GRAMOPHONE_OUTPUT)
            result = result_of(gr_bind(&device.replayer, slot, data, info.bytes));
        else if (result == TEE_SUCCESS)
            result = result_of(gr_bind(&device.replayer, slot, NULL, 0));
        if (result != TEE_SUCCESS)
            return result;
        device.staged_bytes = (uint64_t)(data - device.staging) + info.bytes;
    }
    return TEE_SUCCESS;
}

static TEE_Result place_all_slots(void)
{
    return place_slots(0, gr_slot_count(&device.replayer));
}

/* Between secure memory and a parameter's, which may be a TA's: in a core with CFG_PAN that is another's. */
static void copy(void *to, const void *from, size_t bytes)
{
    if (!bytes)
        return; /* an empty parameter may have no address */
    enter_user_access();
    memcpy(to, from, bytes);
    exit_user_access();
}

static TEE_Result answer(TEE_Param *param, const void *data, size_t bytes)
{
    const size_t room = param->memref.size;
    param->memref.size = bytes;
    if (room < bytes)
        return TEE_ERROR_SHORT_BUFFER;
    copy(param->memref.buffer, data, bytes);
    return TEE_SUCCESS;
}

#ifdef GRAMOPHONE_LOG
#include "gramophone_pta_log.c"
#endif
#ifdef GRAMOPHONE_NETWORKS
#include "gramophone_pta_sharing.c"
#else
static bool is_senders(void)
{
    return true;
}
#endif

/* The slot that a command's first parameter names, and where in its data the offset there leads. */
static TEE_Result find_piece(const TEE_Param params[TEE_NUM_PARAMS], bool output, struct gr_slot_info *info,
                             uint8_t **piece)
{
    const uint64_t offset = params[0].value.b;
    TEE_Result result = TEE_ERROR_BAD_STATE;
    if (device.loaded)
        result = find_slot(params[0].value.a, info, piece);
#ifdef GRAMOPHONE_NETWORKS
    if (result == TEE_SUCCESS)
        result = check_slot(params[0].value.a);
#endif
    if (result == TEE_SUCCESS && ((info->kind == GRAMOPHONE_OUTPUT) != output || offset > info->bytes))
        result = TEE_ERROR_BAD_PARAMETERS;
    if (result == TEE_SUCCESS)
        *piece += offset;
    return result;
}

#ifdef GRAMOPHONE_STREAMING
#include "gramophone_pta_streaming.c"
#else
static TEE_Result load_begin(TEE_Param params[TEE_NUM_PARAMS])
{
    const uint64_t bytes = reg_pair_to_64(params[0].value.b, params[0].value.a);
#ifdef GRAMOPHONE_NETWORKS
    const TEE_Result result = begin_sending();
    if (result != TEE_SUCCESS)
        return result;
#endif
    unload();
    if (!bytes)
        return TEE_ERROR_BAD_PARAMETERS;
    if (bytes > GR_STAGING_BYTES)
        return TEE_ERROR_OUT_OF_MEMORY;
    device.signed_bytes = bytes;
    return TEE_SUCCESS;
}

static TEE_Result load_data(TEE_Param params[TEE_NUM_PARAMS])
{
    const size_t bytes = params[0].memref.size;
    if (!device.signed_bytes || !is_senders())
        return TEE_ERROR_BAD_STATE;
    if (bytes > device.signed_bytes - device.received_bytes)
        return TEE_ERROR_EXCESS_DATA;
    copy(device.staging + device.received_bytes, params[0].memref.buffer, bytes);
    device.received_bytes += bytes;
    device.staged_bytes = device.received_bytes;
    return TEE_SUCCESS;
}

static bool read_trace(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    if (offset > device.signed_bytes || bytes > device.signed_bytes - offset)
        return false;
    memcpy(to, device.staging + offset, bytes);
    return true;
}
#endif

static TEE_Result verify_and_load(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
#ifdef GRAMOPHONE_LOG
    struct gr_policy policy = gr_device_policy();
#else
    const struct gr_policy policy = gr_device_policy();
#endif
    const struct gr_source source = {read_trace, NULL};
    TEE_Result result = TEE_ERROR_BAD_STATE;
    if (!device.signed_bytes || device.received_bytes != device.signed_bytes || !is_senders())
        return TEE_ERROR_BAD_STATE;
#ifdef GRAMOPHONE_LOG
    if (!log_is_ready())
        return log_refuses();
    policy.log = &evidence.log;
#endif
#ifdef GRAMOPHONE_NETWORKS
    take_back(); /* its identity is read */
#endif
    result = result_of(gr_load(&device.replayer, &device.memory, &source, device.signed_bytes, &policy));
    device.loaded = result == TEE_SUCCESS;
#ifdef GRAMOPHONE_LOG
    result = log_append(device.loaded ? GR_LOG_KIND_LOAD : GR_LOG_KIND_REFUSAL, result);
    if (result != TEE_SUCCESS) {
        unload();
        return result;
    }
#endif
    wipe_staging();
    if (device.loaded)
        result = place_all_slots();
    if (result != TEE_SUCCESS)
        unload();
#ifdef GRAMOPHONE_NETWORKS
    end_sending();
#endif
    return result;
}

static TEE_Result describe(TEE_Param params[TEE_NUM_PARAMS])
{
    struct gr_slot_info info;
    struct gramophone_slot slot = {};
    if (!device.loaded)
        return TEE_ERROR_BAD_STATE;
    if (params[0].value.b)
        return TEE_ERROR_BAD_PARAMETERS;
    if (!gr_slot_info(&device.replayer, params[0].value.a, &info))
        return TEE_ERROR_ITEM_NOT_FOUND;
    memcpy(slot.name, info.name, sizeof info.name);
    slot.kind = info.kind;
    slot.dtype = info.dtype;
    slot.rank = info.rank;
    slot.bound = info.bound;
    memcpy(slot.dims, info.dims, sizeof slot.dims);
    slot.bytes = info.bytes;
    return answer(&params[1], &slot, sizeof slot);
}

static TEE_Result set_input(TEE_Param params[TEE_NUM_PARAMS])
{
    struct gr_slot_info info;
    uint8_t *piece = NULL;
    const uint64_t offset = params[0].value.b, bytes = params[1].memref.size;
    const TEE_Result result = find_piece(params, false, &info, &piece);
    if (result != TEE_SUCCESS)
        return result;
    if (bytes > info.bytes - offset)
        return TEE_ERROR_BAD_PARAMETERS;
    copy(piece, params[1].memref.buffer, bytes);
    if (offset + bytes < info.bytes)
        return TEE_SUCCESS;
    return result_of(gr_bind(&device.replayer, params[0].value.a, piece - offset, info.bytes));
}

#ifndef GRAMOPHONE_NETWORKS
static TEE_Result run(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    TEE_Result result = TEE_ERROR_BAD_STATE;
#ifdef GRAMOPHONE_LOG
    device.computed = false;
    if (device.loaded && !log_is_ready())
        return log_refuses();
#endif
    if (device.loaded)
        result = result_of(gr_run(&device.replayer));
#ifdef GRAMOPHONE_LOG
    if (device.loaded)
        result = log_append(GR_LOG_KIND_REPLAY, result);
#endif
    device.computed = result == TEE_SUCCESS;
    return result;
}

static bool has_computed(uint32_t slot __unused)
{
    return device.computed;
}
#endif

static TEE_Result get_output(TEE_Param params[TEE_NUM_PARAMS])
{
    struct gr_slot_info info;
    uint8_t *piece = NULL;
    const TEE_Result result = find_piece(params, true, &info, &piece);
    if (result != TEE_SUCCESS)
        return result;
    if (!has_computed(params[0].value.a))
        return TEE_ERROR_BAD_STATE;
    return answer(&params[1], piece, MIN(params[1].memref.size, info.bytes - params[0].value.b));
}

#ifndef GRAMOPHONE_NETWORKS
static TEE_Result forget(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    if (!device.loaded)
        return TEE_ERROR_BAD_STATE;
    device.computed = false;
    memset(device.staging, 0, device.staged_bytes);
    gr_restart(&device.replayer);
#ifdef GRAMOPHONE_LOG
    log_forget_replay();
#endif
    return place_all_slots();
}

static TEE_Result unload_command(TEE_Param params[TEE_NUM_PARAMS] __unused)
{
    unload();
    return TEE_SUCCESS;
}

static const struct gr_report *last_report(void)
{
    return &device.replayer.report;
}
#endif

static TEE_Result get_log(TEE_Param params[TEE_NUM_PARAMS])
{
    if (!last_report()->status)
        return TEE_ERROR_BAD_STATE;
    return answer(&params[0], last_report(), sizeof *last_report());
}

static TEE_Result describe_trace(TEE_Param params[TEE_NUM_PARAMS])
{
    if (!device.loaded)
        return TEE_ERROR_BAD_STATE;
    return answer(&params[0], device.replayer.manifest, GR_MANIFEST_BYTES);
}

#ifdef GRAMOPHONE_TRUST
static TEE_Result trust_version(TEE_Param params[TEE_NUM_PARAMS])
{
    if (!device.loaded)
        return TEE_ERROR_BAD_STATE;
    return answer(&params[0], &device.replayer.trust_version, sizeof device.replayer.trust_version);
}
#endif

static const struct {
    uint32_t types;
    TEE_Result (*run)(TEE_Param params[TEE_NUM_PARAMS]);
} commands[] = {
#define ROW(name, first, second, here, in_ta)                                                                \
    [GRAMOPHONE_##name] = {TEE_PARAM_TYPES(first, second, NONE, NONE), here},
#include "gramophone_commands.h"
};

static TEE_Result invoke_command(void *session __maybe_unused, uint32_t command, uint32_t types,
                                 TEE_Param params[TEE_NUM_PARAMS])
{
    if (command >= ARRAY_SIZE(commands) || !commands[command].run)
        return TEE_ERROR_NOT_SUPPORTED;
    if (types != commands[command].types)
        return TEE_ERROR_BAD_PARAMETERS;
#ifdef GRAMOPHONE_NETWORKS
    sharing.caller = session;
#endif
    return commands[command].run(params);
}

#include "gramophone_pta_sessions.c"

/* cppcheck-suppress syntaxError ; a macro of OP-TEE's */
pseudo_ta_register(.uuid = GRAMOPHONE_PTA_UUID, .name = "gramophone.pta", .flags = PTA_DEFAULT_FLAGS,
                   .open_session_entry_point = open_session, .close_session_entry_point = close_session,
                   .invoke_command_entry_point = invoke_command);
