/* SPDX-License-Identifier: BSD-2-Clause */
/* Test double: an MMU over one flat piece of memory, and the entry points that the tests of the QPU call. */
#include <stdlib.h>
#include <string.h>

#include "meter.h"
#include "v3d_qpu.h"
#include "vgpu.h"

/* GPU address of the memory; `writable` bytes from its start may be written. */
struct flat {
    uint8_t *memory;
    uint8_t *noted; /* access map, a byte for each (with track) */
    uint32_t va, bytes, writable;
};

static uintptr_t fill(struct v3d_mmu *mmu, uint32_t va)
{
    const struct flat *flat = mmu->owner;
    uint32_t offset = va - flat->va;

    if (va < flat->va || offset >= flat->bytes)
        return 0;
    uintptr_t page = (uintptr_t)(flat->memory + offset) & ~(uintptr_t)(V3D_PAGE_BYTES - 1);
    page |= offset < flat->writable ? V3D_TLB_WRITABLE : 0;
    __atomic_store_n(&mmu->tlb[va >> V3D_PAGE_SHIFT], page, __ATOMIC_RELAXED);
    return page;
}

static uint8_t *noted(struct v3d_mmu *mmu, uint32_t va)
{
    const struct flat *flat = mmu->owner;

    return flat->noted + ((va & ~(uint32_t)(V3D_PAGE_BYTES - 1)) - flat->va);
}

/* Labels of the flat memory, from its start on. */
static uint32_t *labels(struct v3d_mmu *mmu, uint32_t va)
{
    const struct flat *flat = mmu->owner;

    return va - flat->va < mmu->flow->bytes ? mmu->flow->labels + (va - flat->va) : NULL;
}

enum { FIRST_CACHE = 1024, SECOND_CACHE = 4096 };

/* Run a dispatch; touched: one byte a page of the memory; row: of a meter with small caches, or NULL. Returns
 * 0, or -1 without host memory. */
int flat_run(struct flat *flat, enum v3d_version version, const uint32_t cfg[7], unsigned threads,
             uint64_t limit, bool track, struct v3d_csd_result *result, uint8_t *touched,
             struct vgpu_flow *flow, struct vgpu_dispatch *row)
{
    struct vgpu_meter *meter = row ? vgpu_meter_create(FIRST_CACHE, SECOND_CACHE) : NULL;
    struct v3d_mmu mmu = {.track = track,
                          .meter = meter,
                          .flow = flow,
                          .fill = fill,
                          .noted = noted,
                          .labels = labels,
                          .owner = flat};

    mmu.tlb = calloc(V3D_PAGES, sizeof *mmu.tlb);
    mmu.touched = calloc(V3D_PAGES, 1);
    if (mmu.tlb && mmu.touched) {
        v3d_csd_run(&mmu, version, cfg, threads, limit, result);
        memcpy(touched, mmu.touched + (flat->va >> V3D_PAGE_SHIFT), flat->bytes >> V3D_PAGE_SHIFT);
    }
    if (meter)
        *row = meter->row;
    vgpu_meter_free(meter);
    free(mmu.tlb);
    free(mmu.touched);
    return mmu.tlb && mmu.touched ? 0 : -1;
}
