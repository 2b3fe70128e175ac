/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TA that applications call: for clients. It takes the pseudo-TA's commands (gramophone_pta.h) and passes
 * them on, where policy.h allows. Results of its own:
 *   TEE_ERROR_ACCESS_DENIED      of opening a session: policy_clients does not name this client; of LOG_OPEN,
 *                                LOG_TAIL and TRUST_VERSION: they are for the TA
 *   GRAMOPHONE_TA_ERROR_OLDER    of LOAD and CHOOSE: a newer version of this trace has been replayed before
 *   GRAMOPHONE_TA_ERROR_TRACE    of LOAD and CHOOSE: policy_traces does not name this trace
 *   GRAMOPHONE_TA_ERROR_COUNTER  of LOAD, CHOOSE, RUN and STEP: the version replayed before cannot be read,
 *                                or this one written: no secure storage
 *   GRAMOPHONE_TA_ERROR_POLICY   of LOAD and CHOOSE, on a device with a trust policy: a trace has been
 *                                replayed under a newer version of it
 *   GRAMOPHONE_TA_ERROR_LOG      of opening a session, LOAD, RUN, GET_ENTRIES and ATTEST_NONCE, on a device
 *                                with a replay log: where it ends cannot be read or written
 *
 * After these results of LOAD, CHOOSE, RUN and STEP the session has nothing loaded.
 */
#ifndef GRAMOPHONE_TA_H
#define GRAMOPHONE_TA_H

#include "gramophone_pta.h"

/* In the range of GRAMOPHONE_RESULT, and equal to that of no status. */
#define GRAMOPHONE_TA_ERROR_OLDER 0x85a10001u
#define GRAMOPHONE_TA_ERROR_TRACE 0x85a10002u
#define GRAMOPHONE_TA_ERROR_COUNTER 0x85a10003u
#define GRAMOPHONE_TA_ERROR_LOG 0x85a10004u
#define GRAMOPHONE_TA_ERROR_POLICY 0x85a10005u

#endif
