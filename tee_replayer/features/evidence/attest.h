/* SPDX-License-Identifier: BSD-2-Clause */
/* Attestations: what firmware, policy and trace produced the latest outputs, signed for a verifier's nonce.
 */
#ifndef GRAMOPHONE_ATTEST_H
#define GRAMOPHONE_ATTEST_H

#include "log.h"

enum { GR_NONCE_MIN = 8, GR_NONCE_MAX = 64, GR_ATTESTATION_MAX = 1024, GR_PUBLIC_KEY_BYTES = 65 };

/* Write an attestation to memory that only this code reaches. Its size; 0: the nonce has another size than
 * GR_NONCE_MIN to GR_NONCE_MAX, or a library failed. `policy` is the device's constant, gr_device. */
GR_API uint32_t gr_attest(const struct gr_log *log, const uint8_t *nonce, uint32_t nonce_bytes,
                          const void *policy, size_t policy_bytes, uint8_t out[GR_ATTESTATION_MAX]);

/* The public key of this device's attestations, 04 || x || y. False: it has no secret, or a library failed.
 */
GR_API bool gr_attest_key(const struct gr_log *log, uint8_t key[GR_PUBLIC_KEY_BYTES]);

#endif
