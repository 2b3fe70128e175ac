/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's ES384 over s2n-bignum, whose functions are proved: the field, products and inverses
 * modulo the order. Here is the group law over them, one formula for all sums of two points, and what ECDSA
 * makes of it. All is public, so nothing hides its timing. */
#include <string.h>

#include "crypto.h"
#include "s2n-bignum.h"

enum { WIDE_WORDS = 6 /* the least significant first */, WIDE_BYTES = 48 };

typedef uint64_t wide[WIDE_WORDS];

/* (x / z, y / z); infinity is (0, 1, 0). Each is kept times 2^384 (Montgomery), modulo the field's prime. */
struct wide_point {
    wide x, y, z;
};

static const wide P384 = {0x00000000ffffffff, 0xffffffff00000000, 0xfffffffffffffffe,
                          UINT64_MAX,         UINT64_MAX,         UINT64_MAX};
static const wide N384 = {0xecec196accc52973, 0x581a0db248b0a77a, 0xc7634d81f4372ddf,
                          UINT64_MAX,         UINT64_MAX,         UINT64_MAX};
static const wide B384 = {0x081188719d412dcc, 0xf729add87a4c32ec, 0x77f2209b1920022e,
                          0xe3374bee94938ae2, 0xb62b21f41f022094, 0xcd08114b604fbff9};
static const wide TO_FIELD384 = {0xfffffffe00000001, 0x0000000200000000, 0xfffffffe00000000, /* 2^768 */
                                 0x0000000200000000, 0x0000000000000001, 0};
static const struct wide_point G384 = {
    {0x3dd0756649c0b528, 0x20e378e2a0d6ce38, 0x879c3afc541b4d6e, 0x6454868459a30eff, 0x812ff723614ede2b,
     0x4d3aadc2299e1513},
    {0x23043dad4b03a4fe, 0xa1bfa8bf7bb4a9ac, 0x8bade7562e83b050, 0xc6c3521968f4ffd9, 0xdd8002263969a840,
     0x2b78abc25a15c5e9},
    {0xffffffff00000001, 0x00000000ffffffff, 0x0000000000000001, 0, 0, 0},
};

static void load_wide(wide a, const uint8_t bytes[WIDE_BYTES])
{
    for (uint32_t i = WIDE_WORDS; i--;) {
        uint64_t word = 0;
        for (uint32_t j = 0; j < WIDE_BYTES / WIDE_WORDS; j++)
            word = word << 8 | *bytes++;
        a[i] = word;
    }
}

static bool is_wide_zero(const wide a)
{
    return !(a[0] | a[1] | a[2] | a[3] | a[4] | a[5]);
}

static bool is_wide_less(const wide a, const wide b)
{
    uint32_t i = WIDE_WORDS - 1;
    while (i && a[i] == b[i])
        i--;
    return a[i] < b[i];
}

/* sum = p + q, for all points, so that no signature can choose an exception: Renes, Costello and Batina,
 * "Complete addition formulas for prime order elliptic curves" (2016), algorithm 4. The sum may be either. */
static void add_wide(struct wide_point *sum, const struct wide_point *p, const struct wide_point *q)
{
    wide xx, yy, zz, xy, yz, xz, t, u, v;
    bignum_montmul_p384_alt(xx, p->x, q->x);
    bignum_montmul_p384_alt(yy, p->y, q->y);
    bignum_montmul_p384_alt(zz, p->z, q->z);
    bignum_add_p384(t, p->x, p->y);
    bignum_add_p384(u, q->x, q->y);
    bignum_montmul_p384_alt(xy, t, u);
    bignum_sub_p384(xy, xy, xx);
    bignum_sub_p384(xy, xy, yy); /* x1 y2 + x2 y1 */
    bignum_add_p384(t, p->y, p->z);
    bignum_add_p384(u, q->y, q->z);
    bignum_montmul_p384_alt(yz, t, u);
    bignum_sub_p384(yz, yz, yy);
    bignum_sub_p384(yz, yz, zz); /* y1 z2 + y2 z1 */
    bignum_add_p384(t, p->x, p->z);
    bignum_add_p384(u, q->x, q->z);
    bignum_montmul_p384_alt(xz, t, u);
    bignum_sub_p384(xz, xz, xx);
    bignum_sub_p384(xz, xz, zz); /* x1 z2 + x2 z1 */
    bignum_montmul_p384_alt(t, B384, zz);
    bignum_sub_p384(t, xz, t);
    bignum_add_p384(u, t, t);
    bignum_add_p384(t, t, u);
    bignum_sub_p384(u, yy, t); /* y1 y2 - 3 (xz - b zz) */
    bignum_add_p384(v, yy, t); /* y1 y2 + 3 (xz - b zz) */
    bignum_montmul_p384_alt(xz, B384, xz);
    bignum_add_p384(t, zz, zz);
    bignum_add_p384(zz, t, zz); /* 3 z1 z2 */
    bignum_sub_p384(xz, xz, zz);
    bignum_sub_p384(xz, xz, xx);
    bignum_add_p384(t, xz, xz);
    bignum_add_p384(xz, xz, t); /* 3 (b xz - 3 zz - xx) */
    bignum_add_p384(t, xx, xx);
    bignum_add_p384(xx, xx, t);
    bignum_sub_p384(xx, xx, zz); /* 3 (xx - zz) */
    bignum_montmul_p384_alt(sum->x, xy, v);
    bignum_montmul_p384_alt(t, yz, xz);
    bignum_sub_p384(sum->x, sum->x, t);
    bignum_montmul_p384_alt(sum->y, v, u);
    bignum_montmul_p384_alt(t, xx, xz);
    bignum_add_p384(sum->y, sum->y, t);
    bignum_montmul_p384_alt(sum->z, yz, u);
    bignum_montmul_p384_alt(t, xy, xx);
    bignum_add_p384(sum->z, sum->z, t);
}

