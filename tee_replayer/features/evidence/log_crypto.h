/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam of the replay log: SHA-256 in pieces, HMAC-SHA-256, and ES256 signatures. */
#ifndef GRAMOPHONE_LOG_CRYPTO_H
#define GRAMOPHONE_LOG_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef GR_API
#define GR_API
#endif

/* The library's own; all zeros: not begun. */
struct gr_hash {
    uint64_t words[14];
};

/* Begin anew; add; end, and be as before the beginning. False when the library failed. */
GR_API bool gr_hash_begin(struct gr_hash *hash);
GR_API bool gr_hash_add(struct gr_hash *hash, const void *data, size_t bytes);
GR_API bool gr_hash_end(struct gr_hash *hash, uint8_t digest[32]);

GR_API bool gr_hmac(const uint8_t key[32], const void *data, size_t bytes, uint8_t mac[32]);

/* Whether a number of 32 bytes, the most significant first, is a private key of P-256: in 1 to n - 1. */
GR_API bool gr_is_private_key(const uint8_t secret[32]);

/* ES256 by the key with this secret, deterministic (RFC 6979), r || s with the lower s; its public key,
 * 04 || x || y. False: the secret is no private key, or the library failed. */
GR_API bool gr_sign(const uint8_t secret[32], const uint8_t digest[32], uint8_t signature[64]);
GR_API bool gr_public_key(const uint8_t secret[32], uint8_t key[65]);

#endif
