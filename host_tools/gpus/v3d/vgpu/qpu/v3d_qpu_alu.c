/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The add and mul ALUs: integers, and operations without operands. Carry is modelled where Mesa's compiler
 * uses it; operations that only make sense outside compute shaders, or whose effect no public source states,
 * have no handler: the translator makes them an error.
 *
 * Sources of the semantics: Mesa 22.3.6, src/broadcom/compiler/nir_to_vir.c (what each operation is used
 * for) and src/broadcom/qpu/qpu_instr.h (packing).
 */
#include "v3d_qpu_alu.h"

/* ---- integers ---- */

QPU_INLINE qpu_u32 rotate_right(qpu_u32 a, qpu_u32 b)
{
    return a >> (b & 31) | a << (-b & 31);
}

QPU_INLINE qpu_u32 count_leading_zeros(qpu_u32 a)
{
    qpu_u32 r = {0};

    for (int i = 0; i < QPU_LANES; i++)
        r[i] = a[i] ? (uint32_t)__builtin_clz(a[i]) : 32;
    return r;
}

/* Sign-extended low 24 bits. */
QPU_INLINE qpu_u32 signed24(qpu_u32 a)
{
    return (qpu_u32)((qpu_i32)(a << 8) >> 8);
}

QPU_INTEGER2(add, a + b, (qpu_i32)(a + b < a))
QPU_INTEGER2(sub, a - b, (qpu_i32)(a < b)) /* carry: borrow */
QPU_INTEGER2(min, qpu_select((qpu_i32)a < (qpu_i32)b, a, b),
             (qpu_i32)a > (qpu_i32)b) /* carry: b is the smaller */
QPU_INTEGER2(max, qpu_select((qpu_i32)a > (qpu_i32)b, a, b), QPU_NO_CARRY)
QPU_INTEGER2(umin, qpu_select((qpu_i32)(a < b), a, b), QPU_NO_CARRY)
QPU_INTEGER2(umax, qpu_select((qpu_i32)(a > b), a, b), QPU_NO_CARRY)
QPU_INTEGER2(shl, a << (b & 31), QPU_NO_CARRY)
QPU_INTEGER2(asr, (qpu_u32)((qpu_i32)a >> (qpu_i32)(b & 31)), QPU_NO_CARRY)
QPU_INTEGER2(ror, rotate_right(a, b), QPU_NO_CARRY)
QPU_INTEGER2(and, a &b, QPU_NO_CARRY)
QPU_INTEGER2(or, a | b, QPU_NO_CARRY)
QPU_INTEGER2(xor, a ^ b, QPU_NO_CARRY)
QPU_INTEGER2(smul24, signed24(a) * signed24(b), QPU_NO_CARRY)
QPU_INTEGER2(vadd, ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000)), QPU_NO_CARRY)
QPU_INTEGER2(vsub, ((a - b) & 0xffff) | ((a & 0xffff0000) - (b & 0xffff0000)), QPU_NO_CARRY)
QPU_UNARY(not, ~a, false)
QPU_UNARY(neg, -a, false)
QPU_UNARY(clz, count_leading_zeros(a), false)
QPU_UNARY(mov, a, false)

/*
 * The workgroup's number among those in memory sits in bits 16 and up of rf2; a shader that shifts it out
 * addresses shared memory with it (Mesa, nir_to_vir.c: cs_shared_offset). The dispatcher wants to know.
 */
QPU_INLINE qpu_u32 shift_right(struct qpu_thread *t, qpu_u32 a, qpu_u32 b)
{
    if (__builtin_expect(b[0] == 16, 0) && !qpu_any(a ^ t->payload))
        t->worker->shared_memory = true;
    return a >> (b & 31);
}
QPU_INTEGER2(shr, shift_right(t, a, b), QPU_NO_CARRY)

/*
 * A 32-bit product takes two steps: multop leaves the sum of the two mixed products of a high byte and a
 * low 24-bit part in rtop, umul24 adds it, shifted, to the product of the low parts and clears it.
 */
QPU_INLINE qpu_u32 multop_apply(struct qpu_thread *t, qpu_u32 a, qpu_u32 b)
{
    t->rtop = (a >> 24) * (b & 0xffffff) + (a & 0xffffff) * (b >> 24);
    return t->rtop;
}
QPU_INTEGER2(multop, multop_apply(t, a, b), QPU_NO_CARRY)

QPU_INLINE qpu_u32 umul24_apply(struct qpu_thread *t, qpu_u32 a, qpu_u32 b)
{
    qpu_u32 result = (a & 0xffffff) * (b & 0xffffff) + (t->rtop << 24);

    t->rtop = (qpu_u32){0};
    return result;
}
QPU_INTEGER2(umul24, umul24_apply(t, a, b), QPU_NO_CARRY)