/* a * G + b * q, by Shamir's trick: each bit doubles, and adds one of 0, G, q and G + q. */
static void add_wide_multiples(struct wide_point *sum, const wide a, const wide b, const struct wide_point *q)
{
    struct wide_point table[4] = {{{0}, {0}, {0}}, G384, *q};
    memcpy(table[0].y, G384.z, sizeof table[0].y);
    add_wide(&table[3], &G384, q);
    *sum = table[0];
    for (uint32_t i = 64 * WIDE_WORDS; i--;) {
        const uint64_t by_g = a[i / 64] >> i % 64 & 1, by_q = b[i / 64] >> i % 64 & 1;
        add_wide(sum, sum, sum);
        if (by_g | by_q)
            add_wide(sum, sum, &table[by_g | by_q << 1]);
    }
}

/* The key as a point; false: it is not on the curve. */
static bool load_wide_point(struct wide_point *q, const uint8_t key[97])
{
    wide left, right, t;
    load_wide(q->x, key + 1);
    load_wide(q->y, key + 1 + WIDE_BYTES);
    if (key[0] != 4 || !is_wide_less(q->x, P384) || !is_wide_less(q->y, P384))
        return false;
    bignum_montmul_p384_alt(q->x, q->x, TO_FIELD384);
    bignum_montmul_p384_alt(q->y, q->y, TO_FIELD384);
    memcpy(q->z, G384.z, sizeof q->z);
    /* y^2 = x^3 - 3 x + b */
    bignum_montmul_p384_alt(left, q->y, q->y);
    bignum_montmul_p384_alt(t, q->x, q->x);
    bignum_montmul_p384_alt(right, t, q->x);
    bignum_add_p384(right, right, B384);
    for (uint32_t i = 0; i < 3; i++)
        bignum_sub_p384(right, right, q->x);
    bignum_sub_p384(left, left, right);
    return is_wide_zero(left);
}

/* 0: the x of a point that is not at infinity is r, or r + n. Without a division: x = r z. The words that
 * are compared are counted as they are; a loop that a fault cuts short has not compared all of them. */
static uint64_t wide_difference(const struct wide_point *point, const wide r)
{
    wide one, other;
    volatile uint64_t from_r = 0, from_r_and_n = 0;
    volatile uint32_t compared = 0;
    bignum_add_p384(other, r, N384);
    const bool wraps = is_wide_less(other, N384); /* r + n is no x: it is not less than P */
    bignum_montmul_p384_alt(one, r, TO_FIELD384);
    bignum_montmul_p384_alt(one, one, point->z);
    bignum_montmul_p384_alt(other, other, TO_FIELD384);
    bignum_montmul_p384_alt(other, other, point->z);
    for (uint32_t i = WIDE_WORDS; i--; compared++) {
        from_r |= one[i] ^ point->x[i];
        from_r_and_n |= other[i] ^ point->x[i];
    }
    return (compared ^ WIDE_WORDS) | is_wide_zero(point->z) | (from_r && (from_r_and_n | wraps));
}

/* x of a point as a number modulo N; 0 at infinity. */
static void affine_wide_x(wide x, const struct wide_point *point)
{
    wide inverse, t;
    uint64_t scratch[3 * WIDE_WORDS];
    bignum_modinv(WIDE_WORDS, inverse, point->z, P384, scratch); /* of z times 2^384 */
    bignum_montmul_p384_alt(t, point->x, inverse);               /* x / z times 2^-384 */
    bignum_montmul_p384_alt(t, t, TO_FIELD384);
    bignum_mod_n384_alt(x, WIDE_WORDS, t);
}

/* a * b modulo N, for any two numbers. */
static void multiply_modulo_n384(wide product, const wide a, const wide b)
{
    uint64_t whole[2 * WIDE_WORDS];
    bignum_mul_6_12_alt(whole, a, b);
    bignum_mod_n384_alt(product, 2 * WIDE_WORDS, whole);
}

GR_SEAM uint32_t gr_es384_verify(const uint8_t digest[48], const uint8_t key[97], const uint8_t signature[96],
                                 uint32_t good)
{
    wide r, s, e, inverse;
    uint64_t scratch[3 * WIDE_WORDS];
    struct wide_point q, sum;
    load_wide(r, signature);
    load_wide(s, signature + WIDE_BYTES);
    if (is_wide_zero(r) || is_wide_zero(s) || !is_wide_less(r, N384) || !is_wide_less(s, N384) ||
        !load_wide_point(&q, key))
        return GR_BAD_VERDICT;
    load_wide(e, digest);
    bignum_modinv(WIDE_WORDS, inverse, s, N384, scratch);
    multiply_modulo_n384(e, e, inverse);
    multiply_modulo_n384(s, r, inverse);
    add_wide_multiples(&sum, e, s, &q);
    affine_wide_x(e, &sum);
    if (wide_difference(&sum, r))
        return GR_BAD_VERDICT;
    /* Compared once more in another form, as ES256's. */
    uint64_t other = 0;
    for (uint32_t i = 0; i < WIDE_WORDS; i++)
        other |= e[i] - r[i];
    return good ^ (uint32_t)(other | other >> 32);
}
