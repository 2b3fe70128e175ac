/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world with two cores that shares a streamed trace with the pseudo-TA: while replays read pieces of
 * it, the second core changes a byte of each `repeat`-th page in turn. Before that, and with nobody racing,
 * RUN gets the memory changed, cut short, another memory, and none. The outcomes stand after the mailbox's
 * response (struct answer), for test_racing.py.
 */
#include "racing.h"

enum { PAGE_BYTES = 4096, MAX_PAGES = 64, TRIES = 400, INPUT = 0, OUTPUT = 1, TENSOR_BYTES = 64, CALM = 5 };

#define NEVER 0xffffffffu /* result of an outcome that no try had */

struct outcome {
    uint32_t result; /* of RUN */
    uint32_t output; /* result of GET_OUTPUT */
    uint32_t same;   /* 1: the output is that of the first replay */
    uint32_t piece;  /* of the report */
};

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin; /* of what must succeed */
    uint32_t count;          /* of pages */
    struct outcome calm[CALM], pages[MAX_PAGES][2];
} answer;

static uint8_t expected[TENSOR_BYTES];
static uint64_t pages;

static struct outcome replay(uint32_t session, struct tee_param trace)
{
    struct outcome found = {.same = 1};
    struct gr_report report;
    uint8_t *const output = tee_chunk();
    found.result = INVOKE(session, GRAMOPHONE_RUN, trace);
    found.output = INVOKE(session, GRAMOPHONE_GET_OUTPUT, {TEE_VALUE_IN, OUTPUT, 0},
                          {TEE_MEMREF_OUT, (uintptr_t)output, TENSOR_BYTES});
    for (uint32_t i = 0; i < TENSOR_BYTES; i++)
        found.same &= output[i] == expected[i];
    INVOKE(session, GRAMOPHONE_GET_LOG, {TEE_MEMREF_OUT, (uintptr_t)output, sizeof report});
    memcpy(&report, output, sizeof report);
    found.piece = report.offset;
    return found;
}

/* Replays while a byte changes, until one has ended well and one has not, or for so many tries. */
static void attack_page(uint32_t session, struct tee_param trace, uint8_t *target, struct outcome found[2])
{
    const uint8_t was = *target;
    bool seen[2] = {false, false};
    found[0].result = found[1].result = NEVER;
    for (uint32_t i = 0; i < TRIES && !(seen[0] && seen[1]); i++) {
        start_attack(target, i);
        const struct outcome one = replay(session, trace);
        end_attack();
        const bool bad = one.result != 0;
        if (!seen[bad] || one.same == bad)
            found[bad] = one;
        seen[bad] = true;
    }
    *target = was;
}

static void be_calm(uint32_t session, const struct mailbox_request *request, struct tee_param trace)
{
    uint8_t *const last = (uint8_t *)mailbox(request->trace_offset) + request->trace_bytes - PAGE_BYTES / 2;
    const struct tee_param cut = {trace.kind, trace.a, trace.b - PAGE_BYTES},
                           other = {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), request->trace_bytes},
                           none = {TEE_MEMREF_IN, 0, 0};
    *last ^= 1;
    answer.calm[0] = replay(session, trace);
    *last ^= 1;
    answer.calm[1] = replay(session, cut);
    answer.calm[2] = replay(session, other);
    answer.calm[3] = replay(session, none);
    answer.calm[4] = replay(session, trace);
}

static void race(const struct mailbox_request *request)
{
    uint32_t session = 0;
    answer.result = start_second_core();
    pages = tee_pages(mailbox(request->trace_offset), request->trace_bytes);
    const struct tee_param trace = {TEE_PAGES_IN, pages, request->trace_bytes};
    if (!answer.result)
        answer.result = open_session(&session);
    if (!answer.result)
        answer.result = INVOKE(session, GRAMOPHONE_LOAD, trace);
    if (!answer.result)
        answer.result = INVOKE(session, GRAMOPHONE_SET_INPUT, {TEE_VALUE_IN, INPUT, 0},
                               {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), TENSOR_BYTES});
    if (!answer.result)
        answer.result = replay(session, trace).output;
    INVOKE(session, GRAMOPHONE_GET_OUTPUT, {TEE_VALUE_IN, OUTPUT, 0},
           {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), TENSOR_BYTES});
    memcpy(expected, tee_chunk(), TENSOR_BYTES);
    if (answer.result)
        return;
    be_calm(session, request, trace);
    const uint64_t count = request->trace_bytes / PAGE_BYTES;
    for (; answer.count < count; answer.count += request->repeat)
        attack_page(session, trace, (uint8_t *)mailbox(request->trace_offset) + answer.count * PAGE_BYTES + 7,
                    answer.pages[answer.count]);
    answer.result = tee_close(session);
}

RACE(answer, race, (uint64_t)MAX_PAGES *PAGE_BYTES)
