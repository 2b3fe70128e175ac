/* SPDX-License-Identifier: BSD-2-Clause */
/* The firmware's program: one request from the mailbox, one answer. */
#include "gramophone_mailbox.h"
#include "port.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);

_Noreturn void gr_main(void);
_Noreturn void gr_exception(uint64_t address, uint64_t earlier);
uint64_t gr_stack_excess(void);

static const struct gr_memory memory = {(uint8_t *)(uintptr_t)GR_CARVEOUT_BASE, GR_CARVEOUT_BASE,
                                        GR_CARVEOUT_BYTES};

/* The mailbox; with an MMU, not at its physical address. */
static uint8_t *shared(uint64_t offset)
{
    return (uint8_t *)(uintptr_t)(GR_MAILBOX_AT + offset);
}

/* Whether data lies in the mailbox's memory, after the response. */
static bool is_shared(uint64_t offset, uint64_t bytes)
{
    return offset >= MAILBOX_DATA_AT && offset <= GR_MAILBOX_BYTES && bytes <= GR_MAILBOX_BYTES - offset;
}

static bool read_trace(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    const struct mailbox_request *request = ctx;
    if (offset > request->trace_bytes || bytes > request->trace_bytes - offset)
        return false;
    memcpy(to, shared(request->trace_offset + offset), bytes);
    return true;
}

/* Copy one of the mailbox's buffers. */
static void read_buffer(struct mailbox_buffer *to, uint32_t index)
{
    memcpy(to, shared(sizeof(struct mailbox_request) + index * sizeof *to), sizeof *to);
}

#ifdef GRAMOPHONE_SCHEDULE
#include "requests.c"
#else
/* Bind what a replay takes and gives; after the first one, what is not the same again. */
static bool bind(struct gr_replayer *replayer, uint32_t count, uint32_t replay)
{
    for (uint32_t i = 0; i < count; i++) {
        struct mailbox_buffer b;
        read_buffer(&b, i);
#ifdef GRAMOPHONE_LOG
        if (b.slot >= MAILBOX_LOG && b.slot <= MAILBOX_ATTESTATION)
            continue; /* evidence.c has its own copy */
#endif
        if (replay && !b.step)
            continue;
        b.offset += (uint64_t)b.step * replay; /* wherever that leads, it is looked at next */
        if (!is_shared(b.offset, b.bytes) ||
            gr_bind(replayer, b.slot, shared(b.offset), b.bytes) != GR_STATUS_OK) {
            replayer->report.status = GR_STATUS_REQUEST;
            return false;
        }
    }
    return true;
}
#endif

/* Serve the request; the number of replays done. */
#ifdef GRAMOPHONE_LOG
#include "evidence.c"
#else
#ifndef GRAMOPHONE_SCHEDULE
/* Replay as often as is asked; the number of replays done. */
static uint32_t replay(struct gr_replayer *replayer, const struct mailbox_request *request)
{
    uint32_t replays = 0;
    while (replays < request->repeat && bind(replayer, request->buffer_count, replays) &&
           gr_run(replayer) == GR_STATUS_OK)
        replays++;
    return replays;
}
#endif
static uint32_t serve(struct gr_replayer *replayer, struct mailbox_request *request)
{
    const struct gr_policy policy = gr_device_policy();
    const struct gr_source source = {read_trace, request};
    if (gr_load(replayer, &memory, &source, request->trace_bytes, &policy) != GR_STATUS_OK)
        return 0;
    gr_accept(true);
    const uint32_t replays = replay(replayer, request);
    gr_unload(replayer);
    return replays;
}
#endif

/* The same, with the GPU switched on before and off after. */
static uint32_t serve_with_power(struct gr_replayer *replayer, struct mailbox_request *request)
{
    uint32_t replays = 0, failed = gr_board_gpu_on();
    if (!failed)
        replays = serve(replayer, request);
    else
        replayer->report = (struct gr_report){0};
    const uint32_t failed_off = gr_board_gpu_off();
    failed = failed ? failed : failed_off;
    if (failed) {
        replayer->report.status = GR_STATUS_POWER;
        replayer->report.offset = failed;
    }
    return replays;
}

_Noreturn void gr_main(void)
{
    struct gr_replayer replayer;
    struct mailbox_request request;
    struct mailbox_response *response = (struct mailbox_response *)(void *)shared(MAILBOX_RESPONSE_AT);
    gr_accept(false);
    gr_board_start();
#ifdef GR_MMU
    gr_mmu_on();
#endif
    memcpy(&request, shared(0), sizeof request);
    if (request.magic == MAILBOX_REQUEST_MAGIC && request.buffer_count <= MAILBOX_BUFFERS &&
        is_shared(request.trace_offset, request.trace_bytes))
        response->replays = serve_with_power(&replayer, &request);
    else
        replayer.report = (struct gr_report){.status = GR_STATUS_REQUEST};
    if (gr_stack_excess())
        gr_exception(0, 0);
#ifdef GRAMOPHONE_LOG
    /* A fault may have sent a branch into the middle of serve, past all that loads a trace. */
    if (!gr_is_accepted()) {
        response->replays = 0;
        if (replayer.report.status == GR_STATUS_OK)
            replayer.report.status = GR_STATUS_LOG;
    }
#endif
    response->report = replayer.report;
    __asm__ volatile("dsb sy" ::: "memory");
    *(volatile uint64_t *)&response->magic = MAILBOX_RESPONSE_MAGIC;
    const enum gr_status status = replayer.report.status;
    gr_exit('=', (uint32_t)status, status == GR_STATUS_OK ? EXIT_OK : EXIT_REFUSED);
}

/* Whatever was going on, nothing of it stays: the GPU is reset if it was used, the carve-out wiped. An
 * exception in that, on a board whose GPU has no power, ends here at once. */
_Noreturn void gr_exception(uint64_t address, uint64_t earlier)
{
    if (!earlier) {
        struct gr_replayer all = {.memory = memory, .high = memory.base, .touched = gr_is_accepted()};
        gr_unload(&all);
    }
    gr_exit('!', (uint32_t)(earlier ? earlier : address), EXIT_EXCEPTION);
}
