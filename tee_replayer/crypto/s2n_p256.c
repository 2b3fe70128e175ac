/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's ES256 over s2n-bignum, whose functions are proved: the field, products and inverses
 * modulo the order. Here is the group law over them, which has no exceptions, and what ECDSA makes of it. All
 * is public, so nothing hides its timing. */
#include <string.h>

#include "crypto.h"
#include "s2n-bignum.h"

/* The field, numbers kept times 2^256 (Montgomery); of some functions, those variants that need
 * neither SIMD registers nor extensions of x86-64. */
#define field_multiply bignum_montmul_p256_alt
#define field_square bignum_montsqr_p256_alt
#define field_add bignum_add_p256
#define field_subtract bignum_sub_p256

enum {
    WORDS = 4, /* of a number, the least significant first */
    NUMBER_BYTES = 32,
    BITS = 2, /* of each scalar, that one step takes */
    STEPS = 256 / BITS,
    VALUES = 1 << BITS,
};

typedef uint64_t number[WORDS];

/* In Jacobian coordinates: (x / z^2, y / z^3); z is 0 at infinity. Each is kept times 2^256, modulo P. */
struct point {
    number x, y, z;
};

static const number P = {UINT64_MAX, 0x00000000ffffffff, 0, 0xffffffff00000001};
static const number N = {0xf3b9cac2fc632551, 0xbce6faada7179e84, UINT64_MAX, 0xffffffff00000000};
static const number B = {0xd89cdf6229c4bddf, 0xacf005cd78843090, 0xe5a220abf7212ed6, 0xdc30061d04874834};
static const number TO_FIELD = {3, 0xfffffffbffffffff, 0xfffffffffffffffe, 0x00000004fffffffd}; /* 2^512 */
static const struct point G = {
    {0x79e730d418a9143c, 0x75ba95fc5fedb601, 0x79fb732b77622510, 0x18905f76a53755c6},
    {0xddf25357ce95560a, 0x8b4ab8e4ba19e45c, 0xd2e88688dd21f325, 0x8571ff1825885d85},
    {1, 0xffffffff00000000, UINT64_MAX, 0x00000000fffffffe},
};

static void load_number(number a, const uint8_t bytes[NUMBER_BYTES])
{
    for (uint32_t i = WORDS; i--;) {
        uint64_t word = 0;
        for (uint32_t j = 0; j < NUMBER_BYTES / WORDS; j++)
            word = word << 8 | *bytes++;
        a[i] = word;
    }
}

static bool is_zero(const number a)
{
    return !(a[0] | a[1] | a[2] | a[3]);
}

static bool is_less(const number a, const number b)
{
    uint32_t i = WORDS - 1;
    while (i && a[i] == b[i])
        i--;
    return a[i] < b[i];
}

/* p = 2 p. Right for all points: none is of order two, and infinity's z stays 0. */
static void double_point(struct point *p)
{
    number delta, gamma, beta, alpha, t;
    field_square(delta, p->z);
    field_square(gamma, p->y);
    field_multiply(beta, p->x, gamma);
    field_subtract(alpha, p->x, delta);
    field_add(t, p->x, delta);
    field_multiply(t, alpha, t);
    field_add(alpha, t, t);
    field_add(alpha, alpha, t); /* 3 x^2 - 3 z^4: the slope */
    field_multiply(p->z, p->y, p->z);
    field_add(p->z, p->z, p->z);
    field_add(beta, beta, beta);
    field_add(beta, beta, beta); /* 4 x y^2 */
    field_square(t, alpha);
    field_subtract(t, t, beta);
    field_subtract(p->x, t, beta);
    field_add(gamma, gamma, gamma);
    field_square(gamma, gamma);
    field_add(gamma, gamma, gamma); /* 8 y^4 */
    field_subtract(t, beta, p->x);
    field_multiply(t, alpha, t);
    field_subtract(p->y, t, gamma);
}

/* p = p + q, for all points: infinity, equal and opposite ones too. */
static void add_point(struct point *p, const struct point *q)
{
    number t, u, v, h, s, r;
    if (is_zero(q->z))
        return;
    if (is_zero(p->z)) {
        *p = *q;
        return;
    }
    field_square(t, p->z);
    field_square(v, q->z);
    field_multiply(u, p->x, v);
    field_multiply(h, q->x, t);
    field_subtract(h, h, u); /* 0: the same x */
    field_multiply(v, v, q->z);
    field_multiply(s, p->y, v);
    field_multiply(t, t, p->z);
    field_multiply(r, q->y, t);
    field_subtract(r, r, s); /* 0: the same y */
    if (is_zero(h) && is_zero(r)) {
        double_point(p);
        return;
    }
    field_multiply(p->z, p->z, q->z);
    field_multiply(p->z, p->z, h); /* 0 for opposite points: infinity */
    field_square(t, h);
    field_multiply(u, u, t);
    field_multiply(h, h, t);
    field_multiply(s, s, h);
    field_square(t, r);
    field_subtract(t, t, h);
    field_subtract(t, t, u);
    field_subtract(p->x, t, u);
    field_subtract(u, u, p->x);
    field_multiply(u, r, u);
    field_subtract(p->y, u, s);
}

