/* SPDX-License-Identifier: BSD-2-Clause */
/* The replay log's crypto seam over BearSSL. The generator joins it to the rest of the seam. */
#include <bearssl.h>
#include <string.h>

#include "crypto.h"
#include "log_crypto.h"

_Static_assert(sizeof(br_sha256_context) <= sizeof(struct gr_hash), "room for the library's context");

GR_SEAM bool gr_hash_begin(struct gr_hash *hash)
{
    br_sha256_context context;
    br_sha256_init(&context);
    memcpy(hash, &context, sizeof context);
    return true;
}

GR_SEAM bool gr_hash_add(struct gr_hash *hash, const void *data, size_t bytes)
{
    br_sha256_context context;
    memcpy(&context, hash, sizeof context);
    br_sha256_update(&context, data, bytes);
    memcpy(hash, &context, sizeof context);
    return true;
}

GR_SEAM bool gr_hash_end(struct gr_hash *hash, uint8_t digest[32])
{
    br_sha256_context context;
    memcpy(&context, hash, sizeof context);
    if (!context.vtable)
        return false;
    br_sha256_out(&context, digest);
    memset(hash, 0, sizeof *hash);
    return true;
}

GR_SEAM bool gr_hmac(const uint8_t key[32], const void *data, size_t bytes, uint8_t mac[32])
{
    br_hmac_key_context keyed;
    br_hmac_context context;
    br_hmac_key_init(&keyed, &br_sha256_vtable, key, 32);
    br_hmac_init(&context, &keyed, 0);
    br_hmac_update(&context, data, bytes);
    br_hmac_out(&context, mac);
    return true;
}

#ifdef GRAMOPHONE_ATTEST
#include "ec/ec_p256_m31.c" /* of BearSSL; included for its static functions */

enum { COORDINATE_BYTES = 32, P256_POINT_BYTES = 65 };

/* x * G without BearSSL's table of G's multiples: given explicitly, G is any point. */
static size_t mulgen(unsigned char *point, const unsigned char *x, size_t x_bytes, int curve)
{
    memcpy(point, P256_G, P256_POINT_BYTES);
    return api_mul(point, P256_POINT_BYTES, x, x_bytes, curve) ? P256_POINT_BYTES : 0;
}

static const br_ec_impl p256_signing = {.supported_curves = 1u << BR_EC_secp256r1, .mulgen = mulgen};

/* n - number, for numbers of 32 bytes, the most significant first; the borrow. */
static uint32_t from_order(const uint8_t number[COORDINATE_BYTES], uint8_t difference[COORDINATE_BYTES])
{
    uint32_t borrow = 0;
    for (uint32_t i = COORDINATE_BYTES; i--;) {
        const uint32_t digit = (uint32_t)P256_N[i] - number[i] - borrow;
        difference[i] = (uint8_t)digit;
        borrow = digit >> 31;
    }
    return borrow;
}

GR_SEAM bool gr_sign(const uint8_t secret[32], const uint8_t digest[32], uint8_t signature[64])
{
    const br_ec_private_key key = {BR_EC_secp256r1, (unsigned char *)(uintptr_t)secret, COORDINATE_BYTES};
    uint8_t *s = signature + COORDINATE_BYTES, other[COORDINATE_BYTES];
    if (br_ecdsa_i31_sign_raw(&p256_signing, &br_sha256_vtable, digest, &key, signature) !=
        2 * COORDINATE_BYTES)
        return false;
    from_order(s, other);
    uint32_t i = 0;
    while (i < COORDINATE_BYTES - 1 && s[i] == other[i])
        i++;
    if (s[i] > other[i])
        memcpy(s, other, COORDINATE_BYTES);
    return true;
}

GR_SEAM bool gr_is_private_key(const uint8_t secret[32])
{
    uint8_t difference[COORDINATE_BYTES];
    uint32_t any = 0, above = from_order(secret, difference), rest = 0;
    for (uint32_t i = 0; i < COORDINATE_BYTES; i++) {
        any |= secret[i];
        rest |= difference[i];
    }
    return any && rest && !above;
}

GR_SEAM bool gr_public_key(const uint8_t secret[32], uint8_t key[65])
{
    return gr_is_private_key(secret) &&
           mulgen(key, secret, COORDINATE_BYTES, BR_EC_secp256r1) == P256_POINT_BYTES;
}
#endif /* GRAMOPHONE_ATTEST */
