/* SPDX-License-Identifier: BSD-2-Clause */
/* The device's side of the V3D MMU: the page table, and why a translation failed. v3d_mmu.h is the engine's
 * side. Sources: see v3d_mmu.c. */
#ifndef GRAMOPHONE_V3D_TRANSLATE_H
#define GRAMOPHONE_V3D_TRANSLATE_H

#include "v3d_mmu.h"
#include "vgpu_device.h"

enum v3d_fault {
    V3D_FAULT_NONE,
    V3D_FAULT_CAP,       /* at or above ADDR_CAP */
    V3D_FAULT_INVALID,   /* entry not valid */
    V3D_FAULT_READ_ONLY, /* write to an entry without the writable bit */
    V3D_FAULT_BUS,       /* entry valid, no memory there */
};

bool v3d_mmu_init(struct v3d_mmu *mmu, struct vgpu *gpu);
void v3d_mmu_free(struct v3d_mmu *mmu);

/*
 * Take in the page table of `pages` entries at table_pa, as the hardware sees it until its caches are next
 * cleared. False: the GPU has failed (reserved bits in an entry, table not in memory).
 */
bool v3d_mmu_load(struct v3d_mmu *mmu, uint64_t table_pa, uint32_t pages);

/* The memory at physical addresses has changed. */
void v3d_mmu_memory_changed(struct v3d_mmu *mmu);

/* A new job: forget what the last one touched. */
void v3d_mmu_begin_job(struct v3d_mmu *mmu);

/* What an access to `va` gives; with V3D_FAULT_BUS, *pa is the physical address. */
enum v3d_fault v3d_mmu_explain(const struct v3d_mmu *mmu, uint32_t va, bool write, uint64_t *pa);

/* Host address of bytes within one page for an access by the control list executor, which is noted; NULL: a
 * fault. */
uint8_t *v3d_mmu_span(struct v3d_mmu *mmu, uint32_t va, uint32_t bytes, bool write);

/* As struct vgpu_family has it. */
void v3d_mmu_walk(const struct v3d_mmu *mmu, struct vgpu_run *run);

#endif
