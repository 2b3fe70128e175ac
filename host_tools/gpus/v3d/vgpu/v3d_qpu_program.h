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

/* Why instruction i of the program cannot run, or NULL. */
const char *qpu_unmodelled(const struct qpu_program *program, uint32_t i);

#endif
