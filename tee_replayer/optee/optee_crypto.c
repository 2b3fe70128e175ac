/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's hashes and AES over OP-TEE's core crypto. */
#include <crypto/crypto.h>
#include <string.h>
#include <tee_api_defines.h>

#include "replayer.h"

enum { PIECE_BYTES = 512, FIRST_BYTES = 64 };

/* Core crypto allocates, so it may fail. It hashes copies: the carve-out is Device memory, where wide loads
 * of odd addresses are alignment faults, which are the core's end; and what is at an odd address, a trace
 * says. What comes first, if anything does, is on the stack. */
static bool hash(uint32_t algorithm, const uint8_t *first, const void *data, size_t bytes, uint8_t *digest,
                 size_t digest_bytes)
{
    uint8_t piece[PIECE_BYTES];
    const uint8_t *at = data;
    void *ctx = NULL;
    bool good = crypto_hash_alloc_ctx(&ctx, algorithm) == TEE_SUCCESS && crypto_hash_init(ctx) == TEE_SUCCESS;
    if (good && first)
        good = crypto_hash_update(ctx, first, FIRST_BYTES) == TEE_SUCCESS;
    while (good && bytes) {
        const size_t n = bytes < sizeof piece ? bytes : sizeof piece;
        memcpy(piece, at, n);
        good = crypto_hash_update(ctx, piece, n) == TEE_SUCCESS;
        at += n;
        bytes -= n;
    }
    good = good && crypto_hash_final(ctx, digest, digest_bytes) == TEE_SUCCESS;
    crypto_hash_free_ctx(ctx);
    return good;
}

bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    return hash(TEE_ALG_SHA256, NULL, data, bytes, digest, 32);
}

#ifdef GRAMOPHONE_ES384
bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48])
{
    return hash(TEE_ALG_SHA384, NULL, data, bytes, digest, 48);
}
#endif

#ifdef GRAMOPHONE_ED25519
bool gr_sha512(const uint8_t first[64], const void *data, size_t bytes, uint8_t digest[64])
{
    return hash(TEE_ALG_SHA512, first, data, bytes, digest, 64);
}
#endif

#ifdef GRAMOPHONE_ENCRYPTION
enum { AES_BLOCK_BYTES = 16, AES_KEY_BYTES = 16 };

/* In the first word of struct gr_cipher; NULL: there is none. */
static void **cipher_context(struct gr_cipher *cipher)
{
    return (void **)(void *)cipher;
}

static bool begin_cipher(struct gr_cipher *cipher, uint32_t algorithm, TEE_OperationMode mode,
                         const uint8_t key[AES_KEY_BYTES], const uint8_t *counter, size_t counter_bytes)
{
    void **ctx = cipher_context(cipher);
    *ctx = NULL;
    return crypto_cipher_alloc_ctx(ctx, algorithm) == TEE_SUCCESS &&
           crypto_cipher_init(*ctx, mode, key, AES_KEY_BYTES, NULL, 0, counter, counter_bytes) == TEE_SUCCESS;
}

bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16])
{
    return begin_cipher(cipher, TEE_ALG_AES_CTR, TEE_MODE_DECRYPT, key, counter, AES_BLOCK_BYTES);
}

/* Copies are decrypted, for the same reason as copies are hashed. */
uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks)
{
    uint8_t piece[PIECE_BYTES];
    uint32_t left = blocks;
    while (left) {
        const uint32_t n = left < PIECE_BYTES / AES_BLOCK_BYTES ? left : PIECE_BYTES / AES_BLOCK_BYTES;
        const size_t bytes = (size_t)n * AES_BLOCK_BYTES;
        memcpy(piece, data, bytes);
        if (crypto_cipher_update(*cipher_context(cipher), TEE_MODE_DECRYPT, false, piece, bytes, piece) !=
            TEE_SUCCESS)
            break;
        memcpy(data, piece, bytes);
        data += bytes;
        left -= n;
    }
    memset(piece, 0, sizeof piece);
    __asm__ volatile("" ::"r"(piece) : "memory"); /* it is not left out */
    return blocks - left;
}

bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16])
{
    return begin_cipher(cipher, TEE_ALG_AES_ECB_NOPAD, TEE_MODE_DECRYPT, key, NULL, 0);
}

bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16])
{
    return *cipher_context(cipher) && crypto_cipher_update(*cipher_context(cipher), TEE_MODE_DECRYPT, false,
                                                           block, AES_BLOCK_BYTES, block) == TEE_SUCCESS;
}

void gr_cipher_end(struct gr_cipher *cipher)
{
    void **ctx = cipher_context(cipher);
    if (*ctx) {
        crypto_cipher_final(*ctx);
        crypto_cipher_free_ctx(*ctx);
    }
    *ctx = NULL;
}
#endif