static uint32_t digit(const number a, uint32_t at)
{
    return (uint32_t)(a[at * BITS / 64] >> at * BITS % 64) & (VALUES - 1);
}

/* a * G + b * q, by Shamir's trick: each step doubles, and adds one of all sums of small multiples. */
static void add_multiples(struct point *sum, const number a, const number b, const struct point *q)
{
    struct point table[VALUES * VALUES];
    memset(sum, 0, sizeof *sum);
    memset(table, 0, sizeof table[0]);
    for (uint32_t i = 1; i < VALUES * VALUES; i++) {
        const bool by_q = i % VALUES;
        table[i] = table[i - (by_q ? 1 : VALUES)];
        add_point(&table[i], by_q ? q : &G);
    }
    for (uint32_t i = STEPS; i--;) {
        for (uint32_t j = 0; j < BITS; j++)
            double_point(sum);
        add_point(sum, &table[digit(a, i) * VALUES + digit(b, i)]);
    }
}

/* The key as a point; false: it is not on the curve. */
static bool load_point(struct point *q, const uint8_t key[65])
{
    number left, right, t;
    load_number(q->x, key + 1);
    load_number(q->y, key + 1 + NUMBER_BYTES);
    if (key[0] != 4 || !is_less(q->x, P) || !is_less(q->y, P))
        return false;
    field_multiply(q->x, q->x, TO_FIELD);
    field_multiply(q->y, q->y, TO_FIELD);
    memcpy(q->z, G.z, sizeof q->z);
    /* y^2 = x^3 - 3 x + b */
    field_square(left, q->y);
    field_square(t, q->x);
    field_multiply(right, t, q->x);
    field_add(right, right, B);
    for (uint32_t i = 0; i < 3; i++)
        field_subtract(right, right, q->x);
    field_subtract(left, left, right);
    return is_zero(left);
}

/* 0: the x of a point that is not at infinity is r, or r + n. Without a division: x = r z^2. The words that
 * are compared are counted as they are; a loop that a fault cuts short has not compared all of them. */
static uint64_t difference(const struct point *point, const number r)
{
    number z_squared, one, other;
    volatile uint64_t from_r = 0, from_r_and_n = 0;
    volatile uint32_t compared = 0;
    field_square(z_squared, point->z);
    field_add(other, r, N);
    const bool wraps = is_less(other, N); /* r + n is no x: it is not less than P */
    field_multiply(one, r, TO_FIELD);
    field_multiply(one, one, z_squared);
    field_multiply(other, other, TO_FIELD);
    field_multiply(other, other, z_squared);
    for (uint32_t i = WORDS; i--; compared++) {
        from_r |= one[i] ^ point->x[i];
        from_r_and_n |= other[i] ^ point->x[i];
    }
    return (compared ^ WORDS) | is_zero(point->z) | (from_r && (from_r_and_n | wraps));
}

/* x of a point as a number modulo N; 0 at infinity. */
static void affine_x(number x, const struct point *point)
{
    number inverse, t;
    uint64_t scratch[3 * WORDS];
    bignum_modinv(WORDS, inverse, point->z, P, scratch); /* of z times 2^256 */
    field_multiply(t, point->x, inverse);
    field_multiply(t, t, inverse); /* x / z^2 times 2^-768 */
    for (uint32_t i = 0; i < 3; i++)
        field_multiply(t, t, TO_FIELD);
    bignum_mod_n256_alt(x, WORDS, t);
}

/* a * b modulo N, for any two numbers. */
static void multiply_modulo_n(number product, const number a, const number b)
{
    uint64_t whole[2 * WORDS];
    bignum_mul_4_8_alt(whole, a, b);
    bignum_mod_n256_alt(product, 2 * WORDS, whole);
}

#ifdef GRAMOPHONE_ENCRYPTION
/* sum = p + q, for all points, in the same steps: Renes, Costello and Batina, "Complete addition formulas for
 * prime order elliptic curves" (2016), algorithm 4. Its points are (x / z, y / z); infinity is (0, 1, 0). */
