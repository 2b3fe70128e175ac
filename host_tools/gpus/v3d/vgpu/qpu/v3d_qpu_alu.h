/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the operations of the ALUs have in common. Internal to v3d_qpu_alu.c, v3d_qpu_float.c and
 * v3d_qpu_lanes.c, which say what they compute.
 *
 * Of each operation there are handlers for the usual uses, so that these need not look for what they do not
 * have, and one for all. Sources: see v3d_qpu_decode.h.
 */
#ifndef GRAMOPHONE_V3D_QPU_ALU_H
#define GRAMOPHONE_V3D_QPU_ALU_H

#include "v3d_qpu_thread.h"

QPU_INLINE qpu_u32 qpu_replicate(qpu_u32 low_half)
{
    return (low_half & 0xffff) | low_half << 16;
}

/* Not below low, not above high. NaN stays, and so does -0: no source says what becomes of them. */
QPU_INLINE qpu_u32 qpu_clamp(qpu_u32 v, float low, float high)
{
    const qpu_f32 value = (qpu_f32)v;

    v = qpu_select(value < low, (qpu_u32)((qpu_f32){0} + low), v);
    return qpu_select(value > high, (qpu_u32)((qpu_f32){0} + high), v);
}

QPU_INLINE qpu_u32 qpu_source(const struct qpu_thread *t, enum qpu_variant variant, uint8_t slot,
                              uint8_t unpack)
{
    qpu_u32 v = t->slot[slot];

    if (variant != QPU_FULL)
        return v;
    switch (unpack) {
    case QPU_UNPACK_ABS: return v & 0x7fffffff;
    case QPU_UNPACK_L: return qpu_half_to_single(v & 0xffff);
    case QPU_UNPACK_H: return qpu_half_to_single(v >> 16);
    case QPU_UNPACK_FF: return qpu_replicate(qpu_single_to_half(v));
    case QPU_UNPACK_LL: return qpu_replicate(v);
    case QPU_UNPACK_HH: return qpu_replicate(v >> 16);
    case QPU_UNPACK_SWP: return v << 16 | v >> 16;
    case QPU_UNPACK_SAT: return qpu_clamp(v, 0.0f, 1.0f);
    case QPU_UNPACK_NSAT: return qpu_clamp(v, -1.0f, 1.0f);
    case QPU_UNPACK_MAX0: return qpu_clamp(v, 0.0f, __builtin_inff());
    case QPU_UNPACK_UL: return v & 0xffff;
    case QPU_UNPACK_UH: return v >> 16;
    case QPU_UNPACK_IL: return (qpu_u32)((qpu_i32)(v << 16) >> 16);
    case QPU_UNPACK_IH: return (qpu_u32)((qpu_i32)v >> 16);
    default: return v;
    }
}

/* Set or combine the flags, by the condition z, n or c. */
QPU_INLINE void qpu_update_flags(struct qpu_thread *t, uint8_t flag_op, qpu_i32 z, qpu_i32 n, qpu_i32 c)
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
QPU_INLINE void qpu_finish(struct qpu_thread *t, const struct qpu_uop *u, enum qpu_variant variant,
                           qpu_u32 result, bool is_float, qpu_i32 carry)
{
    qpu_u32 value = result;

    if (variant == QPU_FULL && u->pack != QPU_PACK_NONE) {
        qpu_u32 half = qpu_single_to_half(result);
        /* A queue has no other half to keep. */
        qpu_u32 kept = u->dst < QPU_SLOT_ADD ? t->slot[u->dst] : (qpu_u32){0};

        value = u->pack == QPU_PACK_L ? (kept & 0xffff0000) | half : (kept & 0xffff) | half << 16;
    }
    if (variant == QPU_CONDITIONAL || (variant == QPU_FULL && u->cond != QPU_COND_ALWAYS))
        value = qpu_select(qpu_flag(t, u->cond), value, t->slot[u->dst]);
    t->slot[u->dst] = value;
    if (variant == QPU_FLAGS || (variant == QPU_FULL && u->flag_op != QPU_FLAG_NONE))
        qpu_update_flags(t, u->flag_op, (qpu_i32)((is_float ? result << 1 : result) == 0),
                         (qpu_i32)result < 0, carry);
}

/* Defines the handler of one variant from the operation's body, QPU_BODY(NAME). (A copy of the
 * micro-operation is what compilers see that results are not written to.) */
#define QPU_HANDLER(name, suffix, variant)                                                                   \
    static const struct qpu_uop *name##_##suffix(struct qpu_thread *t, const struct qpu_uop *u)              \
    {                                                                                                        \
        const struct qpu_uop own = *u;                                                                       \
                                                                                                             \
        for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)                            \
            name##_body(each, &own, variant);                                                                \
        QPU_GO_ON(t, u);                                                                                     \
    }

/* Defines the handlers of all variants. */
#define QPU_HANDLERS(name)                                                                                   \
    QPU_HANDLER(name, plain, QPU_PLAIN)                                                                      \
    QPU_HANDLER(name, conditional, QPU_CONDITIONAL)                                                          \
    QPU_HANDLER(name, flags, QPU_FLAGS)                                                                      \
    QPU_HANDLER(name, full, QPU_FULL)

/* The head of an operation's body. */
#define QPU_BODY(name)                                                                                       \
    QPU_INLINE void name##_body(struct qpu_thread *t, const struct qpu_uop *u, const enum qpu_variant variant)

/* Operation of two integers a and b; result and carry are expressions of them. */
#define QPU_INTEGER2(name, result, carry)                                                                    \
    QPU_BODY(name)                                                                                           \
    {                                                                                                        \
        const qpu_u32 a = t->slot[u->a], b = t->slot[u->b];                                                  \
        qpu_finish(t, u, variant, (result), false, (carry));                                                 \
    }                                                                                                        \
    QPU_HANDLERS(name)

/* Operation of one source a; result is an expression of it. */
#define QPU_UNARY(name, result, is_float)                                                                    \
    QPU_BODY(name)                                                                                           \
    {                                                                                                        \
        const qpu_u32 a = qpu_source(t, variant, u->a, u->unpack_a);                                         \
        qpu_finish(t, u, variant, (result), (is_float), QPU_NO_CARRY);                                       \
    }                                                                                                        \
    QPU_HANDLERS(name)

#define QPU_NO_CARRY ((qpu_i32){0})

/* Entries of a table of handlers. */
#define QPU_ALL(id, name) [QPU_OP_##id] = {{name##_plain, name##_conditional, name##_flags, name##_full}}
#define QPU_ONLY_FULL(id, name) [QPU_OP_##id] = {{[QPU_FULL] = name##_full}}

/* Handlers of the floating-point operations, and of those that look at other lanes; those of others are
 * empty. */
extern const struct qpu_alu_handlers qpu_float_handlers[QPU_OP_COUNT], qpu_lane_handlers[QPU_OP_COUNT];

#endif
