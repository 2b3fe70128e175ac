/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam over OpenSSL's libcrypto, for host builds that should be fast. Its low-level
 * functions are deprecated, but neither read a configuration nor load providers at the first call,
 * as their successors do. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/obj_mac.h>
#include <openssl/sha.h>

#include "crypto.h"

bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    SHA256_CTX context;
    return SHA256_Init(&context) == 1 && SHA256_Update(&context, data, bytes) == 1 &&
           SHA256_Final(digest, &context) == 1;
}

uint32_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); /* no configuration file may change it */
    EC_KEY *public = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, 32, NULL), *s = BN_bin2bn(signature + 32, 32, NULL);
    int verdict = 0;
    if (public && pair && r && s && ECDSA_SIG_set0(pair, r, s)) {
        r = s = NULL; /* the pair owns them now */
        verdict =
            EC_KEY_oct2key(public, key, 65, NULL) == 1 && ECDSA_do_verify(digest, 32, pair, public) == 1;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    EC_KEY_free(public);
    return verdict ? good : ~good;
}
