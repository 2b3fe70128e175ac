/* Test double of the compute engine: touches nothing, or does what a configuration word asks for.
 *
 * cfg4 chooses: 0 nothing; 1 reads the word at cfg6; 2 writes 0xc0ffee at cfg6; 3 both; 4 reports an error.
 * Works as the real engine does: through the translation table, noting what it touches. */
#include <stdio.h>
#include <string.h>

#include "v3d_qpu.h"

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
    mmu->touched[va >> V3D_PAGE_SHIFT] |= write ? 2 : 1;
    if (mmu->track)
        v3d_mmu_note(mmu, va, 4, write);
    return (uint32_t *)((entry & ~(uintptr_t)(V3D_PAGE_BYTES - 1)) + (va & (V3D_PAGE_BYTES - 1)));
}

void v3d_csd_run(struct v3d_mmu *mmu, const uint32_t cfg[7], unsigned threads, struct v3d_csd_result *result)
{
    (void)threads;
    result->instructions = 1;
    if (cfg[4] == 4)
        snprintf(result->error, sizeof(result->error), "instruction at 0x%08x: asked to fail", cfg[5]);
    if (cfg[4] == 1 || cfg[4] == 3) {
        if (!translate(mmu, cfg[6], false, result))
            return;
        result->bytes_read += 4;
    }
    if (cfg[4] == 2 || cfg[4] == 3) {
        uint32_t *word = translate(mmu, cfg[6], true, result);
        if (!word)
            return;
        *word = 0xc0ffee;
        result->bytes_written += 4;
    }
}
