/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam: SHA-256 and ES256 verification, by a library. */
#ifndef GRAMOPHONE_CRYPTO_H
#define GRAMOPHONE_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#ifndef GR_API
#define GR_API
#endif

GR_API void gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);

/* Far apart, and neither is a value that a skipped call would leave. */
#define GR_SIGNATURE_GOOD 0x627bf322u
#define GR_SIGNATURE_BAD 0x9d840cddu

/* ES256: key 04 || x || y, signature r || s. */
GR_API uint32_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65],
                                    const uint8_t signature[64]);

#endif
