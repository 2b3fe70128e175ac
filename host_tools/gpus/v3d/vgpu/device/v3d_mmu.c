/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * V3D MMU: one level, an entry of 32 bits a 4 KiB page (Linux 6.1 drivers/gpu/drm/v3d/v3d_mmu.c).
 *
 * The whole table is taken in at the first job after its caches were cleared, and every page is resolved to a
 * host pointer then, on the owner's thread. The engine's worker threads only look up; what is missing then is
 * a fault. A table that changes without a flush therefore shows its old state, the worst that real caches do.
 */
#include "v3d_mmu.h"

#include <stdlib.h>
#include <string.h>

#include "v3d_translate.h"

#define PTE_FRAME 0x00ffffffu
#define PTE_VALID (1u << 28)
#define PTE_WRITEABLE (1u << 29)
/* Hints that a run of entries is one big page; each entry still holds its own frame. Bit 30 (64 KiB) is set
 * by kernels since 6.13, bit 31 (1 MiB) has always been defined. */
#define PTE_SIZE_HINTS (3u << 30)
#define PTE_RESERVED (~(PTE_FRAME | PTE_VALID | PTE_WRITEABLE | PTE_SIZE_HINTS))

enum { TABLE_STRIDE = 1024 };

struct mmu_state {
    struct vgpu *gpu;
    uint32_t *pte;  /* the table as last loaded */
    uint32_t pages; /* entries below the cap */
    uint64_t table_pa;
    uint64_t run_pa, run_bytes; /* the last range of host memory looked up */
    uint8_t *run;
};

static struct mmu_state *state_of(const struct v3d_mmu *mmu)
{
    return mmu->owner;
}

void v3d_mmu_free(struct v3d_mmu *mmu)
{
    if (mmu->owner)
        free(state_of(mmu)->pte);
    free(mmu->owner);
    free(mmu->tlb);
    free(mmu->touched);
}

/* Host pointer to the whole page of a frame, or NULL. */
static uint8_t *host_page(struct mmu_state *state, uint32_t frame)
{
    uint64_t pa = (uint64_t)frame << V3D_PAGE_SHIFT;
    if (!state->run || pa < state->run_pa || pa - state->run_pa >= state->run_bytes) {
        const struct vgpu_host *host = &state->gpu->host;
        uint64_t bytes = 0;
        state->run = host->memory ? host->memory(host->ctx, pa, &bytes) : NULL;
        state->run_pa = pa;
        state->run_bytes = bytes;
    }
    if (!state->run || state->run_bytes - (pa - state->run_pa) < V3D_PAGE_BYTES)
        return NULL;
    uint8_t *page = state->run + (pa - state->run_pa);
    if ((uintptr_t)page % V3D_PAGE_BYTES) {
        vgpu_fail(state->gpu, "host memory of physical page 0x%llx is not 4 KiB aligned",
                  (unsigned long long)pa);
        return NULL;
    }
    return page;
}

static uintptr_t resolve(struct mmu_state *state, uint32_t index, uint32_t pte)
{
    if (!(pte & PTE_VALID))
        return 0;
    if (pte & PTE_RESERVED) {
        vgpu_fail(state->gpu, "mmu: entry of GPU page 0x%x at physical 0x%llx is 0x%08x: reserved bits 0x%x",
                  index << V3D_PAGE_SHIFT, (unsigned long long)(state->table_pa + 4 * (uint64_t)index), pte,
                  pte & PTE_RESERVED);
        return 0;
    }
    uint8_t *page = host_page(state, pte & PTE_FRAME);
    return page ? (uintptr_t)page | (pte & PTE_WRITEABLE ? V3D_TLB_WRITABLE : 0) : 0;
}

/* Entries [first, first + count) are now those at `table`, or invalid when it is NULL. */
static void take_entries(struct v3d_mmu *mmu, uint32_t first, uint32_t count, const uint8_t *table)
{
    struct mmu_state *state = state_of(mmu);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t pte = 0, *old = &state->pte[first + i];
        /* Most of the table is as before: pass over a stretch of it at a time. */
        if (table && i % TABLE_STRIDE == 0 && count - i >= TABLE_STRIDE &&
            memcmp(old, table + 4 * (size_t)i, 4 * TABLE_STRIDE) == 0) {
            i += TABLE_STRIDE - 1;
            continue;
        }
        if (table)
            memcpy(&pte, table + 4 * (size_t)i, sizeof(pte));
        if (pte == *old)
            continue;
        *old = pte;
        mmu->tlb[first + i] = resolve(state, first + i, pte);
    }
}

bool v3d_mmu_load(struct v3d_mmu *mmu, uint64_t table_pa, uint32_t pages)
{
    struct mmu_state *state = state_of(mmu);
    const struct vgpu_host *host = &state->gpu->host;
    uint32_t i = 0;
    state->table_pa = table_pa;
    state->pages = pages;
    while (i < pages) {
        uint64_t bytes = 0, pa = table_pa + 4 * (uint64_t)i;
        const uint8_t *table = host->memory ? host->memory(host->ctx, pa, &bytes) : NULL;
        if (!table || bytes < 4) {
            vgpu_fail(state->gpu,
                      "mmu: page table at physical 0x%llx (%u entries): nothing is at 0x%llx; bus error",
                      (unsigned long long)table_pa, pages, (unsigned long long)pa);
            return false;
        }
        uint32_t count = bytes / 4 < pages - i ? (uint32_t)(bytes / 4) : pages - i;
        take_entries(mmu, i, count, table);
        i += count;
    }
    take_entries(mmu, pages, V3D_PAGES - pages, NULL);
    return !vgpu_error(state->gpu);
}

