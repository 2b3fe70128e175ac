/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam: SHA-256 and verification, by a library. */
#ifndef GRAMOPHONE_CRYPTO_H
#define GRAMOPHONE_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef GR_API
#define GR_API
#endif
/* Not inlined into the core, so that the size report can separate the two under link-time optimisation. */
#define GR_SEAM __attribute__((noinline))

/* False when the library failed, for lack of memory; `digest` is then nothing. */
GR_API bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);

/* What a verification answers about a bad signature: far from each value of `good` and its complement. */
#define GR_BAD_VERDICT 0x269e0d37u

/* What the verification is to answer if it takes a bad signature for a good one; the low half of the x
 * coordinate that it then has recomputed; and what gr_known_answer is when it refuses. */
#define GR_KNOWN_VERDICT 0x6513270eu
#define GR_KNOWN_X 0x2326c8au
#define GR_KNOWN_ANSWER (GR_BAD_VERDICT ^ GR_KNOWN_X)

/* ES256: key 04 || x || y, signature r || s. The low half of the answer is `good`, which is the caller's to
 * choose, or GR_BAD_VERDICT, or a value that is neither. The high half is the low half of the x coordinate
 * that was recomputed, modulo the group's order; 0 where none was. No library's verdict is believed after one
 * call: a skipped instruction can make it any. The core verifies twice, with two values of `good`, and asks
 * for a known answer, because an instruction that stays changed makes each verdict the same. */
GR_API uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                    const uint8_t signature[64], uint32_t good);

#ifdef GRAMOPHONE_ENCRYPTION
/* AES-128, in counter mode or backwards for single blocks: the library's own, and what it holds is secret.
 * All of it takes the same time for all keys and data. */
struct gr_cipher {
    _Alignas(16) uint64_t words[34];
};

/* Counter mode, from a block on, of whose counter the last 32 bits count; then decrypt whole blocks in place:
 * their number. False: the library failed. */
GR_API bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16]);
GR_API uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks);

/* AES backwards, a block at a time. */
GR_API bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16]);
GR_API bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16]);

/* After either, and after a failure too: nothing of the key stays. */
GR_API void gr_cipher_end(struct gr_cipher *cipher);

/* ECDH on P-256 (SP 800-56A, 5.7.1.2): x of secret * point, which is 04 || x || y. False: the secret is no
 * private key, or the point is not on the curve. */
GR_API bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32]);
#endif

#ifdef GRAMOPHONE_ES384
/* SHA-384 and ES384, likewise: key 04 || x || y, signature r || s, with any s. */
GR_API bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48]);
GR_API uint32_t gr_es384_verify(const uint8_t digest[48], const uint8_t key[97], const uint8_t signature[96],
                                uint32_t good);
#endif

#ifdef GRAMOPHONE_ED25519
/* SHA-512 of 64 bytes and what follows; and Ed25519 (RFC 8032, without a context), likewise, of a message.
 * Good is what OpenSSL calls so, and by no key of small order. */
GR_API bool gr_sha512(const uint8_t first[64], const void *data, size_t bytes, uint8_t digest[64]);
GR_API uint32_t gr_ed25519_verify(const uint8_t *message, size_t bytes, const uint8_t key[32],
                                  const uint8_t signature[64], uint32_t good);
#endif

#ifdef GRAMOPHONE_ML_DSA
/* ML-DSA-44 (FIPS 204, the context is empty), likewise, of a message. The workspace, at a multiple of 8, is
 * what it needs besides 2 KiB of stack. */
#define GR_ML_DSA_KEY_BYTES 1312u
#define GR_ML_DSA_SIGNATURE_BYTES 2420u
#define GR_ML_DSA_WORKSPACE_BYTES 9152u
GR_API uint32_t gr_ml_dsa_verify(const uint8_t *message, size_t bytes, const uint8_t key[GR_ML_DSA_KEY_BYTES],
                                 const uint8_t signature[GR_ML_DSA_SIGNATURE_BYTES], void *workspace,
                                 uint32_t good);
#endif

#endif
