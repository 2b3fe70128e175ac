/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether a program reads what it starts with of its workgroup: of batches beyond the workgroups of a
 * dispatch no source says what that is. Programs that need it not put something else into its registers, or
 * name them not at all. Sources: see v3d_csd.c.
 */
#include "v3d_qpu_program.h"

/* Registers of the payload, a bit each, as far as the instruction reads them. */
static unsigned read_by(const struct qpu_instr *instr, unsigned payload)
{
    const struct qpu_alu *alus[] = {&instr->add, &instr->mul};
    unsigned read = 0;

    if (instr->is_branch) {
        const struct qpu_branch *b = &instr->branch;
        bool names =
            b->destination == QPU_DEST_REGFILE || (b->uniforms && b->uniform_destination == QPU_DEST_REGFILE);

        return names && b->raddr_a < 32 ? 1u << b->raddr_a & payload : 0;
    }
    for (unsigned i = 0; i < 2; i++)
        for (unsigned source = 0; source < qpu_op_sources(alus[i]->op); source++) {
            uint8_t mux = alus[i]->mux[source];

            if (mux >= QPU_MUX_A && !qpu_is_immediate(instr, mux) && instr->raddr[mux - QPU_MUX_A] < 32)
                read |= 1u << instr->raddr[mux - QPU_MUX_A];
        }
    return read & payload;
}

/* Those of which it leaves nothing. */
static unsigned replaced_by(const struct qpu_instr *instr, unsigned payload)
{
    const struct qpu_alu *alus[] = {&instr->add, &instr->mul};
    unsigned written = 0;

    for (unsigned i = 0; i < 2; i++)
        if (qpu_op_has_destination(alus[i]->op) && !alus[i]->magic && alus[i]->waddr < 32 &&
            alus[i]->cond == QPU_COND_ALWAYS && alus[i]->pack == QPU_PACK_NONE)
            written |= 1u << alus[i]->waddr;
    if ((instr->signals & QPU_SIG_ADDRESSED) && !instr->sig_magic && instr->sig_addr < 32)
        written |= 1u << instr->sig_addr;
    return written & payload;
}

bool qpu_reads_payload(const struct qpu_program *program)
{
    unsigned left = 1u << (qpu_payload_slot(program->version) - QPU_SLOT_RF) | 1u << 2;
    bool straight = true; /* up to the first branch every instruction is run */

    for (uint32_t i = 0; i < program->count && left; i++) {
        const struct qpu_instr *instr = &program->instr[i];

        if (program->reason[i])
            continue;
        if (read_by(instr, left) || (!instr->is_branch && instr->add.op == QPU_OP_MSF))
            return true;
        straight = straight && !instr->is_branch;
        if (straight)
            left &= ~replaced_by(instr, left);
    }
    return false;
}
