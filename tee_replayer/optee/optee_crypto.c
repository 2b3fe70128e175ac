/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam over OP-TEE's core crypto. */
#include <crypto/crypto.h>
#include <tee/tee_cryp_utl.h>
#include <tee_api_defines.h>
#include <utee_defines.h>

#include "replayer.h"

enum { DIGEST_BYTES = 32, COORDINATE_BYTES = 32, SIGNATURE_BYTES = 64, CURVE_BITS = 256 };

/* Core crypto allocates, so it may fail. */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    return tee_hash_createdigest(TEE_ALG_SHA256, data, bytes, digest, DIGEST_BYTES) == TEE_SUCCESS;
}

uint32_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good)
{
    struct ecc_public_key public = {.curve = TEE_ECC_CURVE_NIST_P256};
    volatile TEE_Result result = TEE_ERROR_GENERIC;
    if (crypto_acipher_alloc_ecc_public_key(&public, TEE_TYPE_ECDSA_PUBLIC_KEY, CURVE_BITS) != TEE_SUCCESS)
        return ~good;
    public.curve = TEE_ECC_CURVE_NIST_P256;
    if (crypto_bignum_bin2bn(key + 1, COORDINATE_BYTES, public.x) == TEE_SUCCESS &&
        crypto_bignum_bin2bn(key + 1 + COORDINATE_BYTES, COORDINATE_BYTES, public.y) == TEE_SUCCESS)
        result = crypto_acipher_ecc_verify(TEE_ALG_ECDSA_SHA256, &public, digest, DIGEST_BYTES, signature,
                                           SIGNATURE_BYTES);
    crypto_acipher_free_ecc_public_key(&public);
    if (result != TEE_SUCCESS)
        return ~good;
    return result == TEE_SUCCESS ? good : ~good;
}
