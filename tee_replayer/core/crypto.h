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

/* ES256: key 04 || x || y, signature r || s. The answer is `good`, which is the caller's to choose, or a
 * value far from it. No library's verdict is believed after one call: a skipped instruction can make it any.
 * The core verifies twice, with two values of `good`. */
GR_API uint32_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                    const uint8_t signature[64], uint32_t good);

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
