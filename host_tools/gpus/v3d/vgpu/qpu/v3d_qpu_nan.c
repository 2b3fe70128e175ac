/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * NaNs where no source says what becomes of them: a dispatch of a V3D 4.2 may say that NaNs are not
 * propagated (bit 2 of configuration word 5 is clear), which Mesa never does and those who write programs by
 * hand do. Such a program runs as long as no operation on numbers takes or makes a NaN; one that does is an
 * error. So are, in every dispatch, NaNs and subnormal numbers in faddnf, of which only is known that it
 * adds.
 *
 * Sources: Mesa 22.3.6, src/broadcom/vulkan/v3dv_cmd_buffer.c (the bit); py-videocore6,
 * src/_videocore6/driver.py and tests/test_alu.py.
 */
#include "v3d_qpu_alu.h"
#include "v3d_qpu_gang.h"
#include "v3d_qpu_program.h"

/* Operations whose result is a NaN if an operand is one need no look at their operands. */
unsigned qpu_nan_before(const struct qpu_program *program, const struct qpu_alu *alu)
{
    switch (alu->op) {
    case QPU_OP_FADDNF: return QPU_NAN_A | QPU_NAN_B | QPU_NAN_SUBNORMAL;
    case QPU_OP_FCMP: return program->checks_nan ? QPU_NAN_A | QPU_NAN_B : 0;
    case QPU_OP_FTOIN:
    case QPU_OP_FTOIZ:
    case QPU_OP_FTOUZ: return program->checks_nan ? QPU_NAN_A : 0;
    default: return 0;
    }
}

unsigned qpu_nan_after(const struct qpu_program *program, const struct qpu_alu *alu)
{
    unsigned packed = alu->pack == QPU_PACK_L   ? QPU_NAN_LOW
                      : alu->pack == QPU_PACK_H ? QPU_NAN_HIGH
                                                : QPU_NAN_SINGLE;

    if (alu->op == QPU_OP_FADDNF)
        return packed | QPU_NAN_SUBNORMAL;
    if (!program->checks_nan)
        return 0;
    switch (alu->op) {
    case QPU_OP_VFMUL:
    case QPU_OP_VFMIN:
    case QPU_OP_VFMAX:
    case QPU_OP_VFPACK: return QPU_NAN_LOW | QPU_NAN_HIGH;
    case QPU_OP_FCMP: return alu->magic && alu->waddr == QPU_MAGIC_NOP ? 0 : packed;
    case QPU_OP_FADD:
    case QPU_OP_FSUB:
    case QPU_OP_FMUL:
    case QPU_OP_FMIN:
    case QPU_OP_FMAX:
    case QPU_OP_FMOV:
    case QPU_OP_FROUND:
    case QPU_OP_FTRUNC:
    case QPU_OP_FFLOOR:
    case QPU_OP_FCEIL:
    case QPU_OP_FDX:
    case QPU_OP_FDY:
    case QPU_OP_RECIP:
    case QPU_OP_RSQRT:
    case QPU_OP_RSQRT2:
    case QPU_OP_EXP:
    case QPU_OP_LOG:
    case QPU_OP_SIN: return packed;
    default: return 0;
    }
}

/* Lanes with a NaN, or a subnormal number where that counts. `infinity`: its bits, all of the exponent. */
QPU_INLINE qpu_i32 unclear(qpu_u32 magnitude, uint32_t infinity, unsigned look)
{
    qpu_i32 found = (qpu_i32)(magnitude > infinity);

    if (look & QPU_NAN_SUBNORMAL)
        found |= (qpu_i32)(magnitude != 0) & (qpu_i32)((magnitude & infinity) == 0);
    return found;
}

/* One thread's lanes whose operation is not modelled. */
static unsigned unclear_lanes(const struct qpu_thread *t, const struct qpu_uop *u)
{
    const uint32_t single = 0x7f800000, half = 0x7c00;
    const qpu_u32 result = t->slot[u->a];
    const unsigned look = u->value;
    qpu_i32 found = {0};

    if (look & QPU_NAN_SINGLE)
        found |= unclear(result & 0x7fffffff, single, look);
    if (look & QPU_NAN_LOW)
        found |= unclear(result & 0x7fff, half, look);
    if (look & QPU_NAN_HIGH)
        found |= unclear(result >> 16 & 0x7fff, half, look);
    if (look & QPU_NAN_A)
        found |= unclear(qpu_source(t, QPU_FULL, u->a, u->unpack_a) & 0x7fffffff, single, look);
    if (look & QPU_NAN_B)
        found |= unclear(qpu_source(t, QPU_FULL, u->b, u->unpack_b) & 0x7fffffff, single, look);
    return qpu_mask_bits(found) & qpu_condition_bits(t, u->cond);
}

const struct qpu_uop *qpu_check_nan(struct qpu_thread *t, const struct qpu_uop *u)
{
    const unsigned lanes = unclear_lanes(t, u);

    if (lanes && u->value & QPU_NAN_SUBNORMAL)
        return qpu_fail(t, u, "faddnf with a NaN or a subnormal number: not modelled (lane mask 0x%04x)",
                        lanes);
    if (lanes)
        return qpu_fail(t, u, "NaN in a dispatch that does not propagate it: not modelled (lane mask 0x%04x)",
                        lanes);
    for (unsigned i = 1; i < t->gang; i++)
        if (unclear_lanes(t + i, u))
            qpu_gang_part(t, u, i);
    QPU_GO_ON(t, u);
}
