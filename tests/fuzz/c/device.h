/* SPDX-License-Identifier: BSD-2-Clause */
/* For targets around the core, whose GPU and trace are good: a port, a crypto seam, a sample trace. */
#ifndef GRAMOPHONE_FUZZ_DEVICE_H
#define GRAMOPHONE_FUZZ_DEVICE_H

#include "fuzz_policy.h"
#include "fuzz_trace.h" /* fuzz_trace: a signed trace that copies its input to its output */
#include "replayer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern struct fuzz_device {
    uint32_t written[FUZZ_WINDOW_BYTES / 4];
    uint64_t clock_us, writes;
    bool may_use; /* a write is expected now */
} device_state;

static inline _Noreturn void found(const char *promise)
{
    fprintf(stderr, "FINDING: %s\n", promise);
    abort();
}
#define PROMISE(condition, text) ((condition) ? (void)0 : found(text))

#endif
