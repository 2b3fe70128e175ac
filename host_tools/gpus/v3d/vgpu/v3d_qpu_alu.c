/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The add and mul ALUs. Every operation has a plain handler (operands straight from slots, no condition, no
 * packing, no flags) and a full one. Carry is modelled where Mesa's compiler uses it; operations that only
 * make sense outside compute shaders, or whose effect no public source states, have no handler: the
 * translator makes them an error.
 *
 * Sources of the semantics: Mesa 22.3.6, src/broadcom/compiler/nir_to_vir.c (what each operation is used
 * for) and src/broadcom/qpu/qpu_instr.h (packing).
 */
#include "v3d_qpu_thread.h"

QPU_INLINE qpu_u32 replicate(qpu_u32 low_half)
{
    return (low_half & 0xffff) | low_half << 16;
}

QPU_INLINE qpu_u32 source(const struct qpu_thread *t, uint8_t slot, uint8_t unpack)
{
    qpu_u32 v = t->slot[slot];

    switch (unpack) {
    case QPU_UNPACK_ABS: return v & 0x7fffffff;
    case QPU_UNPACK_L: return qpu_half_to_single(v & 0xffff);
    case QPU_UNPACK_H: return qpu_half_to_single(v >> 16);
    case QPU_UNPACK_FF: return replicate(qpu_single_to_half(v));
    case QPU_UNPACK_LL: return replicate(v);
    case QPU_UNPACK_HH: return replicate(v >> 16);
    case QPU_UNPACK_SWP: return v << 16 | v >> 16;
    default: return v;
    }
}

/* Set or combine the flags, by the condition z, n or c. */
QPU_INLINE void update_flags(struct qpu_thread *t, uint8_t flag_op, qpu_i32 z, qpu_i32 n, qpu_i32 c)
{
    int which = flag_op <= QPU_FLAG_PUSHC ? flag_op - QPU_FLAG_PUSHZ : (flag_op - QPU_FLAG_ANDZ) / 4;
    qpu_i32 x = which == 0 ? z : which == 1 ? n : c;

    if (flag_op <= QPU_FLAG_PUSHC) {
        t->flag_b = t->flag_a;
        t->flag_a = x;
        return;
    }
    switch ((flag_op - QPU_FLAG_ANDZ) % 4) {
    case 0: t->flag_a &= x; break;
    case 1: t->flag_a &= ~x; break;
    case 2: t->flag_a = ~(t->flag_a | ~x); break;
    default: t->flag_a = ~(t->flag_a | x); break;
    }
}

/* Condition, packing and flags of a result. A float result is zero whatever its sign. */
QPU_INLINE void finish(struct qpu_thread *t, const struct qpu_uop *u, qpu_u32 result, bool is_float,
                       qpu_i32 carry)
{
    qpu_u32 value = result, old = t->slot[u->dst];

    if (u->pack != QPU_PACK_NONE) {
        qpu_u32 half = qpu_single_to_half(result);
        qpu_u32 kept = u->dst < QPU_SLOT_ADD ? old : (qpu_u32){0}; /* a queue has no other half to keep */

        value = u->pack == QPU_PACK_L ? (kept & 0xffff0000) | half : (kept & 0xffff) | half << 16;
    }
    if (u->cond != QPU_COND_ALWAYS)
        value = qpu_select(qpu_condition(t, u->cond), value, old);
    t->slot[u->dst] = value;
    if (u->flag_op != QPU_FLAG_NONE)
        update_flags(t, u->flag_op, (qpu_i32)((is_float ? result << 1 : result) == 0), (qpu_i32)result < 0,
                     carry);
}

#define PLAIN(name) static const struct qpu_uop *name##_plain(struct qpu_thread *t, const struct qpu_uop *u)
#define FULL(name) static const struct qpu_uop *name##_full(struct qpu_thread *t, const struct qpu_uop *u)
#define NO_CARRY ((qpu_i32){0})

/* Integer operation of a and b; result and carry are expressions of them. */
#define INTEGER2(name, result, carry)                                                                        \
    PLAIN(name)                                                                                              \
    {                                                                                                        \
        const qpu_u32 a = t->slot[u->a], b = t->slot[u->b];                                                  \
        t->slot[u->dst] = (result);                                                                          \
        return u + 1;                                                                                        \
    }                                                                                                        \
    FULL(name)                                                                                               \
    {                                                                                                        \
        const qpu_u32 a = t->slot[u->a], b = t->slot[u->b];                                                  \
        finish(t, u, (result), false, (carry));                                                              \
        return u + 1;                                                                                        \
    }

