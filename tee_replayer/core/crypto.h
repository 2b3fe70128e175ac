/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam: SHA-256 and ES256 verification, by a library. */
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

#endif
