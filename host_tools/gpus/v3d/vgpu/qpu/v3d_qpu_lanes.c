/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Operations of a V3D 7.1's add ALU that look at other lanes. What they compute: Mesa 25.0.7,
 * src/broadcom/compiler/nir_to_vir.c, by what it uses each for: ballot, read_first_invocation (bcastf),
 * vote_ieq and vote_feq (alleq, allfeq), shuffle. Lanes whose condition does not hold take no part, and are
 * not written.
 *
 * rot and rotq have no handler: Mesa uses neither.
 */
#include "v3d_qpu_alu.h"
#include "v3d_qpu_gang.h"

/* Whether the values of the lanes that take part are equal, in the sense of the operation. */
static bool all_equal(uint8_t op, const qpu_u32 *a, unsigned lanes)
{
    const qpu_u32 first = qpu_splat(((const uint32_t *)a)[lanes ? __builtin_ctz(lanes) : 0]);
    const qpu_i32 equal =
        op == QPU_OP_ALLEQ ? (qpu_i32)(*a == first) : (qpu_i32)((qpu_f32)*a == (qpu_f32)first);

    return !(lanes & ~qpu_mask_bits(equal));
}

/* One thread's. */
static void across(struct qpu_thread *t, const struct qpu_uop *u)
{
    const uint8_t op = (uint8_t)u->value;
    const unsigned lanes = qpu_condition_bits(t, u->cond);
    const qpu_u32 a = t->slot[u->a], b = t->slot[u->b];
    qpu_u32 result = {0};

    switch (op) {
    case QPU_OP_BALLOT: result = qpu_splat(lanes & qpu_mask_bits(a != 0)); break;
    case QPU_OP_BCASTF: result = qpu_splat(a[lanes ? __builtin_ctz(lanes) : 0]); break;
    case QPU_OP_SHUFFLE:
        for (unsigned lane = 0; lane < QPU_LANES; lane++)
            result[lane] = a[b[lane] % QPU_LANES];
        break;
    default: result = qpu_splat(all_equal(op, &a, lanes)); /* yes: not 0, no source says what */
    }
    qpu_finish(t, u, QPU_FULL, result, false, QPU_NO_CARRY);
}

static const struct qpu_uop *across_full(struct qpu_thread *t, const struct qpu_uop *u)
{
    const uint8_t op = (uint8_t)u->value;

    for (unsigned i = 0; i < t->gang; i++) {
        if (op == QPU_OP_SHUFFLE || !(qpu_condition_bits(t + i, u->cond) & ~t[i].exist))
            across(t + i, u);
        else if (i > 0)
            qpu_gang_part(t, u, i);
        else
            return qpu_fail(t, u, "%s with lanes that do not exist: whether they take part is not known",
                            qpu_op_name(op));
    }
    QPU_GO_ON(t, u);
}

const struct qpu_alu_handlers qpu_lane_handlers[QPU_OP_COUNT] = {
    QPU_ONLY_FULL(BALLOT, across), QPU_ONLY_FULL(BCASTF, across),  QPU_ONLY_FULL(ALLEQ, across),
    QPU_ONLY_FULL(ALLFEQ, across), QPU_ONLY_FULL(SHUFFLE, across),
};
