/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources: see v3d_driver.h. Bits by name: v3d_regs.h there. */
#include "v3d_driver.h"

#include "v3d_register_map.h"

enum { COMPUTE, BIN, RENDER }; /* kinds of job (vgpu.h) */

enum {
    BIN_DONE = 1 << 1, /* FLDONE */
    RENDER_DONE = 1 << 0,
    COMPUTE_DONE = 1 << 7,
    CORE_INTERRUPTS = 0xa7, /* V3D_CORE_IRQS: CSD, GMP violation, out of memory, bin and render done */
    HUB_INTERRUPTS = 0x3a,  /* V3D_HUB_IRQS: MMU write and PTE violation, cap exceeded, TFU */
    MMU_ON = 0x060d0c01,    /* as v3d_mmu_set_page_table enables it: aborts and interrupts of all faults */
    MMU_TLB_CLEAR = 1 << 2,
    MMUC_ENABLE = 1 << 0,
    MMUC_FLUSH = 1 << 1,
    L2T_FLUSH = 1 << 0,
    L2T_CLEAN = 2 << 1,          /* mode of the flush */
    L2T_WRITE_COMBINER = 1 << 8, /* TMUWCF */
    ALL_SLICES = 0x0f0f0f0f,     /* uniform, instruction, TMU caches */
    QTS_ENABLE = 1 << 1,
};

static void put(const struct vgpu_observer *to, uint32_t reg, uint32_t value)
{
    to->write(to->ctx, reg, value);
}

void v3d_driver_read(const struct vgpu_observer *to, uint32_t reg, uint32_t value)
{
    to->read(to->ctx, reg, value);
}

/* v3d_mmu_flush_all */
void v3d_driver_flush_tables(const struct vgpu_observer *to)
{
    put(to, V3D_HUB + HUB_MMUC_CONTROL, MMUC_FLUSH | MMUC_ENABLE);
    v3d_driver_read(to, V3D_HUB + HUB_MMUC_CONTROL, MMUC_ENABLE);
    v3d_driver_read(to, V3D_HUB + HUB_MMU_CTL, MMU_ON);
    put(to, V3D_HUB + HUB_MMU_CTL, MMU_ON | MMU_TLB_CLEAR);
    v3d_driver_read(to, V3D_HUB + HUB_MMU_CTL, MMU_ON);
}

/* v3d_platform_drm_probe; v3d_init_hw_state; v3d_mmu_set_page_table; v3d_irq_init */
void v3d_driver_probe(const struct vgpu_observer *to, const struct v3d_identity *identity)
{
    v3d_driver_read(to, V3D_HUB + HUB_MMU_DEBUG_INFO,
                    0); /* not to be had here; passes compare it with nothing */
    v3d_driver_read(to, V3D_HUB + HUB_IDENT1, identity->hub_ident1);
    v3d_driver_read(to, V3D_HUB + HUB_IDENT3, identity->hub_ident3);
    put(to, CORE_CTL_L2TFLSTA, 0);
    put(to, CORE_CTL_L2TFLEND, UINT32_MAX);
    put(to, V3D_HUB + HUB_MMU_PT_PA_BASE, 0);
    put(to, V3D_HUB + HUB_MMU_CTL, MMU_ON);
    put(to, V3D_HUB + HUB_MMUC_CONTROL, MMUC_ENABLE);
    v3d_driver_flush_tables(to);
    put(to, CORE_INT_CLR, CORE_INTERRUPTS);
    put(to, V3D_HUB + HUB_INT_CLR, HUB_INTERRUPTS);
    put(to, CORE_INT_MSK_SET, ~(uint32_t)CORE_INTERRUPTS);
    put(to, CORE_INT_MSK_CLR, CORE_INTERRUPTS);
    put(to, V3D_HUB + HUB_INT_MSK_SET, ~(uint32_t)HUB_INTERRUPTS);
    put(to, V3D_HUB + HUB_INT_MSK_CLR, HUB_INTERRUPTS);
}

/* v3d_invalidate_caches */
static void invalidate_caches(const struct vgpu_observer *to)
{
    put(to, CORE_CTL_L2TCACTL, L2T_FLUSH);
    put(to, CORE_CTL_SLCACTL, ALL_SLICES);
}

/* The interrupt, and v3d_irq. */
static void end(const struct vgpu_observer *to, unsigned kind, uint32_t done)
{
    to->job_end(to->ctx, kind);
    to->interrupt(to->ctx, 0, true);
    v3d_driver_read(to, CORE_INT_STS, done);
    put(to, CORE_INT_CLR, done);
    to->interrupt(to->ctx, 0, false);
}

/* v3d_csd_job_run */
void v3d_driver_start_compute(const struct vgpu_observer *to, const uint32_t cfg[7])
{
    invalidate_caches(to);
    for (uint32_t i = 1; i < 7; i++)
        put(to, CORE_CSD_QUEUED_CFG0 + 4 * i, cfg[i]);
    put(to, CORE_CSD_QUEUED_CFG0, cfg[0]);
    to->job_start(to->ctx, COMPUTE);
}

/* With v3d_clean_caches, the job that the driver queues after each. */
void v3d_driver_end_compute(const struct vgpu_observer *to)
{
    end(to, COMPUTE, COMPUTE_DONE);
    put(to, CORE_CTL_L2TCACTL, L2T_WRITE_COMBINER);
    v3d_driver_read(to, CORE_CTL_L2TCACTL, 0);
    put(to, CORE_CTL_L2TCACTL, L2T_FLUSH | L2T_CLEAN);
    v3d_driver_read(to, CORE_CTL_L2TCACTL, L2T_CLEAN);
}

/* v3d_bin_job_run */
void v3d_driver_start_bin(const struct vgpu_observer *to, const struct v3d_lists *lists)
{
    put(to, CORE_PTB_BPOS, 0);
    invalidate_caches(to);
    if (lists->tile_memory) {
        put(to, CORE_CLE_CT0QMA, lists->tile_memory);
        put(to, CORE_CLE_CT0QMS, lists->tile_memory_bytes);
    }
    if (lists->tile_state)
        put(to, CORE_CLE_CT0QTS, QTS_ENABLE | lists->tile_state);
    put(to, CORE_CLE_CT0QBA, lists->bin_start);
    put(to, CORE_CLE_CT0QEA, lists->bin_end);
    to->job_start(to->ctx, BIN);
}

void v3d_driver_end_bin(const struct vgpu_observer *to)
{
    end(to, BIN, BIN_DONE);
}

/* v3d_render_job_run */
void v3d_driver_start_render(const struct vgpu_observer *to, const struct v3d_lists *lists)
{
    invalidate_caches(to);
    put(to, CORE_CLE_CT1QBA, lists->render_start);
    put(to, CORE_CLE_CT1QEA, lists->render_end);
    to->job_start(to->ctx, RENDER);
}

void v3d_driver_end_render(const struct vgpu_observer *to)
{
    end(to, RENDER, RENDER_DONE);
}
