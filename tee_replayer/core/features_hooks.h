/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of features, for the core: where it calls each. A feature that a replayer lacks has empty hooks.
 */
#ifndef GRAMOPHONE_FEATURES_HOOKS_H
#define GRAMOPHONE_FEATURES_HOOKS_H

#include "../features/clock/clock.h"
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
#define GR_STREAM_FIELDS GR_ENCRYPTION_STREAM_FIELDS
#define GR_LOADER_FIELDS GR_ENCRYPTION_LOADER_FIELDS GR_TRUST_LOADER_FIELDS GR_STREAMING_LOADER_FIELDS

/* Flags of a trace's header that may be beside each other, and the flag that is alone. */
#define GR_BESIDE_FLAGS GR_ENCRYPTION_FLAG
#define GR_ALONE_FLAG (GR_NETWORKS_FLAG | GR_STREAMING_FLAG) /* a replayer has at most one of them */

/* A flag brings the head a fourth section, of this type; 0: it has three. */
#define GR_FOURTH_FLAGS (GR_BESIDE_FLAGS | GR_ALONE_FLAG)
#define GR_FOURTH_OF(flags)                                                                                  \
    ((flags)&GR_ENCRYPTION_FLAG  ? GR_SECTION_TYPE_ENCRYPTION                                                \
     : (flags)&GR_NETWORKS_FLAG  ? GR_SECTION_TYPE_NETWORKS                                                  \
     : (flags)&GR_STREAMING_FLAG ? GR_SECTION_TYPE_PIECES                                                    \
                                 : 0u)

#endif
