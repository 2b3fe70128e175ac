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

/* Flags of a trace's header that may be beside each other. */
#define GR_BESIDE_FLAGS GR_ENCRYPTION_FLAG

/* The flag that is alone, of which a replayer has at most one: its section, which is taken after all else of
 * the head, and what then differs of it. */
#ifdef GRAMOPHONE_NETWORKS
#define GR_ALONE_FLAG GR_HEADER_FLAG_JOINT
#define GR_ALONE_SECTION GR_SECTION_TYPE_NETWORKS
#define gr_take_alone(l, rows, bytes)                                                                        \
    gr_take_networks((l)->r, GR_FOURTH(l) == GR_SECTION_TYPE_NETWORKS ? (rows) : NULL, bytes)
#define gr_alone_differences(l, rows, bytes) gr_network_differences((l)->r)
#else
#ifdef GRAMOPHONE_STREAMING
#define GR_ALONE_FLAG GR_HEADER_FLAG_STREAMED
#define GR_ALONE_SECTION GR_SECTION_TYPE_PIECES
#define gr_take_alone gr_take_pieces
#define gr_alone_differences gr_piece_differences
#else
#define GR_ALONE_FLAG 0u
#define GR_ALONE_SECTION 0u
#define gr_take_alone(l, rows, bytes) GR_STATUS_OK
#define gr_alone_differences(l, rows, bytes) UINT64_C(0)
#endif
#endif

/* A flag brings the head a fourth section, of this type; 0: it has three. */
#define GR_FOURTH_FLAGS (GR_BESIDE_FLAGS | GR_ALONE_FLAG)
#define GR_FOURTH_OF(flags)                                                                                  \
    ((flags)&GR_ENCRYPTION_FLAG ? GR_SECTION_TYPE_ENCRYPTION : (flags)&GR_ALONE_FLAG ? GR_ALONE_SECTION : 0u)

#endif