/* ---- no operands ---- */

#define NULLARY(name, result)                                                                                \
    QPU_BODY(name)                                                                                           \
    {                                                                                                        \
        qpu_finish(t, u, variant, (result), false, QPU_NO_CARRY);                                            \
    }                                                                                                        \
    QPU_HANDLERS(name)

/* One in the first lane of the mask, zero elsewhere. */
QPU_INLINE qpu_u32 first_lane(qpu_i32 mask)
{
    unsigned bits = qpu_mask_bits(mask);

    return (qpu_u32)qpu_mask_from_bits(bits & -bits) & 1;
}

/* Flags as two halves of a lane, each 1 or 0; and as two bits that are pushed below others. (py-videocore6,
 * tests/test_condition_codes.py. flpop leaves flags that are not known, which nobody may read:
 * v3d_qpu_unmodelled.c.) */
NULLARY(vfla, qpu_select(t->flag_a, qpu_splat(0x10001), (qpu_u32){0}))
NULLARY(vflna, qpu_select(t->flag_a, (qpu_u32){0}, qpu_splat(0x10001)))
NULLARY(vflb, qpu_select(t->flag_b, qpu_splat(0x10001), (qpu_u32){0}))
NULLARY(vflnb, qpu_select(t->flag_b, (qpu_u32){0}, qpu_splat(0x10001)))
QPU_UNARY(flapush, a << 2 | ((qpu_u32)t->flag_a & 3), false)
QPU_UNARY(flbpush, a << 2 | ((qpu_u32)t->flag_b & 3), false)
QPU_UNARY(flpop, a >> 2, false)

NULLARY(tidx, qpu_splat(t->thread_index))
NULLARY(lr, qpu_splat(t->link))
NULLARY(eidx, QPU_LANE_NUMBERS)
NULLARY(msf, t->msf)
NULLARY(flafirst, first_lane(t->flag_a))
NULLARY(flnafirst, first_lane(~t->flag_a))
NULLARY(zero, (qpu_u32){0}) /* tmuwt and barrierid: what they return carries no meaning */

QPU_BODY(setmsf)
{
    (void)variant;
    const qpu_u32 msf = qpu_select(qpu_condition(t, u->cond), t->slot[u->a], t->msf);

    qpu_set_msf(t, &msf);
}
QPU_HANDLER(setmsf, full, QPU_FULL)

const struct qpu_alu_handlers *qpu_alu_handlers(uint8_t op)
{
    static const struct qpu_alu_handlers table[QPU_OP_COUNT] = {
        QPU_ALL(ADD, add),
        QPU_ALL(SUB, sub),
        QPU_ALL(MIN, min),
        QPU_ALL(MAX, max),
        QPU_ALL(UMIN, umin),
        QPU_ALL(UMAX, umax),
        QPU_ALL(SHL, shl),
        QPU_ALL(SHR, shr),
        QPU_ALL(ASR, asr),
        QPU_ALL(ROR, ror),
        QPU_ALL(AND, and),
        QPU_ALL(OR, or),
        QPU_ALL(XOR, xor),
        QPU_ALL(VADD, vadd),
        QPU_ALL(VSUB, vsub),
        QPU_ALL(NOT, not ),
        QPU_ALL(NEG, neg),
        QPU_ALL(CLZ, clz),
        QPU_ALL(MADD, add),
        QPU_ALL(MSUB, sub),
        QPU_ALL(UMUL24, umul24),
        QPU_ALL(SMUL24, smul24),
        QPU_ALL(MULTOP, multop),
        QPU_ALL(MOV, mov),
        QPU_ALL(TIDX, tidx),
        QPU_ALL(LR, lr),
        QPU_ALL(EIDX, eidx),
        QPU_ALL(MSF, msf),
        QPU_ALL(VFLA, vfla),
        QPU_ALL(VFLNA, vflna),
        QPU_ALL(VFLB, vflb),
        QPU_ALL(VFLNB, vflnb),
        QPU_ALL(FLAPUSH, flapush),
        QPU_ALL(FLBPUSH, flbpush),
        QPU_ALL(FLPOP, flpop),
        QPU_ALL(FLAFIRST, flafirst),
        QPU_ALL(FLNAFIRST, flnafirst),
        QPU_ALL(TMUWT, zero),
        QPU_ALL(BARRIERID, zero),
        QPU_ONLY_FULL(SETMSF, setmsf),
    };
    if (table[op].run[QPU_FULL])
        return &table[op];
    return qpu_lane_handlers[op].run[QPU_FULL] ? &qpu_lane_handlers[op] : &qpu_float_handlers[op];
}
