/* SPDX-License-Identifier: BSD-2-Clause */
/* What the core tells a replay log, where there is one (evidence/log.c). */
#ifndef GRAMOPHONE_TELL_H
#define GRAMOPHONE_TELL_H

#include "replayer.h"

/* Nothing is known of the trace yet; its signature is good. */
GR_API void gr_log_begin(struct gr_log *log);
GR_API void gr_log_trace(struct gr_log *log, const uint8_t *head, uint32_t head_bytes,
                         const uint8_t *manifest);
#ifdef GRAMOPHONE_TRUST
/* The trust policy under which the trace was accepted: all of it, and its version. */
GR_API void gr_log_policy(struct gr_log *log, const uint8_t *policy, uint32_t bytes, uint32_t version);
#endif

/* The parts of a replay. */
enum gr_log_part { GR_LOG_PROLOGUE, GR_LOG_PROLOGUE_DONE, GR_LOG_REPLAY, GR_LOG_REPLAY_DONE };
GR_API void gr_log_part(struct gr_log *log, enum gr_log_part part);
/* A slot is copied; a run of its bytes, in memory that only this code and the GPU reach. */
GR_API void gr_log_slot(struct gr_log *log, uint32_t slot, uint64_t bytes, bool to_gpu);
GR_API void gr_log_bytes(struct gr_log *log, const uint8_t *data, uint64_t bytes, bool to_gpu);

#endif
