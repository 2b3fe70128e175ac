/* SPDX-License-Identifier: BSD-2-Clause */
/* Comparisons of integers: of words, halves, bytes and pairs of words; choices by them. Sources: see
 * mali_bifrost.h. */
#include "mali_bifrost_integer.h"

#include "mali_bifrost_lanes.h"

/* Rows of handlers by enum bifrost_condition; BODY is an expression in the operator. */
#define ORDER(row, BODY)                                                                                     \
    static BIFROST_HANDLER(row##_gt, BODY(>));                                                               \
    static BIFROST_HANDLER(row##_ge, BODY(>=))
#define EQUALITY(row, BODY)                                                                                  \
    static BIFROST_HANDLER(row##_eq, BODY(==));                                                              \
    static BIFROST_HANDLER(row##_ne, BODY(!=))
#define REVERSE(row, BODY)                                                                                   \
    static BIFROST_HANDLER(row##_lt, BODY(<));                                                               \
    static BIFROST_HANDLER(row##_le, BODY(<=))
#define ORDERS(row) [BIFROST_GT] = row##_gt, [BIFROST_GE] = row##_ge
#define EQUALITIES(row) [BIFROST_EQ] = row##_eq, [BIFROST_NE] = row##_ne
#define REVERSES(row) [BIFROST_LT] = row##_lt, [BIFROST_LE] = row##_le

#define S32(op) (int32_t) a op(int32_t) b ? detail : 0
#define U32(op) a op b ? detail : 0
ORDER(icmp_s32, S32);
EQUALITY(icmp_s32, S32);
REVERSE(icmp_s32, S32);
bifrost_run *const bifrost_icmp_s32[6] = {ORDERS(icmp_s32), EQUALITIES(icmp_s32), REVERSES(icmp_s32)};
ORDER(icmp_u32, U32);
EQUALITY(icmp_u32, U32);
REVERSE(icmp_u32, U32);
bifrost_run *const bifrost_icmp_u32[6] = {ORDERS(icmp_u32), EQUALITIES(icmp_u32), REVERSES(icmp_u32)};

/* Halves: `keep` has the shifts of elements 0 and 1 of a source. */
#define HALF(type, x, shifts, element) (type)((x) >> ((shifts) >> (8 * (element)) & 31))
#define ELEMENT(type, op, element)                                                                           \
    (HALF(type, a, keep0, element) op HALF(type, b, keep1, element) ? (detail & 0xffff) << 16 * (element) : 0)
#define S16(op) ELEMENT(int16_t, op, 0) | ELEMENT(int16_t, op, 1)
#define U16(op) ELEMENT(uint16_t, op, 0) | ELEMENT(uint16_t, op, 1)
ORDER(icmp_s16, S16);
bifrost_run *const bifrost_icmp_s16[6] = {ORDERS(icmp_s16)};
ORDER(icmp_u16, U16);
EQUALITY(icmp_u16, U16);
bifrost_run *const bifrost_icmp_u16[6] = {ORDERS(icmp_u16), EQUALITIES(icmp_u16)};

#define ONE_S16(op) HALF(int16_t, a, keep0, 0) op HALF(int16_t, b, keep1, 0) ? detail : 0
#define ONE_U16(op) HALF(uint16_t, a, keep0, 0) op HALF(uint16_t, b, keep1, 0) ? detail : 0
ORDER(branch_s16, ONE_S16);
EQUALITY(branch_s16, ONE_S16);
REVERSE(branch_s16, ONE_S16);
bifrost_run *const bifrost_branch_s16[6] = {ORDERS(branch_s16), EQUALITIES(branch_s16), REVERSES(branch_s16)};
ORDER(branch_u16, ONE_U16);
EQUALITY(branch_u16, ONE_U16);
REVERSE(branch_u16, ONE_U16);
bifrost_run *const bifrost_branch_u16[6] = {ORDERS(branch_u16), EQUALITIES(branch_u16), REVERSES(branch_u16)};

#define BYTE(type, op, n) ((type)(a >> 8 * (n)) op(type)(b >> 8 * (n)) ? (detail & 0xff) << 8 * (n) : 0)
#define S8(op) BYTE(int8_t, op, 0) | BYTE(int8_t, op, 1) | BYTE(int8_t, op, 2) | BYTE(int8_t, op, 3)
#define U8(op) BYTE(uint8_t, op, 0) | BYTE(uint8_t, op, 1) | BYTE(uint8_t, op, 2) | BYTE(uint8_t, op, 3)
ORDER(icmp_s8, S8);
bifrost_run *const bifrost_icmp_s8[6] = {ORDERS(icmp_s8)};
ORDER(icmp_u8, U8);
EQUALITY(icmp_u8, U8);
bifrost_run *const bifrost_icmp_u8[6] = {ORDERS(icmp_u8), EQUALITIES(icmp_u8)};

/* Pairs of words: high words are compared, equal ones leave it to c, what the low words gave. A pair differs
 * where either word does. */
#define WIDE_S(op) ((int32_t)a != (int32_t)b ? (int32_t)a op(int32_t) b : c & 1) ? detail : 0
#define WIDE_U(op) (a != b ? a op b : c & 1) ? detail : 0
ORDER(icmpf_s32, WIDE_S);
bifrost_run *const bifrost_icmpf_s32[6] = {ORDERS(icmpf_s32)};
ORDER(icmpf_u32, WIDE_U);
EQUALITY(icmpf_u32, WIDE_U);
bifrost_run *const bifrost_icmpf_u32[6] = {ORDERS(icmpf_u32), EQUALITIES(icmpf_u32)};

#define SELECT_S(op) (int32_t) a op(int32_t) b ? c : d
#define SELECT_U(op) a op b ? c : d
ORDER(csel_s32, SELECT_S);
bifrost_run *const bifrost_csel_s32[6] = {ORDERS(csel_s32)};
ORDER(csel_u32, SELECT_U);
static BIFROST_HANDLER(csel_u32_eq, SELECT_U(==));
bifrost_run *const bifrost_csel_u32[6] = {ORDERS(csel_u32), [BIFROST_EQ] = csel_u32_eq};
