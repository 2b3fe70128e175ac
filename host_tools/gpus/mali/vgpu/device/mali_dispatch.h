/* SPDX-License-Identifier: BSD-2-Clause */
/* What a compute job asks for, by its descriptors. Sources: see mali_dispatch.c. */
#ifndef GRAMOPHONE_MALI_DISPATCH_H
#define GRAMOPHONE_MALI_DISPATCH_H

#include "mali_bifrost_batch.h"
#include "mali_compute.h"
#include "mali_descriptors.h"

enum {
    MALI_MAX_WORKGROUP = 1024, /* of any chip */
    MALI_FIRST_PRELOADED = 55, /* register */
    MALI_MAX_TABLES = 63,      /* of resources */
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
    const void *from; /* of a mali_dispatch_reader */
    uint32_t size[3], groups[3], group_threads;
    uint64_t threads;
    uint32_t preload;
    bool may_wait; /* for other threads, at barriers */
    struct bifrost_environment environment;
    struct bifrost_program program;
    struct vgpu_meter *meter;  /* or NULL */
    uint32_t uniform[2 * 255]; /* as many as any chip has; a renderer state counts to 127 */
    struct bifrost_uniform_buffer buffer[BIFROST_UNIFORM_BUFFERS];
    uint32_t table[MALI_MAX_TABLES + 1]; /* of a chip with streams: see bifrost_environment */
};

/* Of a job manager's compute job. */
mali_dispatch_reader mali_dispatch_read;
/* Of a command stream, whose registers `from` is. mali_csf_dispatch.c */
mali_dispatch_reader mali_csf_dispatch_read;
/* Note the sizes of a workgroup and of a dispatch in workgroups. 0, or the exception. */
uint32_t mali_dispatch_size(struct mali_dispatch *d, const uint32_t size[3], const uint32_t groups[3]);
/* Stop with an error that names the job; the status. */
uint32_t mali_dispatch_refuse(const struct mali_dispatch *d, uint32_t status, const char *what,
                              uint64_t value);

#endif
