/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A normal world that has the GPU between sessions: it reads and writes the GPU's registers, has the secure
 * world replay a trace, and looks at the GPU again. The request's number of replays says when else it tries
 * to reach the GPU. The outcome stands after the mailbox's response (struct answer), for test_handover.py.
 */
#include "program.h"

enum { BETWEEN = 0, IN_SESSION = 1, FIREWALL = 2, CARVEOUT = 3, BUSY = 4 };
#define CARVEOUT_BASE UINT64_C(0xc0000000)
enum { GPU = 0x0b000000, FIREWALL_BASE = 0x0b020000 };
/* trace_format/gpus/v3d42.toml */
enum { HUB_IDENT1 = GPU + 0x000c, CORE_INT_MSK_STS = GPU + 0x405c, CORE_INT_MSK_CLR = GPU + 0x4064 };
enum { HUB_MMU_CTL = GPU + 0x1200, HUB_MMU_PT_PA_BASE = GPU + 0x1204, MMU_ON = 0x060d0c05 };
enum { CORE_CSD_STATUS = GPU + 0x4900, CORE_CSD_QUEUED_CFG0 = GPU + 0x4904, TABLE = 0x50000000 };

static struct {
    struct mailbox_response mailbox;
    uint32_t result, origin; /* of the first call that failed; or an exception's syndrome */
    uint32_t before, after;  /* the GPU's identity */
    uint32_t mask_reset, mask_before, mask_after; /* of its interrupts */
    uint32_t job_before, job_after;               /* whether it has one */
} answer;

static uint32_t replay(uint32_t session, const struct mailbox_request *request)
{
    uint32_t result = send_trace(session, request);
    if (!result)
        result = INVOKE(session, GRAMOPHONE_LOAD, {0});
    return result ? result : INVOKE(session, GRAMOPHONE_RUN, {0});
}

/* A job in an address space of the normal world; the test has the GPU never finish it. */
static void start_job(void)
{
    *at(HUB_MMU_PT_PA_BASE) = TABLE >> 12;
    *at(HUB_MMU_CTL) = MMU_ON;
    for (uint32_t i = 6; i; i--)
        *at(CORE_CSD_QUEUED_CFG0 + 4 * i) = 0;
    *at(CORE_CSD_QUEUED_CFG0) = 1 << 16;
    answer.job_before = *at(CORE_CSD_STATUS);
}

static uint32_t hand_over(const struct mailbox_request *request)
{
    uint32_t session, result;
    answer.before = *at(HUB_IDENT1);
    answer.mask_reset = *at(CORE_INT_MSK_STS);
    *at(CORE_INT_MSK_CLR) = 1;
    answer.mask_before = *at(CORE_INT_MSK_STS);
    if (request->repeat == BUSY)
        start_job();
    result = open_session(&session);
    if (!result)
        result = replay(session, request);
    if (request->repeat == IN_SESSION)
        *at(HUB_IDENT1);
    if (!result)
        result = tee_close(session);
    answer.after = *at(HUB_IDENT1);
    answer.mask_after = *at(CORE_INT_MSK_STS);
    answer.job_after = *at(CORE_CSD_STATUS);
    return result;
}

int normal_world(void)
{
    struct mailbox_request request;
    memcpy(&request, mailbox(0), sizeof request);
    if (request.repeat == FIREWALL)
        *at(FIREWALL_BASE) = 0;
    if (request.repeat == CARVEOUT)
        *at(CARVEOUT_BASE) = 0;
    answer.result = tee_start() ? hand_over(&request) : TEE_CALL_FAILED;
    answer.origin = tee_origin();
    leave(&answer, sizeof answer);
    return 0;
}

LEAVE_ON_EXCEPTION(answer)
