/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Test double of the compute engine: a dispatch does nothing, unless its shader address (cfg5) is ACTION + n.
 * Bits of n: 1 reads the word at cfg6; 2 writes 0xc0ffee at cfg6; 4 reports an error. It works as the real
 * engine does: through the translation table, noting what it touches.
 */
#include <stdio.h>

#include "access_map.h"
#include "v3d_qpu.h"

#define ACTION 0xd0b1e000u
enum { READ = 1, WRITE = 2, ERROR = 4 };

static uint32_t *translate(struct v3d_mmu *mmu, uint32_t va, bool write, struct v3d_csd_result *result)
{
    uintptr_t entry = mmu->tlb[va >> V3D_PAGE_SHIFT];
    if (!entry)
        entry = v3d_mmu_fill(mmu, va);
    if (!entry || (write && !(entry & V3D_TLB_WRITABLE))) {
        result->faulted = true;
        result->fault_write = write;
        result->fault_va = va;
        return NULL;
    }
    v3d_mmu_touch(mmu, va >> V3D_PAGE_SHIFT, write);
    uint8_t *flags = mmu->track ? v3d_mmu_noted(mmu, va) : NULL;
    if (flags)
        access_map_mark(flags + va % V3D_PAGE_BYTES, 4, write);
    return (uint32_t *)((entry & ~(uintptr_t)(V3D_PAGE_BYTES - 1)) + (va & (V3D_PAGE_BYTES - 1)));
}

void v3d_csd_run(struct v3d_mmu *mmu, enum v3d_version version, const uint32_t cfg[7], unsigned threads,
                 uint64_t limit, struct v3d_csd_result *result)
{
    uint32_t action = (cfg[5] & ~0xfu) == ACTION ? cfg[5] & 0xf : 0;
    (void)version, (void)threads, (void)limit;
    result->instructions = 1;
    if (action & ERROR)
        snprintf(result->error, sizeof(result->error), "instruction at 0x%08x: asked to fail", cfg[5]);
    if (action & READ) {
        if (!translate(mmu, cfg[6], false, result))
            return;
        result->bytes_read += 4;
    }
    if (action & WRITE) {
        uint32_t *word = translate(mmu, cfg[6], true, result);
        if (!word)
            return;
        *word = 0xc0ffee;
        result->bytes_written += 4;
    }
}
