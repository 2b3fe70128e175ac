/* SPDX-License-Identifier: BSD-2-Clause */
/* The highest version of each trace that was replayed, and of the trust policy, in the TEE's secure storage.
 */
#ifndef GRAMOPHONE_ROLLBACK_H
#define GRAMOPHONE_ROLLBACK_H

#include <tee_internal_api.h>

#include "gramophone_trace.h"

/* Whether the trace that has just been loaded is as new as the newest of its name: TEE_SUCCESS,
 * GRAMOPHONE_TA_ERROR_OLDER or GRAMOPHONE_TA_ERROR_COUNTER. Nothing is written: a trace that never replays
 * well does not lock out the one that it was to replace. */
TEE_Result rollback_check(const struct gr_manifest *manifest);

/* The same of the version of the trust policy under which it was accepted: TEE_SUCCESS,
 * GRAMOPHONE_TA_ERROR_POLICY or GRAMOPHONE_TA_ERROR_COUNTER. */
TEE_Result rollback_check_policy(uint32_t version);

/* What was checked last has been replayed, and well: TEE_SUCCESS, and its version is now the highest of its
 * name, and that of its policy the highest; or GRAMOPHONE_TA_ERROR_COUNTER, and the rest is as it was. */
TEE_Result rollback_raise(void);

#endif
