/* SPDX-License-Identifier: BSD-2-Clause */
/* State of a virtual V3D. Sources: see v3d_device.c. */
#ifndef GRAMOPHONE_V3D_DEVICE_H
#define GRAMOPHONE_V3D_DEVICE_H

#include "v3d_mmu.h"
#include "v3d_registers.h"
#include "vgpu_device.h"

enum {
    V3D_ENGINES = 3,
    V3D_CSD_WORDS = 8
}; /* an engine is a job kind: compute, bin, render; at most so many words */

struct v3d_completion {
    unsigned engine;
    uint64_t due_ns;
};

struct v3d_device {
    struct vgpu base; /* first: a struct vgpu * is a struct v3d_device * */
    const struct v3d_chip *chip;
    struct v3d_mmu mmu;
    bool has_board;                             /* and not the GPU alone */
    uint32_t reg[V3D_BOARD_WINDOW_BYTES / 4];   /* by window offset */
    uint16_t known[V3D_BOARD_WINDOW_BYTES / 4]; /* index into the chip's registers + 1 */
    struct v3d_completion pending[V3D_ENGINES]; /* jobs that will end, in order */
    unsigned pending_count;
    uint32_t compute_jobs_started;
    bool busy[V3D_ENGINES];
    uint64_t mmuc_flush_ns, tlb_clear_ns, l2t_ns, sms_ns; /* when the busy bits fall */
    bool mmuc_clean, mmu_stale; /* the MMU cache was flushed since the last load; the table must be loaded */
};

/* A GPU of this family: the chip is the one of the profile that its name starts with. */
struct v3d_kind {
    struct vgpu_family family; /* first */
    const struct v3d_chip *chip;
};

static inline struct v3d_device *v3d_device_of(struct vgpu *gpu)
{
    return (struct v3d_device *)gpu;
}

/* The register at an offset. */
static inline uint32_t *v3d_reg(struct v3d_device *dev, uint32_t offset)
{
    return &dev->reg[offset / 4];
}

/* Hub, core and bridge to their reset values; jobs in flight are gone. */
void v3d_reset(struct v3d_device *dev);
void v3d_update_interrupt(struct v3d_device *dev);

/* v3d_jobs.c: job starts and ends. */
void v3d_csd_submit(struct v3d_device *dev);
void v3d_list_submit(struct v3d_device *dev, unsigned engine);
void v3d_jobs_advance(struct v3d_device *dev);

#endif
