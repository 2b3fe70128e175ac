/* SPDX-License-Identifier: BSD-2-Clause */
/* What mailbox.c asks of firmware with a replay log (log_port.c). */
#ifndef GRAMOPHONE_FUZZ_LOG_PORT_H
#define GRAMOPHONE_FUZZ_LOG_PORT_H

#include "gramophone_mailbox.h"

/* Before a request: which call of the seam or the board fails; 0: none. */
void fuzz_evidence_begin(uint32_t fails_at);

/* After it: whether the answer is success, and how many replays it counts. */
void fuzz_evidence_end(const uint8_t *mailbox, bool done, uint64_t replays);

#endif
