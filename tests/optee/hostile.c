/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world that has the pseudo-TA load many traces in one session, and run those that the table says.
 * test_hostile.py puts the table into the mailbox's memory, and reads the verdicts there.
 */
#include "program.h"

#define TABLE_AT UINT64_C(0x1000000)
#define VERDICTS_AT UINT64_C(0x800000)
enum { INPUT = 0 };

struct row {
    uint64_t trace_at, trace_bytes; /* from the mailbox */
    uint64_t input_at, input_bytes; /* of the first slot; 0: it is given nothing */
    uint64_t run;                   /* whether to replay what loads */
};

struct verdict {
    uint32_t result; /* TEE_Result of the last call */
    uint32_t reserved;
    struct gr_report report;
};

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin; /* of what must succeed */
    uint32_t count;
} answer;

static uint32_t judge(uint32_t session, const struct row *row)
{
    const struct mailbox_request request = {.trace_offset = row->trace_at, .trace_bytes = row->trace_bytes};
    answer.result = send_trace(session, &request);
    uint32_t result = answer.result ? answer.result : INVOKE(session, GRAMOPHONE_LOAD, {0});
    if (!result && row->input_bytes) {
        memcpy(tee_chunk(), mailbox(row->input_at), row->input_bytes);
        result = INVOKE(session, GRAMOPHONE_SET_INPUT, {TEE_VALUE_IN, INPUT, 0},
                        {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), row->input_bytes});
    }
    if (!result && row->run)
        result = INVOKE(session, GRAMOPHONE_RUN, {0});
    return result;
}

static void get_log(uint32_t session, struct gr_report *report)
{
    if (!answer.result)
        answer.result =
            INVOKE(session, GRAMOPHONE_GET_LOG, {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof *report});
    memcpy(report, tee_chunk(), sizeof *report);
}

int normal_world(void)
{
    uint64_t count;
    uint32_t session;
    const struct row *rows = mailbox(TABLE_AT + sizeof count);
    struct verdict *verdicts = mailbox(VERDICTS_AT);
    memcpy(&count, mailbox(TABLE_AT), sizeof count);
    answer.result = tee_start() ? open_session(&session) : TEE_CALL_FAILED;
    for (; !answer.result && answer.count < count; answer.count++) {
        struct verdict *verdict = &verdicts[answer.count];
        verdict->result = judge(session, &rows[answer.count]);
        get_log(session, &verdict->report);
        if (!answer.result)
            answer.result = INVOKE(session, GRAMOPHONE_UNLOAD, {0});
    }
    answer.origin = tee_origin();
    if (!answer.result)
        answer.result = tee_close(session);
    leave(&answer, sizeof answer);
    return 0;
}

LEAVE_ON_EXCEPTION(answer)
