/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gangs: threads of a supergroup that run the same micro-operations together, so that what is not done by
 * lane is done once. Internal to the interpreter. Sources: see v3d_qpu_exec.c.
 *
 * A gang is a leader and the threads behind it in an array. The leader has the state of the instruction
 * stream; each thread has its own registers and queues. Where one of them goes another way or fails, it and
 * those behind it leave the gang, and run when the leader has ended or waits at a barrier: a gang's threads
 * run in the order in which they would run one by one.
 */
#ifndef GRAMOPHONE_V3D_QPU_GANG_H
#define GRAMOPHONE_V3D_QPU_GANG_H

#include "v3d_qpu_thread.h"

/* Threads of a gang at most. */
enum { QPU_GANG = 4 };

/* Let the threads from number `first` (>= 1) on leave the gang, as a gang of their own, which begins with
 * `uop` and the state of the instruction stream that the leader has now. Returns its leader. What they were
 * found to fail with is forgotten: they fail when they run. */
struct qpu_thread *qpu_gang_part(struct qpu_thread *leader, const struct qpu_uop *uop, unsigned first);

/* Make gangs of `count` threads, which wait at the same barrier or have not started. */
void qpu_gang_form(struct qpu_thread *threads, unsigned count);

#endif
