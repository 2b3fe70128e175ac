/* SPDX-License-Identifier: BSD-2-Clause */
/* Sixteen lanes (Mesa 22.3.6, src/broadcom/common/v3d_limits.h) as GCC vectors. Compiles to one register each
 * with AVX-512, to several without. */
#ifndef GRAMOPHONE_V3D_QPU_VEC_H
#define GRAMOPHONE_V3D_QPU_VEC_H

#include <stdbool.h>
#include <stdint.h>
#ifdef __AVX__
#include <immintrin.h>
#endif

/* How vectors are passed depends on the instruction set, which compilers warn of: functions that take or
 * return them are always inlined. */
#pragma GCC diagnostic ignored "-Wpsabi"
#define QPU_INLINE static inline __attribute__((always_inline))

enum { QPU_LANES = 16, QPU_QUADS = 4 };

typedef uint32_t qpu_u32 __attribute__((vector_size(64), may_alias));
typedef int32_t qpu_i32 __attribute__((vector_size(64), may_alias));
typedef float qpu_f32 __attribute__((vector_size(64), may_alias));
typedef uint32_t qpu_quad __attribute__((vector_size(16), may_alias));
typedef int8_t qpu_bytes __attribute__((vector_size(16)));
/* A vector in memory that need not be aligned. */
typedef uint32_t qpu_u32_unaligned __attribute__((vector_size(64), may_alias, aligned(1)));
typedef uint32_t qpu_quad_unaligned __attribute__((vector_size(16), may_alias, aligned(1)));

#define QPU_LANE_NUMBERS ((qpu_u32){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15})

QPU_INLINE qpu_u32 qpu_splat(uint32_t value)
{
    return (qpu_u32){0} + value;
}

/* A mask has all bits of a lane set or clear: the result of a comparison. */
QPU_INLINE qpu_u32 qpu_select(qpu_i32 mask, qpu_u32 yes, qpu_u32 no)
{
    return ((qpu_u32)mask & yes) | (~(qpu_u32)mask & no);
}

/* Bit i of the result: lane i of the mask. */
QPU_INLINE unsigned qpu_mask_bits(qpu_i32 mask)
{
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask);
#elif defined __AVX__
    __m256 half[2];

    __builtin_memcpy(half, &mask, sizeof half);
    return (unsigned)_mm256_movemask_ps(half[0]) | (unsigned)_mm256_movemask_ps(half[1]) << 8;
#else
    /* A byte a lane, of which the lane's bit remains; their sum is their union, in the product's top byte. */
    const qpu_bytes bytes = __builtin_convertvector(mask, qpu_bytes);
    uint64_t half[2];

    __builtin_memcpy(half, &bytes, sizeof half);
    for (int i = 0; i < 2; i++)
        half[i] = (half[i] & 0x8040201008040201) * 0x0101010101010101 >> 56;
    return (unsigned)(half[0] | half[1] << 8);
#endif
}

QPU_INLINE qpu_i32 qpu_mask_from_bits(unsigned bits)
{
    return (qpu_i32)((qpu_splat(bits) & (1u << QPU_LANE_NUMBERS)) != 0);
}

QPU_INLINE bool qpu_any(qpu_u32 v)
{
#ifdef __AVX512F__
    return _mm512_test_epi32_mask((__m512i)v, (__m512i)v) != 0;
#elif defined __AVX__
    __m256i half[2];

    __builtin_memcpy(half, &v, sizeof half);
    half[0] = half[0] | half[1];
    return !_mm256_testz_si256(half[0], half[0]);
#else
    qpu_quad q[QPU_QUADS];

    __builtin_memcpy(q, &v, sizeof q);
    q[0] |= q[1] | q[2] | q[3];
    return (q[0][0] | q[0][1] | q[0][2] | q[0][3]) != 0;
#endif
}

/* Sixteen lanes from four quads. (Stored one by one, they would be slow to load as a whole.) */
QPU_INLINE qpu_u32 qpu_join(const qpu_quad quad[QPU_QUADS])
{
    typedef uint32_t half __attribute__((vector_size(32)));
    half low = __builtin_shufflevector(quad[0], quad[1], 0, 1, 2, 3, 4, 5, 6, 7);
    half high = __builtin_shufflevector(quad[2], quad[3], 0, 1, 2, 3, 4, 5, 6, 7);

    return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}

/* Whether these are the addresses of words that follow each other. */
QPU_INLINE bool qpu_consecutive(qpu_u32 address)
{
    return !qpu_any((address - address[0]) ^ QPU_LANE_NUMBERS * 4);
}

/* In each lane what the first of its quad has. */
QPU_INLINE qpu_u32 qpu_first_of_quads(qpu_u32 v)
{
    return __builtin_shufflevector(v, v, 0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
}

/* The upper eight lanes before the lower eight. */
QPU_INLINE qpu_u32 qpu_halves_swapped(qpu_u32 v)
{
    return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
}

/*
 * Every NaN that arithmetic produces is the same quiet NaN: x86-64 and AArch64 differ in the sign of a NaN
 * they make and in which operand's payload they keep, and results must not depend on the host.
 */
#define QPU_NAN 0x7fc00000u

QPU_INLINE qpu_u32 qpu_float_result(qpu_f32 f)
{
    return qpu_select(f == f, (qpu_u32)f, qpu_splat(QPU_NAN));
}

/* Half precision, IEEE 754 binary16 in the low 16 bits; subnormals are kept. */
QPU_INLINE qpu_u32 qpu_half_to_single(qpu_u32 half)
{
    const qpu_u32 rebias = qpu_splat(112u << 23);
    qpu_u32 bits = (half & 0x7fff) << 13;
    qpu_u32 exponent = bits & (31u << 23);
    qpu_u32 normal = bits + rebias;
    qpu_u32 special = bits + rebias + rebias; /* infinity, NaN: exponent 31 becomes 255 */
    /* Subnormal: read the mantissa as if it had exponent 2^-14 and an implicit one, then
     * take the one away. */
    qpu_f32 subnormal = (qpu_f32)(normal + (1u << 23)) - (qpu_f32)qpu_splat(113u << 23);
    qpu_u32 result = qpu_select(exponent == 0, (qpu_u32)subnormal, normal);

    result = qpu_select(exponent == 31u << 23, special, result);
    result = qpu_select((qpu_i32)((result & 0x7fffffff) > 0x7f800000), qpu_splat(QPU_NAN), result);
    return qpu_select((qpu_i32)(result == QPU_NAN), result, result | (half & 0x8000) << 16);
}

/* To nearest, ties to even. */
QPU_INLINE qpu_u32 qpu_single_to_half(qpu_u32 single)
{
    qpu_u32 sign = (single >> 16) & 0x8000, magnitude = single & 0x7fffffff;
    qpu_u32 normal = (magnitude + qpu_splat(0xfffu - (112u << 23)) + ((magnitude >> 13) & 1)) >> 13;
    /* Adding 0.5 leaves a subnormal half's value in the low mantissa bits, rounded by the addition. */
    qpu_u32 subnormal = (qpu_u32)((qpu_f32)magnitude + 0.5f) - 0x3f000000u;
    qpu_u32 result = qpu_select((qpu_i32)(magnitude < 0x38800000), subnormal, normal);

    result = qpu_select((qpu_i32)(magnitude >= 0x47800000), qpu_splat(0x7c00), result) | sign;
    return qpu_select((qpu_i32)(magnitude > 0x7f800000), qpu_splat(0x7e00), result);
}

#endif
