/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's Ed25519 (RFC 8032, 5.1.7) over s2n-bignum, whose functions are proved: the field, the
 * decoding of points, numbers modulo the order. Here is the group law over them, one formula for all sums of
 * two points, and the equation R = s B - h A, without the cofactor: OpenSSL's, which the host verifies with.
 * All is public, so nothing hides its timing. */
#include <string.h>

#include "crypto.h"
#include "s2n-bignum.h"

enum { EDWARDS_WORDS = 4 /* the least significant first */, EDWARDS_BYTES = 32, EDWARDS_DIGEST_WORDS = 8 };

typedef uint64_t coordinate[EDWARDS_WORDS];

/* (x / z, y / z), and t = x y / z; infinity is (0, 1, 1, 0). All are below the field's prime. */
struct edwards_point {
    coordinate x, y, z, t;
};

static const coordinate N25519 = {0x5812631a5cf5d3ed, 0x14def9dea2f79cd6, 0, 0x1000000000000000};
static const coordinate TWICE_D = {0xebd69b9426b2f159, 0x00e0149a8283b156, 0x198e80f2eef3d130,
                                   0x2406d9dc56dffce7};
static const uint8_t B25519[EDWARDS_BYTES] = {
    0x58, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
    0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
};

static bool is_coordinate_zero(const coordinate a)
{
    return !(a[0] | a[1] | a[2] | a[3]);
}

/* sum = p + q, for all points, so that no signature can choose an exception: Hisil, Wong, Carter and Dawson,
 * "Twisted Edwards curves revisited" (2008), 3.1, with a = -1, which is a square, and d, which is none. The
 * sum may be either. */
static void add_edwards(struct edwards_point *sum, const struct edwards_point *p,
                        const struct edwards_point *q)
{
    coordinate a, b, c, d, u;
    bignum_sub_p25519(a, p->y, p->x);
    bignum_sub_p25519(u, q->y, q->x);
    bignum_mul_p25519_alt(a, a, u);
    bignum_add_p25519(b, p->y, p->x);
    bignum_add_p25519(u, q->y, q->x);
    bignum_mul_p25519_alt(b, b, u);
    bignum_mul_p25519_alt(c, p->t, q->t);
    bignum_mul_p25519_alt(c, c, TWICE_D);
    bignum_mul_p25519_alt(d, p->z, q->z);
    bignum_add_p25519(d, d, d);
    bignum_sub_p25519(u, b, a);
    bignum_add_p25519(b, b, a);
    bignum_sub_p25519(a, d, c);
    bignum_add_p25519(d, d, c);
    bignum_mul_p25519_alt(sum->x, u, a);
    bignum_mul_p25519_alt(sum->y, d, b);
    bignum_mul_p25519_alt(sum->z, a, d);
    bignum_mul_p25519_alt(sum->t, u, b);
}

/* A point by its encoding; false: there is none, or it is not its one encoding. */
static bool load_edwards(struct edwards_point *p, const uint8_t bytes[EDWARDS_BYTES])
{
    uint64_t both[2 * EDWARDS_WORDS];
    memset(p, 0, sizeof *p);
    p->z[0] = 1;
    const uint64_t wrong = edwards25519_decode_alt(both, bytes);
    memcpy(p->x, both, sizeof p->x);
    memcpy(p->y, both + EDWARDS_WORDS, sizeof p->y);
    bignum_mul_p25519_alt(p->t, p->x, p->y);
    return !wrong;
}

/* a * B + b * q, by Shamir's trick: each bit doubles, and adds one of B, q and B + q. */
static void add_edwards_multiples(struct edwards_point *sum, const coordinate a, const coordinate b,
                                  const struct edwards_point *base, const struct edwards_point *q)
{
    struct edwards_point table[3] = {*base, *q};
    add_edwards(&table[2], base, q);
    memset(sum, 0, sizeof *sum);
    sum->y[0] = sum->z[0] = 1;
    for (uint32_t i = 64 * EDWARDS_WORDS; i--;) {
        const uint64_t by_base = a[i / 64] >> i % 64 & 1, by_q = b[i / 64] >> i % 64 & 1;
        add_edwards(sum, sum, sum);
        if (by_base | by_q)
            add_edwards(sum, sum, &table[(by_base | by_q << 1) - 1]);
    }
}

