/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The program's buffers as the memory of a GPU, for recorder.c: what it calls of vgpu.h is here. Sources: see
 * v3d_ioctls.c.
 */
#ifndef GRAMOPHONE_V3D_BUFFERS_H
#define GRAMOPHONE_V3D_BUFFERS_H

#include "vgpu.h"

enum { V3D_PAGE_BYTES = 4096, V3D_MAX_HANDLES = 1 << 16 };

/* Physical addresses are not to be had: a buffer "lies" at its GPU address, beyond what a trace's image may
 * take. */
#define V3D_MEMORY_BASE 0x40000000u
#define V3D_MEMORY_END 0xc0000000u
struct buffer {
    uint32_t va, bytes; /* bytes = 0: no such handle */
    const uint8_t *host;
};

/* A buffer's content after the latest compute job. */
struct left {
    uint32_t va, bytes;
    uint8_t *content;
};

/* What recorder.c takes for a GPU. */
struct vgpu {
    struct buffer buffers[V3D_MAX_HANDLES]; /* by handle */
    uint32_t handles;                       /* all are below */
    struct left *left;
    uint32_t lefts;
    struct vgpu_observer observer;
    struct vgpu_counters counters;
    const char *error; /* NULL, or why there will be no capture */
};

uint8_t *v3d_buffers_at(void *gpu, uint64_t pa, uint64_t *bytes); /* as `memory` of struct vgpu_host */

/* What the latest compute job has left in the buffers: kept (false: out of memory), written to a file (false:
 * errno is set), forgotten. */
bool v3d_buffers_keep(vgpu *gpu);
bool v3d_buffers_write(const vgpu *gpu, const char *path);
void v3d_buffers_forget(vgpu *gpu);

#endif
