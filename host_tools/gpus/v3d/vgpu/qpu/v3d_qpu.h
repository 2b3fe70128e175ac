/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The compute engine of a V3D: decodes and executes QPU machine code for one CSD dispatch.
 *
 * Knows nothing of registers or interrupts; v3d_device.c does. Memory goes through struct v3d_mmu.
 * Sources: see v3d_csd.c and v3d_qpu_decode.h.
 */
#ifndef GRAMOPHONE_V3D_QPU_H
#define GRAMOPHONE_V3D_QPU_H

#include <stdbool.h>
#include <stdint.h>

#include "v3d_mmu.h"
#include "v3d_version.h"

struct v3d_csd_result {
    uint64_t instructions;
    uint64_t bytes_read, bytes_written;
    /* While an access map is kept, and data is not followed: accesses may depend on more than what is marked
     * as VGPU_ACCESS_COMMAND (v3d_qpu_decide.c). */
    bool varies;
    bool faulted;     /* MMU fault: address and kind below; the dispatch was abandoned */
    bool fault_write; /* a write to a page that is not writable (else: page not valid) */
    uint32_t fault_va;
    char error[256]; /* not empty: unknown opcode, signal, field...; names address, instruction and bits */
};

/*
 * Run one dispatch to its end. cfg: the first seven CSD queued-configuration words. threads: worker threads
 * (>= 1). limit: instructions that it may run before it counts as hung; 0: as many as the GPU does in some
 * seconds. Workgroups are spread over the threads; the result does not depend on their number for race-free
 * shaders.
 */
void v3d_csd_run(struct v3d_mmu *mmu, enum v3d_version version, const uint32_t cfg[7], unsigned threads,
                 uint64_t limit, struct v3d_csd_result *result);

#endif
