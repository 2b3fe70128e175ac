/* SPDX-License-Identifier: BSD-2-Clause */
/* What the parts of the translator share. Internal to them. Sources: see v3d_qpu_program.c. */
#ifndef GRAMOPHONE_V3D_QPU_PROGRAM_H
#define GRAMOPHONE_V3D_QPU_PROGRAM_H

#include "v3d_qpu_thread.h"

/* Delay slots. */
enum { QPU_BRANCH_DELAY = 3, QPU_SWITCH_DELAY = 2 };

static inline bool qpu_has_thrsw(const struct qpu_program *program, uint32_t i)
{
    return i < program->count && (program->instr[i].signals & QPU_SIG_THRSW);
}

/* A thrsw that switches. Of two in a row the second only announces the last section. */
static inline bool qpu_switches_at(const struct qpu_program *program, uint32_t i)
{
    return qpu_has_thrsw(program, i) && !(i > 0 && qpu_has_thrsw(program, i - 1));
}

/* How many words of the uniform stream the instruction takes; whether it is a branch that moves the stream to
 * an address, rather than by so much. */
unsigned qpu_uniforms_taken(const struct qpu_instr *instr); /* v3d_qpu_stale.c */
bool qpu_moves_uniforms(const struct qpu_instr *instr);

/* Where a NaN in what an ALU takes or leaves must be looked for, of enum qpu_nan; 0: nowhere. */
unsigned qpu_nan_before(const struct qpu_program *program, const struct qpu_alu *alu);
unsigned qpu_nan_after(const struct qpu_program *program, const struct qpu_alu *alu);

enum qpu_nan {
    QPU_NAN_SINGLE = 1,    /* in slot a */
    QPU_NAN_LOW = 2,       /* in its low half */
    QPU_NAN_HIGH = 4,      /* in its high half */
    QPU_NAN_A = 8,         /* in slot a, unpacked */
    QPU_NAN_B = 16,        /* in slot b, unpacked */
    QPU_NAN_SUBNORMAL = 32 /* a subnormal number counts, too */
};

/* Why instruction i of the program cannot run, or NULL. */
const char *qpu_unmodelled(const struct qpu_program *program, uint32_t i);

#endif
