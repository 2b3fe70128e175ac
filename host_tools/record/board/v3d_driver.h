/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What Linux's v3d driver does to a V3D 4.2, access by access, as a capture has it.
 *
 * A recorder at the ioctls does not see registers. What the driver writes and reads for each of them is
 * fixed, but for what the program asks for; values that are read come from DRM_IOCTL_V3D_GET_PARAM, or are
 * those that end the driver's wait. Source: Linux 6.12 drivers/gpu/drm/v3d (functions are named where they
 * begin); recordings of the unmodified driver have the same accesses (tests/qemu/test_record_board.py).
 */
#ifndef GRAMOPHONE_V3D_DRIVER_H
#define GRAMOPHONE_V3D_DRIVER_H

#include <stdint.h>

#include "vgpu.h"

/* Identities, as DRM_IOCTL_V3D_GET_PARAM gives them. */
struct v3d_identity {
    uint32_t hub_ident1, hub_ident3;
};

struct v3d_lists {
    uint32_t bin_start, bin_end, render_start, render_end;
    uint32_t tile_memory, tile_memory_bytes, tile_state; /* qma, qms, qts of struct drm_v3d_submit_cl */
};

/* The driver has found the GPU. */
void v3d_driver_probe(const struct vgpu_observer *to, const struct v3d_identity *identity);
/* Page tables have changed. */
void v3d_driver_flush_tables(const struct vgpu_observer *to);
/* A program asked for an identity. */
void v3d_driver_read(const struct vgpu_observer *to, uint32_t reg, uint32_t value);

/* A job in two halves: all before the GPU begins, with the job's start; all after it has ended. */
void v3d_driver_start_compute(const struct vgpu_observer *to, const uint32_t cfg[7]);
void v3d_driver_end_compute(const struct vgpu_observer *to);
void v3d_driver_start_bin(const struct vgpu_observer *to, const struct v3d_lists *lists);
void v3d_driver_end_bin(const struct vgpu_observer *to);
void v3d_driver_start_render(const struct vgpu_observer *to, const struct v3d_lists *lists);
void v3d_driver_end_render(const struct vgpu_observer *to);

#endif