static void add_secret_point(struct point *sum, const struct point *p, const struct point *q)
{
    number t0, t1, t2, t3, t4, x, y, z;
    field_multiply(t0, p->x, q->x);
    field_multiply(t1, p->y, q->y);
    field_multiply(t2, p->z, q->z);
    field_add(t3, p->x, p->y);
    field_add(t4, q->x, q->y);
    field_multiply(t3, t3, t4);
    field_subtract(t3, t3, t0);
    field_subtract(t3, t3, t1); /* x1 y2 + x2 y1 */
    field_add(t4, p->y, p->z);
    field_add(x, q->y, q->z);
    field_multiply(t4, t4, x);
    field_subtract(t4, t4, t1);
    field_subtract(t4, t4, t2); /* y1 z2 + y2 z1 */
    field_add(x, p->x, p->z);
    field_add(y, q->x, q->z);
    field_multiply(y, x, y);
    field_subtract(y, y, t0);
    field_subtract(y, y, t2); /* x1 z2 + x2 z1 */
    field_multiply(z, B, t2);
    field_subtract(x, y, z);
    field_add(z, x, x);
    field_add(x, x, z);
    field_subtract(z, t1, x);
    field_add(x, t1, x);
    field_multiply(y, B, y);
    field_add(t1, t2, t2);
    field_add(t2, t1, t2);
    field_subtract(y, y, t2);
    field_subtract(y, y, t0);
    field_add(t1, y, y);
    field_add(y, t1, y);
    field_add(t1, t0, t0);
    field_add(t0, t1, t0);
    field_subtract(t0, t0, t2);
    field_multiply(t1, t4, y);
    field_multiply(t2, t0, y);
    field_multiply(y, x, z);
    field_add(sum->y, y, t2);
    field_multiply(x, t3, x);
    field_subtract(sum->x, x, t1);
    field_multiply(z, t4, z);
    field_multiply(t1, t3, t0);
    field_add(sum->z, z, t1);
}

/* Whether a < b, in the same steps for all numbers. */
static bool is_less_in_secret(const number a, const number b)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        borrow = (a[i] < b[i]) | ((a[i] == b[i]) & borrow);
    return borrow;
}

/* Each bit doubles, adds, and then chooses, without a branch or an address that says which. */
GR_SEAM bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32])
{
    number scalar, inverse;
    uint64_t scratch[3 * WORDS];
    struct point q, sum = {0}, more;
    load_number(scalar, secret);
    if (is_zero(scalar) || !is_less_in_secret(scalar, N) || !load_point(&q, point))
        return false;
    memcpy(sum.y, G.z, sizeof sum.y);
    for (uint32_t bit = 64 * WORDS; bit--;) {
        add_secret_point(&sum, &sum, &sum);
        add_secret_point(&more, &sum, &q);
        const uint64_t mask = -(scalar[bit / 64] >> bit % 64 & 1);
        for (uint32_t i = 0; i < WORDS; i++) {
            sum.x[i] ^= mask & (sum.x[i] ^ more.x[i]);
            sum.y[i] ^= mask & (sum.y[i] ^ more.y[i]);
            sum.z[i] ^= mask & (sum.z[i] ^ more.z[i]);
        }
    }
    bignum_modinv(WORDS, inverse, sum.z, P, scratch); /* of z times 2^256 */
    field_multiply(sum.x, sum.x, inverse);
    field_multiply(sum.x, sum.x, TO_FIELD);
    for (uint32_t i = 0; i < NUMBER_BYTES; i++)
        shared[i] = (uint8_t)(sum.x[WORDS - 1 - i / 8] >> (56 - i % 8 * 8));
    memset(scalar, 0, sizeof scalar);
    memset(&sum, 0, sizeof sum);
    memset(&more, 0, sizeof more);
    __asm__ volatile("" ::"r"(scalar), "r"(&sum), "r"(&more) : "memory"); /* none of it is left out */
    return true;
}
#endif

GR_SEAM uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                     const uint8_t signature[64], uint32_t good)
{
    number r, s, e, inverse;
    uint64_t scratch[3 * WORDS];
    struct point q, sum;
    load_number(r, signature);
    load_number(s, signature + NUMBER_BYTES);
    if (is_zero(r) || is_zero(s) || !is_less(r, N) || !is_less(s, N) || !load_point(&q, key))
        return GR_BAD_VERDICT;
    load_number(e, digest);
    bignum_modinv(WORDS, inverse, s, N, scratch);
    multiply_modulo_n(e, e, inverse);
    multiply_modulo_n(s, r, inverse);
    add_multiples(&sum, e, s, &q);
    affine_x(e, &sum);
    if (difference(&sum, r))
        return e[0] << 32 | GR_BAD_VERDICT;
    /* Compared once more in another form, the textbook's, so that one fault does not change both. */
    const uint64_t other = (e[0] ^ r[0]) | (e[1] ^ r[1]) | (e[2] ^ r[2]) | (e[3] ^ r[3]);
    return e[0] << 32 | (good ^ (uint32_t)(other | other >> 32));
}
