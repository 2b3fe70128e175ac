/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-256 over OP-TEE's core crypto. */
#include <crypto/crypto.h>
#include <string.h>
#include <tee_api_defines.h>

#include "replayer.h"

enum { PIECE_BYTES = 512, DIGEST_BYTES = 32 };

/* Core crypto allocates, so it may fail. It hashes copies: the carve-out is Device memory, where wide loads
 * of odd addresses are alignment faults, which are the core's end; and what is at an odd address, a trace
 * says. */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    uint8_t piece[PIECE_BYTES];
    const uint8_t *at = data;
    void *ctx = NULL;
    bool good =
        crypto_hash_alloc_ctx(&ctx, TEE_ALG_SHA256) == TEE_SUCCESS && crypto_hash_init(ctx) == TEE_SUCCESS;
    while (good && bytes) {
        const size_t n = bytes < sizeof piece ? bytes : sizeof piece;
        memcpy(piece, at, n);
        good = crypto_hash_update(ctx, piece, n) == TEE_SUCCESS;
        at += n;
        bytes -= n;
    }
    good = good && crypto_hash_final(ctx, digest, DIGEST_BYTES) == TEE_SUCCESS;
    crypto_hash_free_ctx(ctx);
    return good;
}
