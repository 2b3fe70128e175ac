/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A part of gramophone_pta.c, in a pseudo-TA that reads pieces of a trace while jobs run.
 *
 * The trace stays in memory that the client shares, and that the normal world can change at any time: LOAD
 * and RUN are told where it lies, for as long as they run. The core copies each chunk into the carve-out, and
 * hashes and uses the copy.
 */
static struct {
    const uint8_t *data;
    size_t bytes;
} shared; /* the trace, while a command runs that reads it */

static bool read_trace(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    if (offset > shared.bytes || bytes > shared.bytes - offset)
        return false;
    copy(to, shared.data + offset, bytes);
    return true;
}

static TEE_Result with_trace(TEE_Param params[TEE_NUM_PARAMS],
                             TEE_Result (*command)(TEE_Param params[TEE_NUM_PARAMS]))
{
    shared.data = params[0].memref.buffer;
    shared.bytes = params[0].memref.size;
    const TEE_Result result = command(params);
    memset(&shared, 0, sizeof shared); /* it is not mapped any more */
    return result;
}

static TEE_Result verify_and_load(TEE_Param params[TEE_NUM_PARAMS]);
static TEE_Result run(TEE_Param params[TEE_NUM_PARAMS]);

static TEE_Result verify_and_load_shared(TEE_Param params[TEE_NUM_PARAMS])
{
    unload();
    device.signed_bytes = params[0].memref.size;
    device.received_bytes = device.signed_bytes;
    return with_trace(params, verify_and_load);
}

static TEE_Result run_shared(TEE_Param params[TEE_NUM_PARAMS])
{
    return with_trace(params, run);
}
