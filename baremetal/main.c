/* The firmware's program: one request from the mailbox, one answer. */
#include "board.h"
#include "mailbox.h"
#include "replayer.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);

_Noreturn void gr_main(void);
_Noreturn void gr_exception(uint64_t syndrome, uint64_t address, uint64_t fault_address);

enum { EXIT_OK = 0, EXIT_REFUSED = 1, EXIT_EXCEPTION = 2 };

static struct mailbox_request request;
static struct gr_replayer replayer;

static uint8_t *shared(uint64_t offset)
{
    return (uint8_t *)(uintptr_t)(GR_MAILBOX_BASE + offset);
}

/* Whether data lies in the mailbox's memory, behind the response. */
static bool is_shared(uint64_t offset, uint64_t bytes)
{
    return offset >= MAILBOX_DATA_AT && offset <= GR_MAILBOX_BYTES && bytes <= GR_MAILBOX_BYTES - offset;
}

static bool read_trace(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    if (offset > request.trace_bytes || bytes > request.trace_bytes - offset)
        return false;
    memcpy(to, shared(request.trace_offset + offset), bytes);
    return true;
}

static enum gr_status bind(void)
{
    for (uint32_t i = 0; i < request.buffer_count; i++) {
        const struct mailbox_buffer *buffer = &request.buffers[i];
        replayer.report.offset = buffer->slot;
        if (buffer->reserved || !is_shared(buffer->offset, buffer->bytes))
            return GR_STATUS_REQUEST;
        const enum gr_status status = gr_bind(&replayer, buffer->slot, shared(buffer->offset), buffer->bytes);
        if (status != GR_STATUS_OK)
            return status;
    }
    return GR_STATUS_OK;
}

/* Serve the request; the number of replays done. */
static uint32_t serve(void)
{
    memcpy(&request, shared(0), sizeof request);
    struct gr_report *report = &replayer.report;
    if (request.magic != MAILBOX_REQUEST_MAGIC || request.buffer_count > MAILBOX_BUFFERS ||
        !is_shared(request.trace_offset, request.trace_bytes)) {
        report->status = GR_STATUS_REQUEST;
        return 0;
    }
    const struct gr_memory memory = {(uint8_t *)(uintptr_t)GR_CARVEOUT_BASE, GR_CARVEOUT_BASE,
                                     GR_CARVEOUT_BYTES};
    const struct gr_source source = {read_trace, NULL};
    const struct gr_policy policy = {gr_device_key, gr_device_key_id, GR_MIN_SECURITY_VERSION};
    uint32_t replays = 0;
    if (gr_load(&replayer, &memory, &source, request.trace_bytes, &policy) == GR_STATUS_OK) {
        report->status = bind();
        while (report->status == GR_STATUS_OK && replays < request.repeat) {
            if (gr_run(&replayer) == GR_STATUS_OK)
                replays++;
        }
        gr_unload(&replayer);
    }
    return replays;
}

static void respond(uint32_t replays)
{
    struct mailbox_response *response = (struct mailbox_response *)(void *)shared(MAILBOX_RESPONSE_AT);
    response->replays = replays;
    response->report = replayer.report;
    __asm__ volatile("dsb sy" ::: "memory");
    *(volatile uint64_t *)&response->magic = MAILBOX_RESPONSE_MAGIC;
}

_Noreturn void gr_main(void)
{
    const uint32_t replays = serve();
    respond(replays);
    const enum gr_status status = replayer.report.status;
    gr_exit("status", (uint32_t)status, status == GR_STATUS_OK ? EXIT_OK : EXIT_REFUSED);
}

_Noreturn void gr_exception(uint64_t syndrome, uint64_t address, uint64_t fault_address)
{
    (void)fault_address;
    gr_exit(syndrome >> 26 == 0x25 ? "data abort at" : "exception at", (uint32_t)address, EXIT_EXCEPTION);
}
