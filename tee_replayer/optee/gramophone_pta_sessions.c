/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of gramophone_pta.c: who may open a session, and what the GPU and the secure memory go through with
 * it.
 */
/* Under GR_TA_ONLY, so that the TA's policy cannot be bypassed. */
static bool caller_allowed(void)
{
#ifdef GR_TA_ONLY
    static const TEE_UUID ta = GRAMOPHONE_TA_UUID;
    const struct ts_session *caller = ts_get_calling_session();
    return caller && !memcmp(&caller->ctx->uuid, &ta, sizeof ta);
#else
    return true;
#endif
}

/* Have the GPU and the secure memory. */
static TEE_Result start(void)
{
    struct gr_memory carveout;
    if (!gr_optee_find(&carveout) || carveout.bytes <= GR_STAGING_BYTES)
        return TEE_ERROR_GENERIC;
    device.memory = carveout;
    device.memory.bytes -= GR_STAGING_BYTES;
    device.staging = carveout.base + device.memory.bytes;
    gr_optee_take();
    return SHARED_GPU && !gr_driver_reset(&device.replayer) ? TEE_ERROR_GENERIC : TEE_SUCCESS;
}

/* Nothing of what was loaded stays. */
static void stop(bool has_gpu)
{
    unload();
    /* A GPU that does not complete its reset stays here. */
    if (SHARED_GPU && has_gpu && gr_driver_reset(&device.replayer))
        gr_optee_give_back();
#ifdef GRAMOPHONE_LOG
    log_forget_trace();
#endif
    memset(&device, 0, sizeof device);
}

#ifdef GRAMOPHONE_NETWORKS
static TEE_Result open_place(void **session)
{
    bool is_first = false;
    struct client *client = find_place(&is_first);
    const TEE_Result result = !client ? TEE_ERROR_BUSY : is_first ? start() : TEE_SUCCESS;
    if (result != TEE_SUCCESS)
        return result;
    client->is_open = true;
    *session = client;
    return TEE_SUCCESS;
}

static void close_place(void *session)
{
    if (!leave(session))
        return;
    stop(!sharing.is_yielded);
    memset(&sharing, 0, sizeof sharing);
}
#else
static TEE_Result open_place(void **session)
{
    if (device.in_use)
        return TEE_ERROR_BUSY;
    const TEE_Result result = start();
    if (result != TEE_SUCCESS)
        return result;
    device.in_use = true;
    *session = &device;
    return TEE_SUCCESS;
}

static void close_place(void *session __unused)
{
    stop(true);
}
#endif

static TEE_Result open_session(uint32_t types, TEE_Param params[TEE_NUM_PARAMS] __unused, void **session)
{
    if (types != TEE_PARAM_TYPES(NONE, NONE, NONE, NONE))
        return TEE_ERROR_BAD_PARAMETERS;
    if (!caller_allowed())
        return TEE_ERROR_ACCESS_DENIED;
    return open_place(session);
}

/* The core also closes a session that did not open. */
static void close_session(void *session)
{
    if (session)
        close_place(session);
}