#define INTEGER1(name, result)                                                                               \
    PLAIN(name)                                                                                              \
    {                                                                                                        \
        const qpu_u32 a = t->slot[u->a];                                                                     \
        t->slot[u->dst] = (result);                                                                          \
        return u + 1;                                                                                        \
    }                                                                                                        \
    FULL(name)                                                                                               \
    {                                                                                                        \
        const qpu_u32 a = source(t, u->a, u->unpack_a);                                                      \
        finish(t, u, (result), false, NO_CARRY);                                                             \
        return u + 1;                                                                                        \
    }

#define FLOAT2(name, result)                                                                                 \
    PLAIN(name)                                                                                              \
    {                                                                                                        \
        const qpu_f32 a = (qpu_f32)t->slot[u->a], b = (qpu_f32)t->slot[u->b];                                \
        t->slot[u->dst] = (result);                                                                          \
        return u + 1;                                                                                        \
    }                                                                                                        \
    FULL(name)                                                                                               \
    {                                                                                                        \
        const qpu_f32 a = (qpu_f32)source(t, u->a, u->unpack_a), b = (qpu_f32)source(t, u->b, u->unpack_b);  \
        finish(t, u, (result), true, NO_CARRY);                                                              \
        return u + 1;                                                                                        \
    }

#define FLOAT1(name, result)                                                                                 \
    FULL(name)                                                                                               \
    {                                                                                                        \
        const qpu_u32 a = source(t, u->a, u->unpack_a);                                                      \
        finish(t, u, (result), true, NO_CARRY);                                                              \
        return u + 1;                                                                                        \
    }

#define NULLARY(name, result)                                                                                \
    FULL(name)                                                                                               \
    {                                                                                                        \
        finish(t, u, (result), false, NO_CARRY);                                                             \
        return u + 1;                                                                                        \
    }

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

INTEGER2(add, a + b, (qpu_i32)(a + b < a))
INTEGER2(sub, a - b, (qpu_i32)(a < b)) /* carry: borrow */
INTEGER2(min, qpu_select((qpu_i32)a < (qpu_i32)b, a, b),
         (qpu_i32)a > (qpu_i32)b) /* carry: b is the smaller */
INTEGER2(max, qpu_select((qpu_i32)a > (qpu_i32)b, a, b), NO_CARRY)
INTEGER2(umin, qpu_select((qpu_i32)(a < b), a, b), NO_CARRY)
INTEGER2(umax, qpu_select((qpu_i32)(a > b), a, b), NO_CARRY)
INTEGER2(shl, a << (b & 31), NO_CARRY)
INTEGER2(asr, (qpu_u32)((qpu_i32)a >> (qpu_i32)(b & 31)), NO_CARRY)
INTEGER2(ror, rotate_right(a, b), NO_CARRY)
INTEGER2(and, a &b, NO_CARRY)
INTEGER2(or, a | b, NO_CARRY)
INTEGER2(xor, a ^ b, NO_CARRY)
INTEGER2(smul24, signed24(a) * signed24(b), NO_CARRY)
INTEGER2(vadd, ((a + b) & 0xffff) | ((a & 0xffff0000) + (b & 0xffff0000)), NO_CARRY)
INTEGER2(vsub, ((a - b) & 0xffff) | ((a & 0xffff0000) - (b & 0xffff0000)), NO_CARRY)
INTEGER1(not, ~a)
INTEGER1(neg, -a)
INTEGER1(clz, count_leading_zeros(a))
INTEGER1(mov, a)

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
INTEGER2(shr, shift_right(t, a, b), NO_CARRY)

/*
 * A 32-bit product takes two steps: multop leaves the sum of the two mixed products of a high byte and a
 * low 24-bit part in rtop, umul24 adds it, shifted, to the product of the low parts and clears it.
 */
QPU_INLINE qpu_u32 multop_apply(struct qpu_thread *t, qpu_u32 a, qpu_u32 b)
{
    t->rtop = (a >> 24) * (b & 0xffffff) + (a & 0xffffff) * (b >> 24);
    return t->rtop;
}
INTEGER2(multop, multop_apply(t, a, b), NO_CARRY)

QPU_INLINE qpu_u32 umul24_apply(struct qpu_thread *t, qpu_u32 a, qpu_u32 b)
{
    qpu_u32 result = (a & 0xffffff) * (b & 0xffffff) + (t->rtop << 24);

    t->rtop = (qpu_u32){0};
    return result;
}
INTEGER2(umul24, umul24_apply(t, a, b), NO_CARRY)

/* ---- single precision ---- */

