/* SPDX-License-Identifier: BSD-2-Clause */
/* The highest version of each trace that was loaded, in the TEE's secure storage. */
#ifndef GRAMOPHONE_ROLLBACK_H
#define GRAMOPHONE_ROLLBACK_H

#include <tee_internal_api.h>

#include "gramophone_trace.h"

/* TEE_SUCCESS, and the version of this trace's name is now the highest; or GRAMOPHONE_TA_ERROR_OLDER or
 * GRAMOPHONE_TA_ERROR_COUNTER, and nothing has changed. */
TEE_Result rollback_check(const struct gr_manifest *manifest);

#endif
