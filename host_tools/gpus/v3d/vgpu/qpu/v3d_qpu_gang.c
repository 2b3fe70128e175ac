/* SPDX-License-Identifier: BSD-2-Clause */
/* How gangs part and form. Sources: see v3d_qpu_exec.c. */
#include "v3d_qpu_gang.h"

#include <stddef.h>
#include <string.h>

/* The state of the instruction stream. */
enum {
    STREAM = offsetof(struct qpu_thread, tmu_data_count),
    STREAM_BYTES = sizeof(struct qpu_thread) - STREAM,
};

static void *stream_of(struct qpu_thread *t)
{
    return (char *)t + STREAM;
}

struct qpu_thread *qpu_gang_part(struct qpu_thread *t, const struct qpu_uop *u, unsigned first)
{
    struct qpu_thread *rest = t + first;

    memcpy(stream_of(rest), stream_of(t), STREAM_BYTES);
    rest->gang = t->gang - first;
    rest->resume = u;
    rest->state = QPU_READY;
    t->gang = first;
    t->worker->faulted = false;
    t->worker->error[0] = '\0';
    return rest;
}

void qpu_gang_form(struct qpu_thread *threads, unsigned count)
{
    struct qpu_thread *leader = threads;

    for (unsigned i = leader->gang, size; i < count; i += size) {
        struct qpu_thread *next = &threads[i];

        size = next->gang;
        if (leader->gang + size <= QPU_GANG && !memcmp(stream_of(leader), stream_of(next), STREAM_BYTES))
            leader->gang += size;
        else
            leader = next;
    }
}
