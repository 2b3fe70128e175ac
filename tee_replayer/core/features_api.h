/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of features, for callers and ports: what each adds to the interface, and to structures of it. A
 * feature that a replayer lacks adds nothing. core/features_hooks.h is the table for the core. */
#ifndef GRAMOPHONE_FEATURES_API_H
#define GRAMOPHONE_FEATURES_API_H

#include "../features/clock/clock_api.h"
#include "../features/encryption/encryption_api.h"
#include "../features/evidence/evidence_api.h"
#include "../features/networks/networks_api.h"
#include "../features/schedule/schedule_api.h"
#include "../features/steps/steps_api.h"
#include "../features/store/store_api.h"
#include "../features/streaming/streaming_api.h"
#include "../features/trust/trust_api.h"

/* Fields of struct gr_policy, gr_progress, gr_replayer. */
#define GR_POLICY_FIELDS GR_EVIDENCE_FIELDS
#define GR_PROGRESS_FIELDS GR_STEPS_FIELDS GR_STREAMING_PROGRESS_FIELDS
#define GR_REPLAYER_FIELDS                                                                                   \
    GR_TRUST_FIELDS GR_STORE_FIELDS GR_NETWORKS_FIELDS GR_ENCRYPTION_FIELDS GR_STREAMING_FIELDS              \
        GR_SCHEDULE_FIELDS GR_EVIDENCE_FIELDS

#endif
