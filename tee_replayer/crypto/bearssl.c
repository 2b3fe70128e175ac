/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam over BearSSL: its only SHA-256, and of its P-256 implementations the
 * fastest that fits, ec_p256_m31. */
#include "crypto.h"
#include "ec/ec_p256_m31.c" /* of BearSSL; included for its static functions */

/* Not inlined into the core, so that the size report can separate the two under link-time optimisation. */
#define SEAM __attribute__((noinline))

SEAM void gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    br_sha256_context context;
    br_sha256_init(&context);
    br_sha256_update(&context, data, bytes);
    br_sha256_out(&context, digest);
}

/* x * A + y * G. Given no second point, BearSSL takes G and a table of its multiples: 1.8 KB of code and
 * data. Given explicitly, G is treated as any point; a verification takes a fifth more instructions. */
static uint32_t muladd(unsigned char *a, const unsigned char *b, size_t bytes, const unsigned char *x,
                       size_t x_bytes, const unsigned char *y, size_t y_bytes, int curve)
{
    (void)b;
    return api_muladd(a, P256_G, bytes, x, x_bytes, y, y_bytes, curve);
}

static const br_ec_impl p256 = {.supported_curves = 1u << BR_EC_secp256r1, .muladd = muladd};

SEAM uint32_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                  const uint8_t signature[64])
{
    /* BearSSL declares the point as not const, but does not write to it. */
    const br_ec_public_key public = {BR_EC_secp256r1, (unsigned char *)(uintptr_t)key, 65};
    const volatile uint32_t good = br_ecdsa_i31_vrfy_raw(&p256, digest, 32, &public, signature, 64);
    if (good != 1)
        return GR_SIGNATURE_BAD;
    return good == 1 ? GR_SIGNATURE_GOOD : GR_SIGNATURE_BAD;
}
