/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparisons of integers: of words, halves, bytes and pairs of words; choices by them. Sources:
 * mali_bifrost.h. */
#include "mali_bifrost_integer.h"

#include "mali_bifrost_lanes.h"

/* A row of handlers by enum bifrost_condition; BODY is an expression in the operator. */
#define CONDITIONS(row, BODY)                                                                                \
    static BIFROST_HANDLER(row##_eq, BODY(==));                                                              \
    static BIFROST_HANDLER(row##_gt, BODY(>));                                                               \
    static BIFROST_HANDLER(row##_ge, BODY(>=));                                                              \
    static BIFROST_HANDLER(row##_ne, BODY(!=));                                                              \
    static BIFROST_HANDLER(row##_lt, BODY(<));                                                               \
    static BIFROST_HANDLER(row##_le, BODY(<=));                                                              \
    bifrost_run *const bifrost_##row[6] = {                                                                  \
        [BIFROST_EQ] = row##_eq, [BIFROST_GT] = row##_gt, [BIFROST_GE] = row##_ge,                           \
        [BIFROST_NE] = row##_ne, [BIFROST_LT] = row##_lt, [BIFROST_LE] = row##_le}

#define S32(op) (int32_t) a op(int32_t) b ? detail : 0
#define U32(op) a op b ? detail : 0
CONDITIONS(icmp_s32, S32);
CONDITIONS(icmp_u32, U32);

/* Halves: `keep` has the shifts of elements 0 and 1 of a source. */
#define HALF(type, x, shifts, element) (type)((x) >> ((shifts) >> (8 * (element)) & 31))
#define ELEMENT(type, op, element)                                                                           \
    (HALF(type, a, keep0, element) op HALF(type, b, keep1, element) ? (detail & 0xffff) << 16 * (element) : 0)
#define S16(op) ELEMENT(int16_t, op, 0) | ELEMENT(int16_t, op, 1)
#define U16(op) ELEMENT(uint16_t, op, 0) | ELEMENT(uint16_t, op, 1)
CONDITIONS(icmp_s16, S16);
CONDITIONS(icmp_u16, U16);

#define ONE_S16(op) HALF(int16_t, a, keep0, 0) op HALF(int16_t, b, keep1, 0) ? detail : 0
#define ONE_U16(op) HALF(uint16_t, a, keep0, 0) op HALF(uint16_t, b, keep1, 0) ? detail : 0
CONDITIONS(branch_s16, ONE_S16);
CONDITIONS(branch_u16, ONE_U16);

#define BYTE(type, op, n) ((type)(a >> 8 * (n)) op(type)(b >> 8 * (n)) ? (detail & 0xff) << 8 * (n) : 0)
#define S8(op) BYTE(int8_t, op, 0) | BYTE(int8_t, op, 1) | BYTE(int8_t, op, 2) | BYTE(int8_t, op, 3)
#define U8(op) BYTE(uint8_t, op, 0) | BYTE(uint8_t, op, 1) | BYTE(uint8_t, op, 2) | BYTE(uint8_t, op, 3)
CONDITIONS(icmp_s8, S8);
CONDITIONS(icmp_u8, U8);

/* Pairs of words: high words are compared, equal ones leave it to c, what the low words gave. A pair differs
 * where either word does. */
#define WIDE_S(op) ((int32_t)a != (int32_t)b ? (int32_t)a op(int32_t) b : c & 1) ? detail : 0
#define WIDE_U(op) (a != b ? a op b : c & 1) ? detail : 0
CONDITIONS(icmpf_s32, WIDE_S);
CONDITIONS(icmpf_u32, WIDE_U);

#define SELECT_S(op) (int32_t) a op(int32_t) b ? c : d
#define SELECT_U(op) a op b ? c : d
CONDITIONS(csel_s32, SELECT_S);
CONDITIONS(csel_u32, SELECT_U);