/* 0: two points are one, of which the second has z = 1. Without a division: x = x' z, y = y' z. The words
 * that are compared are counted as they are; a loop that a fault cuts short has not compared all of them. */
static uint64_t edwards_difference(const struct edwards_point *sum, const struct edwards_point *r)
{
    coordinate x, y;
    volatile uint64_t found = 0;
    volatile uint32_t compared = 0;
    bignum_mul_p25519_alt(x, r->x, sum->z);
    bignum_mul_p25519_alt(y, r->y, sum->z);
    for (uint32_t i = EDWARDS_WORDS; i--; compared++)
        found |= (x[i] ^ sum->x[i]) | (y[i] ^ sum->y[i]);
    return found | (compared ^ EDWARDS_WORDS) | is_coordinate_zero(sum->z);
}

/* The same in another form: 0 if x' z - x and y' z - y are, in the field. */
static uint64_t edwards_distance(const struct edwards_point *sum, const struct edwards_point *r)
{
    coordinate x, y;
    bignum_mul_p25519_alt(x, sum->z, r->x);
    bignum_mul_p25519_alt(y, sum->z, r->y);
    bignum_sub_p25519(x, x, sum->x);
    bignum_sub_p25519(y, y, sum->y);
    return x[0] | x[1] | x[2] | x[3] | y[0] | y[1] | y[2] | y[3];
}

/* Whether anybody can sign for a key: four times a point whose order divides 8 is (0, 1) or (0, -1). */
static bool is_of_small_order(const struct edwards_point *key)
{
    struct edwards_point sum;
    add_edwards(&sum, key, key);
    add_edwards(&sum, &sum, &sum);
    return is_coordinate_zero(sum.x);
}

static bool is_below_order(const coordinate a)
{
    uint32_t i = EDWARDS_WORDS - 1;
    while (i && a[i] == N25519[i])
        i--;
    return a[i] < N25519[i];
}

/* The verdict on R = s B - h A. Apart from the hash, so that the two do not take the stack at once. */
static GR_SEAM uint32_t verify_edwards(const uint64_t digest[EDWARDS_DIGEST_WORDS], const uint8_t key[32],
                                       const uint8_t signature[64], uint32_t good)
{
    static const coordinate zero = {0};
    struct edwards_point base, q, r, sum;
    coordinate s, h;
    memcpy(s, signature + EDWARDS_BYTES, sizeof s);
    if (!is_below_order(s) || !load_edwards(&base, B25519) || !load_edwards(&r, signature) ||
        !load_edwards(&q, key) || is_of_small_order(&q))
        return GR_BAD_VERDICT;
    bignum_mod_n25519(h, EDWARDS_DIGEST_WORDS, digest);
    bignum_sub_p25519(q.x, zero, q.x); /* -A */
    bignum_sub_p25519(q.t, zero, q.t);
    add_edwards_multiples(&sum, s, h, &base, &q);
    if (edwards_difference(&sum, &r))
        return GR_BAD_VERDICT;
    const uint64_t other = edwards_distance(&sum, &r);
    return good ^ (uint32_t)(other | other >> 32);
}

GR_SEAM uint32_t gr_ed25519_verify(const uint8_t *message, size_t bytes, const uint8_t key[32],
                                   const uint8_t signature[64], uint32_t good)
{
    uint64_t digest[EDWARDS_DIGEST_WORDS];
    uint8_t first[2 * EDWARDS_BYTES];
    memcpy(first, signature, EDWARDS_BYTES);
    memcpy(first + EDWARDS_BYTES, key, EDWARDS_BYTES);
    if (!gr_sha512(first, message, bytes, (uint8_t *)digest))
        return GR_BAD_VERDICT;
    return verify_edwards(digest, key, signature, good);
}
