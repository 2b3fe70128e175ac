/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the request in a bare-metal firmware's mailbox (baremetal/main.c). An input is what the
 * mailbox holds: the request, its buffers, and, where the request's magic is followed by zeros, a sample
 * trace.
 */
#include "device.h"
#include "gramophone_mailbox.h"
#include "port.h"

#ifdef GRAMOPHONE_LOG
#include "log_port.h"
#else
static void fuzz_evidence_begin(uint32_t fails_at)
{
    (void)fails_at;
}
static void fuzz_evidence_end(const uint8_t *mailbox, bool done, uint64_t replays)
{
    (void)mailbox, (void)done, (void)replays;
}
#endif

#include <setjmp.h>
#include <sys/mman.h>

enum { TRACE_PLACE = 0x4000, PAGE = 4096 };

static jmp_buf end;
static uint32_t exits;
static bool powered;

_Noreturn void gr_main(void);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

void gr_board_start(void) {}

uint64_t gr_stack_excess(void);
uint64_t gr_stack_excess(void)
{
    return 0;
}

#ifdef GRAMOPHONE_LOG
void gr_wipe_stack(void) {}
#endif

uint32_t gr_board_gpu_on(void)
{
    powered = device_state.may_use = true;
    return 0;
}

uint32_t gr_board_gpu_off(void)
{
    powered = device_state.may_use = false;
    return 0;
}

_Noreturn void gr_exit(char what, uint32_t number, uint32_t exit_status)
{
    (void)what, (void)number, (void)exit_status;
    exits++;
    longjmp(end, 1);
}

/* Pages at an address that the firmware was made for; nothing is next to them. */
static uint8_t *fenced(uint64_t address, size_t bytes)
{
    void *wanted = (void *)(uintptr_t)address;
    PROMISE(mmap(wanted, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1,
                 0) == wanted,
            "there is memory at the board's addresses");
    return wanted;
}

/* Each request with a deadline is one, and the first buffer, whatever it is. */
static uint64_t most_replays(const struct mailbox_request *request)
{
    uint64_t each = 1;
#ifdef GRAMOPHONE_SCHEDULE
    const struct mailbox_buffer *rows = (const struct mailbox_buffer *)(const void *)(request + 1);
    if (request->buffer_count && request->buffer_count <= MAILBOX_BUFFERS) {
        each = rows->slot < MAILBOX_REQUEST;
        for (uint32_t i = 0; i < request->buffer_count; i++)
            each += rows[i].slot >= MAILBOX_REQUEST;
    }
#endif
    return each * request->repeat;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t *mailbox, *carveout;
    if (!mailbox) {
        mailbox = fenced(GR_MAILBOX_AT, GR_MAILBOX_BYTES);
        carveout = fenced(GR_CARVEOUT_BASE, GR_CARVEOUT_BYTES);
    }
    memset(&device_state, 0, sizeof device_state);
    memset(mailbox, 0, GR_MAILBOX_BYTES);
    memset(carveout, 0, GR_CARVEOUT_BYTES);
    memcpy(mailbox + TRACE_PLACE, fuzz_trace, sizeof fuzz_trace);
    memcpy(mailbox, data, size < MAILBOX_RESPONSE_AT ? size : MAILBOX_RESPONSE_AT);
    struct mailbox_request *request = (struct mailbox_request *)(void *)mailbox;
    uint8_t *before = malloc(MAILBOX_RESPONSE_AT);
    PROMISE(before, "there is memory");
    exits = 0;
    fuzz_evidence_begin(request->repeat >> 2); /* of which only the lowest two bits count */
    request->repeat %= 4;
    memcpy(before, mailbox, MAILBOX_RESPONSE_AT);
    if (!setjmp(end))
        gr_main();
    const struct mailbox_response *response =
        (const struct mailbox_response *)(const void *)(mailbox + MAILBOX_RESPONSE_AT);
    const bool done = response->report.status == GR_STATUS_OK;
    PROMISE(exits == 1 && response->magic == MAILBOX_RESPONSE_MAGIC, "each request has one answer");
    PROMISE(!powered, "the GPU is off when the answer is there");
    PROMISE(response->replays <= most_replays(request), "no more replays than requested");
#ifndef GRAMOPHONE_SCHEDULE
    PROMISE(!done || response->replays == request->repeat, "an answer of success counts all replays");
#endif
    PROMISE(!memcmp(before, mailbox, MAILBOX_RESPONSE_AT), "the request stays as it is");
    fuzz_evidence_end(before, done, response->replays);
    free(before);
    uint8_t left = 0;
    for (size_t i = 0; i < GR_CARVEOUT_BYTES; i++)
        left |= carveout[i];
    PROMISE(!left, "the carve-out is wiped");
    return 0;
}
