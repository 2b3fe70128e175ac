/* SPDX-License-Identifier: BSD-2-Clause */
/* What the programs for the normal world share. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include "gramophone_pta.h"
#include "normal_world.h"
#include "tee_client.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);

#define INVOKE(session, command, ...)                                                                        \
    tee_invoke(session, command, (struct tee_param[TEE_PARAMS]){__VA_ARGS__})

static inline volatile uint32_t *at(uint64_t address)
{
    return (volatile uint32_t *)(uintptr_t)address;
}

static inline void *mailbox(uint64_t offset)
{
    return (void *)(uintptr_t)(NORMAL_WORLD_MAILBOX + offset);
}

/* Open a session with the pseudo-TA. */
static inline uint32_t open_session(uint32_t *session)
{
    static const uint8_t uuid[16] = GRAMOPHONE_PTA_UUID_BYTES;
    return tee_open(uuid, session);
}

/* Send the request's signed trace, which fits one chunk. */
static inline uint32_t send_trace(uint32_t session, const struct mailbox_request *request)
{
    const uint32_t result = INVOKE(session, GRAMOPHONE_LOAD_BEGIN, {TEE_VALUE_IN, request->trace_bytes, 0});
    memcpy(tee_chunk(), mailbox(request->trace_offset), request->trace_bytes);
    return result ? result
                  : INVOKE(session, GRAMOPHONE_LOAD_DATA,
                           {TEE_MEMREF_IN, (uintptr_t)tee_chunk(), request->trace_bytes});
}

/* Leave a program's answer, which begins with a struct mailbox_response, to the test. */
static inline void leave(const void *answer, size_t bytes)
{
    memcpy(mailbox(MAILBOX_RESPONSE_AT), answer, bytes);
}

/* Defines what an exception does: the program ends, and its syndrome is the answer's result. */
#define LEAVE_ON_EXCEPTION(answer)                                                                           \
    int normal_world_exception(uint64_t address, uint64_t syndrome)                                          \
    {                                                                                                        \
        (void)address;                                                                                       \
        (answer).result = (uint32_t)syndrome;                                                                \
        leave(&(answer), sizeof(answer));                                                                    \
        return 1;                                                                                            \
    }

#endif