/* NaN if either is; -0 is less than +0, so that the order of the operands does not matter. */
QPU_INLINE qpu_u32 float_min(qpu_f32 a, qpu_f32 b)
{
    qpu_u32 r = qpu_select(a < b, (qpu_u32)a, (qpu_u32)b);

    r = qpu_select(a == b, (qpu_u32)a | (qpu_u32)b, r);
    return qpu_select((a != a) | (b != b), qpu_splat(QPU_NAN), r);
}

QPU_INLINE qpu_u32 float_max(qpu_f32 a, qpu_f32 b)
{
    qpu_u32 r = qpu_select(a > b, (qpu_u32)a, (qpu_u32)b);

    r = qpu_select(a == b, (qpu_u32)a & (qpu_u32)b, r);
    return qpu_select((a != a) | (b != b), qpu_splat(QPU_NAN), r);
}

FLOAT2(fadd, qpu_float_result(a + b))
FLOAT2(fsub, qpu_float_result(a - b))
FLOAT2(fmul, qpu_float_result(a *b))
FLOAT2(fmin, float_min(a, b))
FLOAT2(fmax, float_max(a, b))
FLOAT1(fmov, a)

/* Only for its flags: z equal, n less, c less or equal (Mesa, nir_to_vir.c: feq, flt and fge). */
FULL(fcmp)
{
    const qpu_f32 a = (qpu_f32)source(t, u->a, u->unpack_a), b = (qpu_f32)source(t, u->b, u->unpack_b);

    if (u->flag_op != QPU_FLAG_NONE)
        update_flags(t, u->flag_op, a == b, a < b, a <= b);
    return u + 1;
}

QPU_INLINE qpu_u32 round_lanes(qpu_u32 bits, float (*round)(float))
{
    qpu_f32 a = (qpu_f32)bits;

    for (int i = 0; i < QPU_LANES; i++)
        a[i] = round(a[i]);
    return qpu_float_result(a);
}

static inline float round_even(float x)
{
    return __builtin_rintf(x);
}
static inline float round_zero(float x)
{
    return __builtin_truncf(x);
}
static inline float round_down(float x)
{
    return __builtin_floorf(x);
}
static inline float round_up(float x)
{
    return __builtin_ceilf(x);
}

FLOAT1(fround, round_lanes(a, round_even))
FLOAT1(ftrunc, round_lanes(a, round_zero))
FLOAT1(ffloor, round_lanes(a, round_down))
FLOAT1(fceil, round_lanes(a, round_up))

/* Out of range: the nearest integer there is; NaN: 0. (Vulkan leaves both undefined; no source says.) */
QPU_INLINE qpu_u32 to_signed(qpu_u32 bits)
{
    qpu_f32 a = (qpu_f32)bits;
    qpu_u32 r = {0};

    for (int i = 0; i < QPU_LANES; i++)
        r[i] = a[i] != a[i]      ? 0
               : a[i] >= 0x1p31f ? 0x7fffffffu
               : a[i] < -0x1p31f ? 0x80000000u
                                 : (uint32_t)(int32_t)a[i];
    return r;
}

QPU_INLINE qpu_u32 to_unsigned(qpu_u32 bits)
{
    qpu_f32 a = (qpu_f32)bits;
    qpu_u32 r = {0};

    for (int i = 0; i < QPU_LANES; i++)
        r[i] = !(a[i] > 0.0f) ? 0 : a[i] >= 0x1p32f ? 0xffffffffu : (uint32_t)a[i];
    return r;
}

INTEGER1(ftoin, to_signed(round_lanes(a, round_even)))
INTEGER1(ftoiz, to_signed(a))
INTEGER1(ftouz, to_unsigned(a))
FLOAT1(itof, (qpu_u32) __builtin_convertvector((qpu_i32)a, qpu_f32))
FLOAT1(utof, (qpu_u32) __builtin_convertvector(a, qpu_f32))

QPU_INLINE qpu_u32 special(uint8_t op, qpu_u32 x)
{
    qpu_sfu(op, &x);
    return x;
}

FLOAT1(recip, special(QPU_OP_RECIP, a))
FLOAT1(rsqrt, special(QPU_OP_RSQRT, a))
FLOAT1(exp, special(QPU_OP_EXP, a))
FLOAT1(log, special(QPU_OP_LOG, a))
FLOAT1(sin, special(QPU_OP_SIN, a))

/* ---- half precision: two values a lane ---- */

#define HALF2(name, single_operation)                                                                        \
    FULL(name)                                                                                               \
    {                                                                                                        \
        const qpu_u32 x = source(t, u->a, u->unpack_a), y = source(t, u->b, u->unpack_b);                    \
        qpu_f32 a = (qpu_f32)qpu_half_to_single(x & 0xffff), b = (qpu_f32)qpu_half_to_single(y & 0xffff);    \
        const qpu_u32 low = qpu_single_to_half(single_operation);                                            \
        a = (qpu_f32)qpu_half_to_single(x >> 16);                                                            \
        b = (qpu_f32)qpu_half_to_single(y >> 16);                                                            \
        finish(t, u, low | qpu_single_to_half(single_operation) << 16, false, NO_CARRY);                     \
        return u + 1;                                                                                        \
    }

