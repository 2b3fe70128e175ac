/* The crypto seam over BearSSL. br_sha256 is the small generic one; ec_p256_m31 takes 3.5 KB more than
 * ec_prime_i31 and verifies in 9 million instructions instead of 26. */
#include "bearssl_ec.h"
#include "bearssl_hash.h"
#include "crypto.h"

/* Not inlined into the core, so that the size report tells the two apart under link-time optimisation. */
#define SEAM __attribute__((noinline))

_Static_assert(sizeof(br_sha256_context) <= sizeof(struct gr_sha256),
               "struct gr_sha256 holds BearSSL's context");

SEAM void gr_sha256_init(struct gr_sha256 *hash)
{
    br_sha256_init((br_sha256_context *)(void *)hash);
}

SEAM void gr_sha256_update(struct gr_sha256 *hash, const void *data, size_t bytes)
{
    br_sha256_update((br_sha256_context *)(void *)hash, data, bytes);
}

SEAM void gr_sha256_final(const struct gr_sha256 *hash, uint8_t digest[32])
{
    br_sha256_out((const br_sha256_context *)(const void *)hash, digest);
}

SEAM uint32_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                  const uint8_t signature[64])
{
    /* BearSSL takes the point as not const, and does not write to it. */
    const br_ec_public_key public = {BR_EC_secp256r1, (unsigned char *)(uintptr_t)key, 65};
    const volatile uint32_t good = br_ecdsa_i31_vrfy_raw(&br_ec_p256_m31, digest, 32, &public, signature, 64);
    if (good != 1)
        return GR_SIGNATURE_BAD;
    return good == 1 ? GR_SIGNATURE_GOOD : GR_SIGNATURE_BAD;
}
