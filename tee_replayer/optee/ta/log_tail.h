/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the pseudo-TA's replay log ends, in the TEE's secure storage (docs/LOG.md). */
#ifndef GRAMOPHONE_LOG_TAIL_H
#define GRAMOPHONE_LOG_TAIL_H

#include <tee_internal_api.h>

#include "gramophone_pta.h"

#ifdef GRAMOPHONE_LOG
/* Start this boot's log where the last one ended, unless it has been started. TEE_SUCCESS, or what the
 * pseudo-TA answers, or GRAMOPHONE_TA_ERROR_LOG. */
TEE_Result log_tail_open(TEE_TASessionHandle pta);

/* Keep where the log ends now: before anything that it is about goes out. TEE_SUCCESS or
 * GRAMOPHONE_TA_ERROR_LOG. */
TEE_Result log_tail_keep(TEE_TASessionHandle pta);
#else
static inline TEE_Result log_tail_open(TEE_TASessionHandle pta __unused)
{
    return TEE_SUCCESS;
}

static inline TEE_Result log_tail_keep(TEE_TASessionHandle pta __unused)
{
    return TEE_SUCCESS;
}
#endif

#endif
