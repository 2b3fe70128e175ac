/* SPDX-License-Identifier: BSD-2-Clause */
/* Floating-point operations of the ALUs. Sources: see v3d_qpu_alu.c. */
#include "v3d_qpu_alu.h"

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

#define FLOAT2(name, result)                                                                                 \
    QPU_BODY(name)                                                                                           \
    {                                                                                                        \
        const qpu_f32 a = (qpu_f32)qpu_source(t, variant, u->a, u->unpack_a);                                \
        const qpu_f32 b = (qpu_f32)qpu_source(t, variant, u->b, u->unpack_b);                                \
        qpu_finish(t, u, variant, (result), true, QPU_NO_CARRY);                                             \
    }                                                                                                        \
    QPU_HANDLERS(name)

FLOAT2(fadd, qpu_float_result(a + b))
FLOAT2(fsub, qpu_float_result(a - b))
FLOAT2(fmul, qpu_float_result(a *b))
FLOAT2(fmin, float_min(a, b))
FLOAT2(fmax, float_max(a, b))
QPU_UNARY(fmov, a, true)

/* Flags: z equal, n less, c less or equal (Mesa, nir_to_vir.c: feq, flt and fge). Result: the difference
 * (py-videocore6, tests/test_alu.py). */
QPU_BODY(fcmp)
{
    const qpu_f32 a = (qpu_f32)qpu_source(t, variant, u->a, u->unpack_a);
    const qpu_f32 b = (qpu_f32)qpu_source(t, variant, u->b, u->unpack_b);

    if (variant == QPU_FULL) {
        struct qpu_uop without_flags = *u;

        without_flags.flag_op = QPU_FLAG_NONE;
        qpu_finish(t, &without_flags, QPU_FULL, qpu_float_result(a - b), true, QPU_NO_CARRY);
    }
    if (variant != QPU_FULL || u->flag_op != QPU_FLAG_NONE)
        qpu_update_flags(t, u->flag_op, a == b, a < b, a <= b);
}
QPU_HANDLER(fcmp, flags, QPU_FLAGS)
QPU_HANDLER(fcmp, full, QPU_FULL)

/* Derivatives: a quad is two lanes by two, and each lane gets the difference along its row or column
 * (py-videocore6, tests/test_alu.py). */
QPU_INLINE qpu_u32 across_rows(qpu_u32 a)
{
    const qpu_u32 left = __builtin_shufflevector(a, a, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14);
    const qpu_u32 right = __builtin_shufflevector(a, a, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);

    return qpu_float_result((qpu_f32)right - (qpu_f32)left);
}

QPU_INLINE qpu_u32 across_columns(qpu_u32 a)
{
    const qpu_u32 top = __builtin_shufflevector(a, a, 0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    const qpu_u32 low = __builtin_shufflevector(a, a, 2, 3, 2, 3, 6, 7, 6, 7, 10, 11, 10, 11, 14, 15, 14, 15);

    return qpu_float_result((qpu_f32)low - (qpu_f32)top);
}

QPU_UNARY(fdx, across_rows(a), true)
QPU_UNARY(fdy, across_columns(a), true)

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

QPU_UNARY(fround, round_lanes(a, round_even), true)
QPU_UNARY(ftrunc, round_lanes(a, round_zero), true)
QPU_UNARY(ffloor, round_lanes(a, round_down), true)
QPU_UNARY(fceil, round_lanes(a, round_up), true)

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

QPU_UNARY(ftoin, to_signed(round_lanes(a, round_even)), false)
QPU_UNARY(ftoiz, to_signed(a), false)
QPU_UNARY(ftouz, to_unsigned(a), false)
QPU_UNARY(itof, (qpu_u32) __builtin_convertvector((qpu_i32)a, qpu_f32), true)
QPU_UNARY(utof, (qpu_u32) __builtin_convertvector(a, qpu_f32), true)

QPU_INLINE qpu_u32 special(uint8_t op, qpu_u32 x)
{
    qpu_sfu(op, &x);
    return x;
}

QPU_UNARY(recip, special(QPU_OP_RECIP, a), true)
QPU_UNARY(rsqrt, special(QPU_OP_RSQRT, a), true)
QPU_UNARY(exp, special(QPU_OP_EXP, a), true)
QPU_UNARY(log, special(QPU_OP_LOG, a), true)
QPU_UNARY(sin, special(QPU_OP_SIN, a), true)

/* ---- half precision: two values a lane ---- */

#define HALF2(name, single_operation)                                                                        \
    QPU_BODY(name)                                                                                           \
    {                                                                                                        \
        const qpu_u32 x = qpu_source(t, variant, u->a, u->unpack_a);                                         \
        const qpu_u32 y = qpu_source(t, variant, u->b, u->unpack_b);                                         \
        qpu_f32 a = (qpu_f32)qpu_half_to_single(x & 0xffff), b = (qpu_f32)qpu_half_to_single(y & 0xffff);    \
        const qpu_u32 low = qpu_single_to_half(single_operation);                                            \
        a = (qpu_f32)qpu_half_to_single(x >> 16);                                                            \
        b = (qpu_f32)qpu_half_to_single(y >> 16);                                                            \
        qpu_finish(t, u, variant, low | qpu_single_to_half(single_operation) << 16, false, QPU_NO_CARRY);    \
    }                                                                                                        \
    QPU_HANDLERS(name)

HALF2(vfmul, qpu_float_result(a *b)) /* the product of two halves is exact in single precision */
HALF2(vfmin, float_min(a, b))
HALF2(vfmax, float_max(a, b))

QPU_BODY(vfpack)
{
    const qpu_u32 a = qpu_source(t, variant, u->a, u->unpack_a);
    const qpu_u32 b = qpu_source(t, variant, u->b, u->unpack_b);

    qpu_finish(t, u, variant, qpu_single_to_half(a) | qpu_single_to_half(b) << 16, false, QPU_NO_CARRY);
}
QPU_HANDLERS(vfpack)

const struct qpu_alu_handlers qpu_float_handlers[QPU_OP_COUNT] = {
    QPU_ALL(FADD, fadd),     QPU_ALL(FSUB, fsub),
    QPU_ALL(FADDNF, fadd),   QPU_ALL(RSQRT2, rsqrt),
    QPU_ALL(FDX, fdx),       QPU_ALL(FDY, fdy),
    QPU_ALL(FMUL, fmul),     QPU_ALL(FMIN, fmin),
    QPU_ALL(FMAX, fmax),     QPU_ALL(FTOIN, ftoin),
    QPU_ALL(FTOIZ, ftoiz),   QPU_ALL(FTOUZ, ftouz),
    QPU_ALL(FMOV, fmov),     [QPU_OP_FCMP] = {{[QPU_FLAGS] = fcmp_flags, [QPU_FULL] = fcmp_full}},
    QPU_ALL(FROUND, fround), QPU_ALL(FTRUNC, ftrunc),
    QPU_ALL(FFLOOR, ffloor), QPU_ALL(FCEIL, fceil),
    QPU_ALL(ITOF, itof),     QPU_ALL(UTOF, utof),
    QPU_ALL(RECIP, recip),   QPU_ALL(RSQRT, rsqrt),
    QPU_ALL(EXP, exp),       QPU_ALL(LOG, log),
    QPU_ALL(SIN, sin),       QPU_ALL(VFMUL, vfmul),
    QPU_ALL(VFMIN, vfmin),   QPU_ALL(VFMAX, vfmax),
    QPU_ALL(VFPACK, vfpack),
};
