/* SPDX-License-Identifier: BSD-2-Clause */
/* The normal world of the emulated machine: serves one request from the mailbox through the pseudo-TA. The
 * trace and the tensors go through shared memory in chunks; a trace that the pseudo-TA reads while it replays
 * stays in the mailbox, which is shared then. */
#include "normal_world.h"
#include "gramophone_pta.h"
#include "tee_client.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);

enum { EXIT_OK = 0, EXIT_REFUSED = 1, EXIT_EXCEPTION = 2 };
#define NOT_SUPPORTED 0xffff000au /* TEE_ERROR_NOT_SUPPORTED */

static const uint8_t *shared(uint64_t offset)
{
    return (const uint8_t *)(uintptr_t)(NORMAL_WORLD_MAILBOX + offset);
}

/* The parameter of LOAD and RUN: none, or the trace. */
static struct tee_param trace;

static uint32_t invoke_on_trace(uint32_t session, uint32_t command)
{
    return tee_invoke(session, command, (struct tee_param[TEE_PARAMS]){trace});
}

static uint32_t load(uint32_t session, const struct mailbox_request *request)
{
    uint32_t result = tee_invoke(session, GRAMOPHONE_LOAD_BEGIN,
                                 (struct tee_param[TEE_PARAMS]){{TEE_VALUE_IN, (uint32_t)request->trace_bytes,
                                                                 request->trace_bytes >> 32}});
    if (result == NOT_SUPPORTED) {
        const uint64_t pages = tee_pages(shared(request->trace_offset), request->trace_bytes);
        trace = (struct tee_param){TEE_PAGES_IN, pages, request->trace_bytes};
        return pages ? invoke_on_trace(session, GRAMOPHONE_LOAD) : TEE_CALL_FAILED;
    }
    for (uint64_t done = 0; !result && done < request->trace_bytes; done += TEE_CHUNK_BYTES) {
        const uint64_t left = request->trace_bytes - done;
        const uint64_t bytes = left < TEE_CHUNK_BYTES ? left : TEE_CHUNK_BYTES;
        memcpy(tee_chunk(), shared(request->trace_offset + done), bytes);
        result = tee_invoke(session, GRAMOPHONE_LOAD_DATA,
                            (struct tee_param[TEE_PARAMS]){{TEE_MEMREF_IN, (uintptr_t)tee_chunk(), bytes}});
    }
    return result ? result : invoke_on_trace(session, GRAMOPHONE_LOAD);
}

/* Pass an input on, or an output back. */
static uint32_t transfer(uint32_t session, const struct mailbox_buffer *buffer, bool output)
{
    uint32_t result = 0;
    for (uint64_t done = 0; !result && done < buffer->bytes; done += TEE_CHUNK_BYTES) {
        uint8_t *data = (uint8_t *)(uintptr_t)shared(buffer->offset + done);
        const uint64_t left = buffer->bytes - done;
        const uint64_t bytes = left < TEE_CHUNK_BYTES ? left : TEE_CHUNK_BYTES;
        struct tee_param params[TEE_PARAMS] = {
            {TEE_VALUE_IN, buffer->slot, done},
            {output ? TEE_MEMREF_OUT : TEE_MEMREF_IN, (uintptr_t)tee_chunk(), bytes}};
        if (!output)
            memcpy(tee_chunk(), data, bytes);
        result = tee_invoke(session, output ? GRAMOPHONE_GET_OUTPUT : GRAMOPHONE_SET_INPUT, params);
        if (output && !result)
            memcpy(data, tee_chunk(), bytes);
    }
    return result;
}

/* All the request's buffers whose slots are outputs, or are not, for a replay: what is the same in all of
 * them goes in before the first and out after the last. */
static uint32_t transfer_all(uint32_t session, const struct mailbox_request *request, uint32_t replay,
                             bool output)
{
    uint32_t result = 0;
    const bool is_end = output ? replay + 1 >= request->repeat : !replay;
    for (uint32_t i = 0; !result && i < request->buffer_count; i++) {
        struct mailbox_buffer buffer;
        struct gramophone_slot slot;
        memcpy(&buffer, shared(sizeof(struct mailbox_request) + i * sizeof buffer), sizeof buffer);
        if (!buffer.step && !is_end)
            continue;
        buffer.offset += (uint64_t)buffer.step * replay;
        result =
            tee_invoke(session, GRAMOPHONE_DESCRIBE,
                       (struct tee_param[TEE_PARAMS]){{TEE_VALUE_IN, buffer.slot, 0},
                                                      {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof slot}});
        if (result)
            break;
        memcpy(&slot, tee_chunk(), sizeof slot);
        if ((slot.kind == GRAMOPHONE_OUTPUT) == output)
            result = transfer(session, &buffer, output);
    }
    return result;
}

static uint32_t serve(uint32_t session, const struct mailbox_request *request, uint64_t *replays)
{
    uint32_t result = load(session, request);
    for (uint32_t i = 0; !result && i < request->repeat; i++) {
        result = transfer_all(session, request, i, false);
        if (!result)
            result = invoke_on_trace(session, GRAMOPHONE_RUN);
        *replays += !result;
        if (!result)
            result = transfer_all(session, request, i, true);
    }
    return result;
}

static void get_log(uint32_t session, struct gr_report *report)
{
    struct tee_param params[TEE_PARAMS] = {{TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof *report}};
    if (!tee_invoke(session, GRAMOPHONE_GET_LOG, params))
        memcpy(report, tee_chunk(), sizeof *report);
}

int normal_world(void)
{
    static const uint8_t uuid[16] = GRAMOPHONE_PTA_UUID_BYTES;
    struct normal_world_response response = {.result = TEE_CALL_FAILED};
    struct mailbox_request request;
    uint32_t session;
    memcpy(&request, shared(0), sizeof request);
    if (tee_start())
        response.result = tee_open(uuid, &session);
    response.origin = tee_origin();
    if (!response.result) {
        response.result = serve(session, &request, &response.mailbox.replays);
        response.origin = tee_origin();
        get_log(session, &response.mailbox.report);
        tee_close(session);
    }
    response.mailbox.magic = MAILBOX_RESPONSE_MAGIC;
    memcpy((uint8_t *)(uintptr_t)shared(MAILBOX_RESPONSE_AT), &response, sizeof response);
    return response.result ? EXIT_REFUSED : EXIT_OK;
}

int normal_world_exception(uint64_t address, uint64_t syndrome)
{
    (void)address, (void)syndrome;
    return EXIT_EXCEPTION;
}
