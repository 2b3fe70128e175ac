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

#include "../features/encryption/cipher.h"
#include "../features/trust/algorithms.h"

#endif
