/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's ES256 over BearSSL, for machines that s2n-bignum has nothing for: of its implementations
 * of P-256 the fastest that fits, ec_p256_m31. */
#include "crypto.h"
#include "ec/ec_p256_m31.c" /* of BearSSL; included for its static functions */

enum { COORDINATE_BYTES = 32 };

/* The x coordinate that a verification recomputed; the signature is good if it is r, modulo the group's
 * order. */
static uint8_t recomputed_x[COORDINATE_BYTES];
static uint8_t *const recomputed_place = recomputed_x;

/* From memory: the firmware's code computes addresses only of what is near, and RAM is not. */
static uint8_t *recomputed_at(void)
{
    return *(uint8_t *const volatile *)&recomputed_place;
}

/* x * A + y * G. Given no second point, BearSSL takes G and a table of its multiples: 1.8 KB of code and
 * data. Given explicitly, G is treated as any point; a verification takes a fifth more instructions. */
static uint32_t muladd(unsigned char *a, const unsigned char *b, size_t bytes, const unsigned char *x,
                       size_t x_bytes, const unsigned char *y, size_t y_bytes, int curve)
{
    (void)b;
    const uint32_t is_point = api_muladd(a, P256_G, bytes, x, x_bytes, y, y_bytes, curve);
    memcpy(recomputed_at(), a + 1, COORDINATE_BYTES);
    return is_point;
}

static const br_ec_impl p256 = {.supported_curves = 1u << BR_EC_secp256r1, .muladd = muladd};

/* BearSSL's numbers carry their lengths: where a fault loses one, its last comparison is of nothing, and
 * true. Here 32 bytes are compared, counted as they are. 0: what was recomputed is r, or r + n. */
static uint32_t difference(const uint8_t *r)
{
    const uint8_t *recomputed = recomputed_at();
    volatile uint32_t from_r = 0, from_r_and_n = 0, compared = 0;
    uint32_t borrow = 0;
    for (uint32_t i = COORDINATE_BYTES; i--; compared++) {
        const uint32_t less_n = (uint32_t)recomputed[i] - P256_N[i] - borrow;
        borrow = less_n >> 31;
        from_r |= (uint32_t)recomputed[i] ^ r[i];
        from_r_and_n |= (less_n & 0xff) ^ r[i];
    }
    return (compared ^ COORDINATE_BYTES) | (from_r && (from_r_and_n | borrow));
}

GR_SEAM uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                     const uint8_t signature[64], uint32_t good)
{
    /* BearSSL declares the point as not const, but does not write to it. */
    const br_ec_public_key public = {BR_EC_secp256r1, (unsigned char *)(uintptr_t)key, 65};
    memset(recomputed_at(), 0xff, COORDINATE_BYTES); /* no r: that is less than n */
    const volatile uint32_t verdict = br_ecdsa_i31_vrfy_raw(&p256, digest, 32, &public, signature, 64);
    const uint8_t *low = recomputed_at() + COORDINATE_BYTES - 4;
    const uint64_t x =
        (uint64_t)low[0] << 56 | (uint64_t)low[1] << 48 | (uint64_t)low[2] << 40 | (uint64_t)low[3] << 32;
    if (verdict != 1 || difference(signature))
        return x | GR_BAD_VERDICT;
    return x | (good ^ (verdict - 1));
}
