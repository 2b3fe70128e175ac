/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of features, for the core: where it calls each. A feature that a replayer lacks has empty hooks.
 */
#ifndef GRAMOPHONE_FEATURES_HOOKS_H
#define GRAMOPHONE_FEATURES_HOOKS_H

#include "../features/clock/clock.h"
#include "../features/command_streams/command_streams.h"
#include "../features/encryption/encryption.h"
#include "../features/evidence/evidence.h"
#include "../features/networks/networks.h"
#include "../features/operators/operators.h"
#include "../features/schedule/schedule.h"
#include "../features/steps/steps.h"
#include "../features/store/store.h"
#include "../features/streaming/streaming.h"
#include "../features/trust/trust.h"

/* Fields of struct gr_stream, struct loader. */
#define GR_STREAM_FIELDS GR_ENCRYPTION_STREAM_FIELDS GR_STREAMING_STREAM_FIELDS
#define GR_LOADER_FIELDS GR_TRUST_LOADER_FIELDS GR_STREAMING_LOADER_FIELDS

/* Flags of a trace's header that bring the head a section each. */
#define GR_HEAD_FLAGS (GR_STREAMING_FLAG | GR_NETWORKS_FLAG | GR_ENCRYPTION_FLAG)

#endif
