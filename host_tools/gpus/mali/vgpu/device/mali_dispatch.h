/* SPDX-License-Identifier: BSD-2-Clause */
/* What a compute job asks for, by its descriptors. Sources: see mali_dispatch.c. */
#ifndef GRAMOPHONE_MALI_DISPATCH_H
#define GRAMOPHONE_MALI_DISPATCH_H

#include "mali_bifrost_batch.h"
#include "mali_descriptors.h"
#include "mali_device.h"

enum {
    MALI_MAX_WORKGROUP = 384,  /* THREAD_MAX_WORKGROUP_SIZE */
    MALI_FIRST_PRELOADED = 55, /* register */
};

/* Preloaded registers: bits that follow one another, as the registers do. */
#define MALI_PRELOAD_LOCAL_XY MALI_RENDERER_STATE_PRELOAD_LOCAL_INVOCATION_XY_MASK
#define MALI_PRELOAD_LOCAL_Z MALI_RENDERER_STATE_PRELOAD_LOCAL_INVOCATION_Z_MASK
#define MALI_PRELOAD_GROUP MALI_RENDERER_STATE_PRELOAD_WORK_GROUP_X_MASK         /* then y, z */
#define MALI_PRELOAD_GLOBAL MALI_RENDERER_STATE_PRELOAD_GLOBAL_INVOCATION_X_MASK /* then y, z */

struct mali_dispatch {
    struct mali_device *dev;
    unsigned space;
    struct mali_memory memory; /* of the space */
    uint64_t va;
    uint32_t size[3], groups[3], group_threads;
    uint64_t threads;
    uint32_t preload;
    bool may_wait; /* for other threads, at barriers */
    struct bifrost_environment environment;
    struct bifrost_program program;
    struct vgpu_meter *meter; /* or NULL */
    uint32_t uniform[2 * MALI_RENDERER_STATE_UNIFORM_COUNT_MAX];
    struct bifrost_uniform_buffer buffer[BIFROST_UNIFORM_BUFFERS];
};

/* Read all that a dispatch takes from memory; dev, space, memory and va are set. 0, or the exception. */
uint32_t mali_dispatch_read(struct mali_dispatch *d);

#endif
