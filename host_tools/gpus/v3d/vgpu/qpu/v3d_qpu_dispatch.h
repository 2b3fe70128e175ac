/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Supergroups of a dispatch into batches of sixteen lanes, and batches into threads that run. Internal to the
 * compute engine. Sources: see v3d_csd.c.
 */
#ifndef GRAMOPHONE_V3D_QPU_DISPATCH_H
#define GRAMOPHONE_V3D_QPU_DISPATCH_H

#include "v3d_qpu.h"
#include "v3d_qpu_thread.h"
#include "workers.h"

#include <pthread.h>

/* Flags in configuration word 5. */
enum {
    CFG5_FOUR_THREADS = 1,
    CFG5_SINGLE_SEGMENT = 2,
    CFG5_PROPAGATE_NAN = 4,
    CFG5_FLAGS = 7,
};

struct qpu_dispatch {
    enum v3d_version version;
    const uint32_t *cfg;
    uint32_t hardware_threads;    /* that the GPU holds at once: scratch memory has room for no more */
    uint32_t count[3], offset[3]; /* workgroups */
    uint32_t workgroup_size, workgroups_per_supergroup, index_bits;
    uint32_t full;    /* batches of a supergroup that is not the last */
    uint64_t batches; /* to run, which may be fewer or more than the workgroups fill */
    uint64_t filled;  /* batches that have a workgroup */
    uint64_t workgroups, supergroups;
    uint64_t columns; /* see run_column() */
    struct v3d_csd_result *result;
    pthread_mutex_t failing; /* of what `result` says of a failure, and: */
    uint64_t failed;         /* lowest supergroup that has, or UINT64_MAX; atomic */
    struct qpu_program program;
    struct vgpu_budget budget;
};

struct qpu_worker_run {
    struct qpu_dispatch *dispatch;
    struct qpu_worker worker;
    struct qpu_thread *threads; /* a gang, or with barriers as many as a supergroup has batches */
    struct qpu_labels *labels;  /* as many, or NULL: they are not followed */
    uint32_t turn; /* of the first batch, or of the first of those that run together: see thread_number() */
};

/* How many threads of a V3D 4.2 run batches of the dispatch at once, each with a number of its own. */
uint32_t qpu_threads_at_once(const struct qpu_dispatch *dispatch);

/* How many batches a supergroup has. */
uint32_t qpu_batches_of(const struct qpu_dispatch *dispatch, uint64_t supergroup);

/* Run a supergroup to its end. False: the worker says why. */
bool qpu_run_supergroup(struct qpu_worker_run *run, uint64_t supergroup);

/* Let the access map show what the dispatch's other threads would touch. */
bool qpu_rehearse(struct qpu_worker_run *run);

#endif
