/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Uniforms that the dispatch itself has written: their cache on the chip may still hold what was there before
 * (py-videocore6, tests/test_tmu.py, has a program that sees it), and when it does, no source says. So a
 * program that moves the uniform stream to an address, and there comes upon such a word, is an error. Mesa's
 * shaders move the stream along their own uniforms only. Sources: see v3d_qpu_exec.c.
 */
#include "v3d_qpu_program.h"
#include "v3d_qpu_tmu.h"

#include <inttypes.h>
#include <stdlib.h>

/* A bit for each word of the address space. The host has memory for those only that are set. */
#define STORED_BYTES ((size_t)1 << 27)

unsigned qpu_uniforms_taken(const struct qpu_instr *instr)
{
    const struct qpu_alu *alus[] = {&instr->add, &instr->mul};
    unsigned taken = (instr->signals & QPU_SIG_LDUNIF ? 1 : 0) + (instr->signals & QPU_SIG_LDUNIFRF ? 1 : 0);

    if (instr->is_branch)
        return instr->branch.uniforms && instr->branch.uniform_destination != QPU_DEST_REGFILE;
    for (unsigned i = 0; i < 2; i++)
        taken += alus[i]->op != QPU_OP_NOP && alus[i]->magic && alus[i]->waddr == QPU_MAGIC_TMUAU;
    return taken;
}

bool qpu_moves_uniforms(const struct qpu_instr *instr)
{
    return instr->is_branch && instr->branch.uniforms &&
           instr->branch.uniform_destination != QPU_DEST_RELATIVE;
}

bool qpu_keep_stored(struct qpu_worker *worker)
{
    free(worker->stored);
    worker->stored = calloc(STORED_BYTES, 1);
    return worker->stored;
}

void qpu_note_stored(struct qpu_worker *worker, const struct qpu_access *access)
{
    for (unsigned left = access->lanes; left; left &= left - 1)
        for (unsigned c = 0; c < access->components; c++) {
            uint32_t va = qpu_component_address(access, (unsigned)__builtin_ctz(left), c);

            worker->stored[va >> 5] |= (uint8_t)(1u << (va >> 2 & 7));
        }
}

/* Before a word is taken from the uniform stream. */
const struct qpu_uop *qpu_check_uniform(struct qpu_thread *t, const struct qpu_uop *u)
{
    uint32_t va = t->uniform_va;

    if (t->worker->stored[va >> 5] >> (va >> 2 & 7) & 1)
        return qpu_fail(t, u,
                        "uniform at 0x%08" PRIx32
                        ", which the dispatch has written: whether the GPU sees that is not known",
                        va);
    QPU_GO_ON(t, u);
}
