/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam over OpenSSL's libcrypto, for host builds that should be fast. Its low-level
 * functions are deprecated, but neither read a configuration nor load providers at the first call,
 * as their successors do. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <string.h>

#include <openssl/aes.h>
#include <openssl/crypto.h>
#include <openssl/ecdh.h>
#include <openssl/ecdsa.h>
#include <openssl/modes.h>
#include <openssl/obj_mac.h>
#include <openssl/sha.h>

#include "crypto.h"

bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    SHA256_CTX context;
    return SHA256_Init(&context) == 1 && SHA256_Update(&context, data, bytes) == 1 &&
           SHA256_Final(digest, &context) == 1;
}

/* The low half of x, modulo the order, of the point that ECDSA recomputes on P-256; 0 where there is none. */
static uint32_t recomputed_x(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64])
{
    EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    const BIGNUM *order = EC_GROUP_get0_order(group);
    BN_CTX *ctx = BN_CTX_new();
    BIGNUM *r = BN_bin2bn(signature, 32, NULL), *s = BN_bin2bn(signature + 32, 32, NULL);
    BIGNUM *e = BN_bin2bn(digest, 32, NULL), *x = BN_new();
    EC_POINT *point = EC_POINT_new(group), *public = EC_POINT_new(group);
    uint8_t bytes[32] = {0};
    if (EC_POINT_oct2point(group, public, key, 65, ctx) == 1 && BN_mod_inverse(s, s, order, ctx) &&
        BN_mod_mul(e, e, s, order, ctx) && BN_mod_mul(s, r, s, order, ctx) &&
        EC_POINT_mul(group, point, e, public, s, ctx) == 1 &&
        EC_POINT_get_affine_coordinates(group, point, x, NULL, ctx) == 1 && BN_mod(x, x, order, ctx))
        BN_bn2binpad(x, bytes, sizeof bytes);
    EC_POINT_free(point);
    EC_POINT_free(public);
    EC_GROUP_free(group);
    BN_free(x);
    BN_free(e);
    BN_free(s);
    BN_free(r);
    BN_CTX_free(ctx);
    return (uint32_t)bytes[28] << 24 | (uint32_t)bytes[29] << 16 | (uint32_t)bytes[30] << 8 | bytes[31];
}

/* Whether an ECDSA signature is good, of whose numbers each has `bytes` bytes, as the digest does. */
static bool is_good(int curve, int bytes, const uint8_t *digest, const uint8_t *key, const uint8_t *signature)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); /* no configuration file may change it */
    EC_KEY *public = EC_KEY_new_by_curve_name(curve);
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, bytes, NULL), *s = BN_bin2bn(signature + bytes, bytes, NULL);
    bool verdict = false;
    if (public && pair && r && s && ECDSA_SIG_set0(pair, r, s)) {
        r = s = NULL; /* the pair owns them now */
        verdict = EC_KEY_oct2key(public, key, 2 * (size_t)bytes + 1, NULL) == 1 &&
                  ECDSA_do_verify(digest, bytes, pair, public) == 1;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    EC_KEY_free(public);
    return verdict;
}

uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good)
{
    return (uint64_t)recomputed_x(digest, key, signature) << 32 |
           (is_good(NID_X9_62_prime256v1, 32, digest, key, signature) ? good : GR_BAD_VERDICT);
}

#ifdef GRAMOPHONE_ES384
bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48])
{
    SHA512_CTX context;
    return SHA384_Init(&context) == 1 && SHA384_Update(&context, data, bytes) == 1 &&
           SHA384_Final(digest, &context) == 1;
}

uint32_t gr_es384_verify(const uint8_t digest[48], const uint8_t key[97], const uint8_t signature[96],
                         uint32_t good)
{
    return is_good(NID_secp384r1, 48, digest, key, signature) ? good : GR_BAD_VERDICT;
}
#endif

#ifdef GRAMOPHONE_ENCRYPTION
enum { BLOCK_BYTES = 16 };

struct state {
    AES_KEY schedule;
    uint8_t counter[BLOCK_BYTES];
};

_Static_assert(sizeof(struct state) <= sizeof(struct gr_cipher), "crypto.h has room for it");

static struct state *state_of(struct gr_cipher *cipher)
{
    return (struct state *)(void *)cipher;
}

static void encrypt_block(const unsigned char in[BLOCK_BYTES], unsigned char out[BLOCK_BYTES],
                          const void *key)
{
    AES_encrypt(in, out, key);
}

bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16])
{
    struct state *s = state_of(cipher);
    memcpy(s->counter, counter, sizeof s->counter);
    return AES_set_encrypt_key(key, 128, &s->schedule) == 0;
}

uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks)
{
    struct state *s = state_of(cipher);
    uint8_t stream[BLOCK_BYTES];
    unsigned used = 0;
    CRYPTO_ctr128_encrypt(data, data, (size_t)blocks * BLOCK_BYTES, &s->schedule, s->counter, stream, &used,
                          encrypt_block);
    return blocks;
}

bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16])
{
    return AES_set_decrypt_key(key, 128, &state_of(cipher)->schedule) == 0;
}

bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16])
{
    AES_decrypt(block, block, &state_of(cipher)->schedule);
    return true;
}

void gr_cipher_end(struct gr_cipher *cipher)
{
    OPENSSL_cleanse(cipher, sizeof *cipher);
}

bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32])
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
    EC_KEY *private = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
    EC_KEY *public = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
    const bool good = private && public && EC_KEY_oct2priv(private, secret, 32) == 1 &&
                      EC_KEY_oct2key(public, point, 65, NULL) == 1 &&
                      ECDH_compute_key(shared, 32, EC_KEY_get0_public_key(public), private, NULL) == 32;
    EC_KEY_free(public);
    EC_KEY_free(private);
    return good;
}
#endif
