/* SPDX-License-Identifier: BSD-2-Clause */
/* Items of work on several threads, in ascending order, so that the lowest that fails is the same for any
 * number; and what they may execute together. */
#ifndef GRAMOPHONE_WORKERS_H
#define GRAMOPHONE_WORKERS_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu.h"

enum { VGPU_MAX_WORKERS = 64 };

struct vgpu_work {
    bool (*run)(void *worker, uint64_t item); /* false: it failed */
    uint64_t next, count;                     /* the first item to run, all items */
    uint64_t failed;                          /* lowest item that failed, or UINT64_MAX */
};

/* Run the items, those below a failed one in any case. workers: 1 to VGPU_MAX_WORKERS, a thread each; the
 * first is the caller's. */
void vgpu_work_run(struct vgpu_work *work, void *const *workers, unsigned count);

struct vgpu_budget {
    uint64_t limit, used;
};

/* Any worker may spend. False: all together have spent more than the limit; whether that happens does not
 * depend on their number, to whom it does. */
static inline bool vgpu_budget_spend(struct vgpu_budget *budget, uint64_t amount)
{
    return __atomic_add_fetch(&budget->used, amount, __ATOMIC_RELAXED) <= budget->limit;
}

/* How many threads options ask for: one, if only the caller's may run. */
unsigned vgpu_worker_threads(const struct vgpu_options *options);

#endif
