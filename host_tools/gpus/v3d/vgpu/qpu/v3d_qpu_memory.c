/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges of pages, and how they grow. Sources: see v3d_mmu.h. */
#include "v3d_qpu_memory.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* Host address of a page to which the MMU grants the access; NULL: a fault. */
static uint8_t *host_page(struct v3d_mmu *mmu, uint32_t page, bool write)
{
    uintptr_t entry = __atomic_load_n(&mmu->tlb[page], __ATOMIC_RELAXED);

    if (entry == 0)
        entry = v3d_mmu_fill(mmu, page << V3D_PAGE_SHIFT);
    if (entry == 0 || (write && !(entry & V3D_TLB_WRITABLE)))
        return NULL;
    return (uint8_t *)(entry & ~(uintptr_t)(V3D_PAGE_BYTES - 1));
}

/* Whether the page at va may join a range in which it would have this host address. */
static bool joins(struct v3d_mmu *mmu, uint32_t va, const uint8_t *host, bool write)
{
    uint32_t page = va >> V3D_PAGE_SHIFT;
    uint8_t touched = __atomic_load_n(&mmu->touched[page], __ATOMIC_RELAXED);

    return (touched & (write ? V3D_TOUCHED_WRITTEN : V3D_TOUCHED_READ)) &&
           host_page(mmu, page, write) == host;
}

/* Take in the pages before and after that have been touched. */
static void grow(struct v3d_mmu *mmu, struct qpu_range *range, bool write)
{
    const uint32_t last = UINT32_MAX << V3D_PAGE_SHIFT;

    while (range->va >= V3D_PAGE_BYTES &&
           joins(mmu, range->va - V3D_PAGE_BYTES, range->host - V3D_PAGE_BYTES, write)) {
        range->va -= V3D_PAGE_BYTES;
        range->host -= V3D_PAGE_BYTES;
        range->bytes += V3D_PAGE_BYTES;
    }
    while (range->bytes < last - range->va &&
           joins(mmu, range->va + range->bytes, range->host + range->bytes, write))
        range->bytes += V3D_PAGE_BYTES;
}

/* The page, which has been touched, becomes a part of the range that ends or begins there, or a new one;
 * always a new one where each page must be saved. */
static void add_page(struct qpu_memory *memory, unsigned site, uint32_t va, bool write)
{
    struct v3d_mmu *mmu = memory->mmu;
    struct qpu_ranges *ranges = write ? &memory->writable : &memory->readable;
    bool alone = memory->undoable && write;

    for (uint8_t i = 0; i < QPU_RANGES && !alone; i++) {
        struct qpu_range *range = &ranges->range[i];

        if (range->bytes && (range->va + range->bytes == va || va + V3D_PAGE_BYTES == range->va)) {
            grow(mmu, range, write);
            if (va - range->va < range->bytes) {
                ranges->latest[site] = i;
                return;
            }
        }
    }
    struct qpu_range *range = &ranges->range[ranges->next];

    ranges->latest[site] = ranges->next;
    ranges->next = (uint8_t)((ranges->next + 1) % QPU_RANGES);
    *range = (struct qpu_range){va, V3D_PAGE_BYTES, host_page(mmu, va >> V3D_PAGE_SHIFT, write)};
    if (!alone)
        grow(mmu, range, write);
}

/* False: the host's memory is exhausted. */
static bool save_page(struct qpu_memory *memory, uint8_t *host)
{
    for (const struct qpu_saved *saved = memory->saved; saved; saved = saved->before)
        if (saved->host == host)
            return true;
    struct qpu_saved *saved = malloc(sizeof *saved);
    if (!saved)
        return false;
    saved->before = memory->saved;
    saved->host = host;
    memcpy(saved->bytes, host, V3D_PAGE_BYTES);
    memory->saved = saved;
    return true;
}

void qpu_undo(struct qpu_memory *memory)
{
    while (memory->saved) {
        struct qpu_saved *saved = memory->saved;

        memcpy(saved->host, saved->bytes, V3D_PAGE_BYTES);
        memory->saved = saved->before;
        free(saved);
    }
    memory->writable = (struct qpu_ranges){0}; /* what is written next is saved again */
}

uint8_t *qpu_granted_slow(struct qpu_memory *memory, unsigned site, uint32_t va, bool write)
{
    struct v3d_mmu *mmu = memory->mmu;
    struct qpu_ranges *ranges = write ? &memory->writable : &memory->readable;
    uint32_t page = va >> V3D_PAGE_SHIFT;

    for (uint8_t i = 0; i < QPU_RANGES; i++)
        if (va - ranges->range[i].va < ranges->range[i].bytes) {
            ranges->latest[site] = i;
            return ranges->range[i].host + (va - ranges->range[i].va);
        }
    uint8_t *host = host_page(mmu, page, write);
    if (!host || (memory->undoable && write && !save_page(memory, host)))
        return NULL;
    v3d_mmu_touch(mmu, page, write);
    add_page(memory, site, page << V3D_PAGE_SHIFT, write);
    return host + va % V3D_PAGE_BYTES;
}