void v3d_mmu_memory_changed(struct v3d_mmu *mmu)
{
    struct mmu_state *state = state_of(mmu);
    state->run = NULL;
    for (uint32_t i = 0; i < state->pages; i++)
        mmu->tlb[i] = resolve(state, i, state->pte[i]);
}

void v3d_mmu_begin_job(struct v3d_mmu *mmu)
{
    for (size_t i = 0; i < V3D_PAGES / V3D_STRETCH; i++)
        if (mmu->touched_stretch[i])
            memset(mmu->touched + i * V3D_STRETCH, 0, V3D_STRETCH);
    memset(mmu->touched_stretch, 0, sizeof mmu->touched_stretch);
}

enum v3d_fault v3d_mmu_explain(const struct v3d_mmu *mmu, uint32_t va, bool write, uint64_t *pa)
{
    const struct mmu_state *state = state_of(mmu);
    uint32_t index = va >> V3D_PAGE_SHIFT, pte = state->pte[index];
    *pa = (uint64_t)(pte & PTE_FRAME) << V3D_PAGE_SHIFT | (va & (V3D_PAGE_BYTES - 1));
    if (index >= state->pages)
        return V3D_FAULT_CAP;
    if (!(pte & PTE_VALID))
        return V3D_FAULT_INVALID;
    if (write && !(pte & PTE_WRITEABLE))
        return V3D_FAULT_READ_ONLY;
    return mmu->tlb[index] ? V3D_FAULT_NONE : V3D_FAULT_BUS;
}

static uintptr_t fill(struct v3d_mmu *mmu, uint32_t va)
{
    return mmu->tlb[va >> V3D_PAGE_SHIFT];
}

static uint8_t *noted(struct v3d_mmu *mmu, uint32_t va)
{
    struct mmu_state *state = state_of(mmu);
    uint64_t pa;
    if (v3d_mmu_explain(mmu, va, false, &pa) != V3D_FAULT_NONE)
        return NULL;
    uint8_t *flags = access_map_page(&state->gpu->access, pa);
    if (!flags)
        vgpu_fail(state->gpu, "access map: out of memory");
    return flags;
}

static uint32_t *labels(struct v3d_mmu *mmu, uint32_t va)
{
    struct mmu_state *state = state_of(mmu);
    uint64_t pa;
    if (v3d_mmu_explain(mmu, va, false, &pa) != V3D_FAULT_NONE)
        return NULL;
    if (pa / V3D_PAGE_BYTES >= mmu->flow->bytes / V3D_PAGE_BYTES) {
        vgpu_fail(state->gpu, "flow: physical address 0x%llx has no labels", (unsigned long long)pa);
        return NULL;
    }
    return mmu->flow->labels + pa;
}

bool v3d_mmu_init(struct v3d_mmu *mmu, struct vgpu *gpu)
{
    struct mmu_state *state = calloc(1, sizeof(*state));
    mmu->owner = state;
    mmu->fill = fill;
    mmu->noted = noted;
    mmu->labels = labels;
    mmu->tlb = calloc(V3D_PAGES, sizeof(*mmu->tlb));
    mmu->touched = calloc(V3D_PAGES, sizeof(*mmu->touched));
    if (state) {
        state->gpu = gpu;
        state->pte = calloc(V3D_PAGES, sizeof(*state->pte));
    }
    return state && state->pte && mmu->tlb && mmu->touched;
}

uint8_t *v3d_mmu_span(struct v3d_mmu *mmu, uint32_t va, uint32_t bytes, bool write)
{
    uintptr_t entry = mmu->tlb[va >> V3D_PAGE_SHIFT];
    uint32_t inside = va & (V3D_PAGE_BYTES - 1);
    if (!entry || (write && !(entry & V3D_TLB_WRITABLE)))
        return NULL;
    v3d_mmu_touch(mmu, va >> V3D_PAGE_SHIFT, write);
    uint8_t *flags = mmu->track ? v3d_mmu_noted(mmu, va) : NULL;
    if (flags)
        access_map_mark(flags + inside, bytes, write);
    return (uint8_t *)(entry & ~(uintptr_t)(V3D_PAGE_BYTES - 1)) + inside;
}

static uint32_t walk_flags(const struct v3d_mmu *mmu, uint32_t index)
{
    uint32_t flags = VGPU_PAGE_READABLE | VGPU_PAGE_EXECUTABLE;
    if (state_of(mmu)->pte[index] & PTE_WRITEABLE)
        flags |= VGPU_PAGE_WRITABLE;
    if (mmu->touched[index] & V3D_TOUCHED_READ)
        flags |= VGPU_PAGE_READ;
    if (mmu->touched[index] & V3D_TOUCHED_WRITTEN)
        flags |= VGPU_PAGE_WRITTEN;
    return flags;
}

void v3d_mmu_walk(const struct v3d_mmu *mmu, struct vgpu_run *run)
{
    const struct mmu_state *state = state_of(mmu);
    for (uint32_t i = 0; i < state->pages; i++)
        if (state->pte[i] & PTE_VALID)
            vgpu_add_page(run, (uint64_t)i << V3D_PAGE_SHIFT,
                          (uint64_t)(state->pte[i] & PTE_FRAME) << V3D_PAGE_SHIFT, walk_flags(mmu, i));
}
