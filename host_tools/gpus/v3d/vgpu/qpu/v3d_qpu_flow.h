/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the data of a QPU thread comes from: a set of labels (bits) for each lane of each register, and for
 * each byte of memory (struct vgpu_flow in vgpu.h).
 *
 * A thread that is followed runs the same micro-operations; before each one its labels move. A result has the
 * labels of all its operands, so the sets are never too small, except where an input decides that something
 * is not written at all: such decisions are reported (struct vgpu_flow: addresses, control).
 *
 * Sources: see v3d_qpu_exec.c and v3d_qpu_tmu.c.
 */
#ifndef GRAMOPHONE_V3D_QPU_FLOW_H
#define GRAMOPHONE_V3D_QPU_FLOW_H

#include "v3d_qpu_tmu.h"

/* Labels of what a thread holds, beside struct qpu_thread and as it. */
struct qpu_labels {
    qpu_u32 slot[QPU_SLOTS];
    qpu_u32 rtop, flag_a, flag_b, msf;
    qpu_u32 operands; /* of the latest ALU operation */
    qpu_u32 tmu_data[QPU_TMU_DATA], tmu_fifo[QPU_TMU_FIFO];
    uint32_t uniform_va, unifa_va;
    const struct qpu_uop
        *combining; /* the latest micro-operation, if it combined flag A, which was `before` */
    qpu_i32 before;
    uint32_t control; /* of the branches so far: everything that is written from then on depends on them */
    uint32_t page;    /* page number + 1 of the latest access; 0: none */
    uint32_t *at;     /* labels of its bytes, or NULL */
};

/* Make the micro-operations move labels, too, and take in those of the code. False: out of memory. */
bool qpu_flow_prepare(struct qpu_program *program, struct qpu_worker *worker);

/* The state in which a thread starts. */
void qpu_flow_start(struct qpu_thread *thread);

/* A memory access is about to be made. */
void qpu_flow_access(struct qpu_thread *thread, const struct qpu_uop *uop, const struct qpu_access *access);

#endif
