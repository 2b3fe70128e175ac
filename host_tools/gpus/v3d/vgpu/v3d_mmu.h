/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * V3D 4.2 MMU as the compute engine sees it: a software table from GPU page to host page.
 *
 * device/v3d_mmu.c fills it from the guest's page table (one level, u32 a 4 KiB page; entry = frame number
 * 23:0, bit 28 valid, bit 29 writable; source: Linux 6.1 drivers/gpu/drm/v3d/v3d_mmu.c) and empties it on a
 * TLB clear.
 */
#ifndef GRAMOPHONE_V3D_MMU_H
#define GRAMOPHONE_V3D_MMU_H

#include <stdbool.h>
#include <stdint.h>

enum { V3D_PAGE_SHIFT = 12, V3D_PAGE_BYTES = 1 << 12, V3D_PAGES = 1 << 20 };

/* How an access touches a page. */
enum { V3D_TOUCHED_READ = 1, V3D_TOUCHED_WRITTEN = 2 };

/* Pages of a stretch: what a job touched is forgotten by stretches, as most jobs touch few. */
enum { V3D_STRETCH = 1 << 12 };

#define V3D_TLB_WRITABLE 1u /* low bits of an entry; host pages are 4 KiB aligned */

struct v3d_mmu {
    /* tlb[va >> 12]: host page address | V3D_TLB_*, or 0: call v3d_mmu_fill. */
    uintptr_t *tlb;
    /* touched[va >> 12]: V3D_TOUCHED_*; always kept. */
    uint8_t *touched;
    /* Whether any page of a stretch has been touched. */
    bool touched_stretch[V3D_PAGES / V3D_STRETCH];
    /* Keep the access map: v3d_csd_run is called with threads == 1, and the engine marks every access in the
     * flags of its page. */
    bool track;
    struct vgpu_meter *meter; /* count what takes time (meter.h; one thread), or NULL */
    struct vgpu_flow *flow;   /* follow data (vgpu.h; one thread, as with track), or NULL */
    /* What v3d_mmu_fill, v3d_mmu_noted and v3d_mmu_labels do, and the state of whom they are. */
    uintptr_t (*fill)(struct v3d_mmu *mmu, uint32_t va);
    uint8_t *(*noted)(struct v3d_mmu *mmu, uint32_t va);
    uint32_t *(*labels)(struct v3d_mmu *mmu, uint32_t va);
    void *owner;
};

/* Mark a page as touched; from any thread. */
static inline void v3d_mmu_touch(struct v3d_mmu *mmu, uint32_t page, bool write)
{
    __atomic_fetch_or(&mmu->touched[page], write ? V3D_TOUCHED_WRITTEN : V3D_TOUCHED_READ, __ATOMIC_RELAXED);
    __atomic_store_n(&mmu->touched_stretch[page / V3D_STRETCH], true, __ATOMIC_RELAXED);
}

/* Slow path: look `va` up in the page table. Returns the new tlb entry, or 0 on a fault (invalid page, or
 * no memory there). Thread-safe. */
static inline uintptr_t v3d_mmu_fill(struct v3d_mmu *mmu, uint32_t va)
{
    return mmu->fill(mmu, va);
}

/* Flags of the page at va in the access map (track only), which stay there for the dispatch. NULL: out of
 * memory, or nothing is mapped. */
static inline uint8_t *v3d_mmu_noted(struct v3d_mmu *mmu, uint32_t va)
{
    return mmu->noted(mmu, va);
}

/* Labels (flow only) of the byte at va, with those after it in its page; NULL: nothing is mapped. */
static inline uint32_t *v3d_mmu_labels(struct v3d_mmu *mmu, uint32_t va)
{
    return mmu->labels(mmu, va);
}

#endif