HALF2(vfmul, qpu_float_result(a *b)) /* the product of two halves is exact in single precision */
HALF2(vfmin, float_min(a, b))
HALF2(vfmax, float_max(a, b))

FULL(vfpack)
{
    const qpu_u32 a = source(t, u->a, u->unpack_a), b = source(t, u->b, u->unpack_b);

    finish(t, u, qpu_single_to_half(a) | qpu_single_to_half(b) << 16, false, NO_CARRY);
    return u + 1;
}

/* ---- no operands ---- */

/* One in the first lane of the mask, zero elsewhere. */
QPU_INLINE qpu_u32 first_lane(qpu_i32 mask)
{
    unsigned bits = qpu_mask_bits(mask);

    return (qpu_u32)qpu_mask_from_bits(bits & -bits) & 1;
}

NULLARY(tidx, qpu_splat(t->thread_index))
NULLARY(eidx, QPU_LANE_NUMBERS)
NULLARY(msf, t->msf)
NULLARY(flafirst, first_lane(t->flag_a))
NULLARY(flnafirst, first_lane(~t->flag_a))
NULLARY(zero, (qpu_u32){0}) /* tmuwt and barrierid: what they return carries no meaning */

FULL(setmsf)
{
    t->msf = qpu_select(qpu_condition(t, u->cond), t->slot[u->a], t->msf);
    return u + 1;
}

struct qpu_alu_handlers qpu_alu_handlers(uint8_t op)
{
#define BOTH(id, name) [QPU_OP_##id] = { name##_plain, name##_full }
#define ONLY_FULL(id, name) [QPU_OP_##id] = {NULL, name##_full}
    static const struct qpu_alu_handlers table[QPU_OP_COUNT] = {
        BOTH(ADD, add),
        BOTH(SUB, sub),
        BOTH(MIN, min),
        BOTH(MAX, max),
        BOTH(UMIN, umin),
        BOTH(UMAX, umax),
        BOTH(SHL, shl),
        BOTH(SHR, shr),
        BOTH(ASR, asr),
        BOTH(ROR, ror),
        BOTH(AND, and),
        BOTH(OR, or),
        BOTH(XOR, xor),
        BOTH(VADD, vadd),
        BOTH(VSUB, vsub),
        BOTH(NOT, not ),
        BOTH(NEG, neg),
        BOTH(CLZ, clz),
        BOTH(MADD, add),
        BOTH(MSUB, sub),
        BOTH(UMUL24, umul24),
        BOTH(SMUL24, smul24),
        BOTH(MULTOP, multop),
        BOTH(MOV, mov),
        BOTH(FADD, fadd),
        BOTH(FSUB, fsub),
        BOTH(FMUL, fmul),
        BOTH(FMIN, fmin),
        BOTH(FMAX, fmax),
        BOTH(FTOIN, ftoin),
        BOTH(FTOIZ, ftoiz),
        BOTH(FTOUZ, ftouz),
        ONLY_FULL(FMOV, fmov),
        ONLY_FULL(FCMP, fcmp),
        ONLY_FULL(FROUND, fround),
        ONLY_FULL(FTRUNC, ftrunc),
        ONLY_FULL(FFLOOR, ffloor),
        ONLY_FULL(FCEIL, fceil),
        ONLY_FULL(ITOF, itof),
        ONLY_FULL(UTOF, utof),
        ONLY_FULL(RECIP, recip),
        ONLY_FULL(RSQRT, rsqrt),
        ONLY_FULL(EXP, exp),
        ONLY_FULL(LOG, log),
        ONLY_FULL(SIN, sin),
        ONLY_FULL(VFMUL, vfmul),
        ONLY_FULL(VFMIN, vfmin),
        ONLY_FULL(VFMAX, vfmax),
        ONLY_FULL(VFPACK, vfpack),
        ONLY_FULL(TIDX, tidx),
        ONLY_FULL(EIDX, eidx),
        ONLY_FULL(MSF, msf),
        ONLY_FULL(FLAFIRST, flafirst),
        ONLY_FULL(FLNAFIRST, flnafirst),
        ONLY_FULL(TMUWT, zero),
        ONLY_FULL(BARRIERID, zero),
        ONLY_FULL(SETMSF, setmsf),
    };
    return table[op];
}
