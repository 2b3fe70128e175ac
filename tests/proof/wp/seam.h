/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam: what it reads and writes. */
#include "crypto.h"

/*@ requires room: \valid(digest + (0 .. 31));
    requires source: \valid_read(data + (0 .. bytes - 1));
    assigns digest[0 .. 31];
*/
bool proof_hash(const uint8_t *data, size_t bytes, uint8_t *digest);
#define gr_sha256 proof_hash

/*@ requires digest: \valid_read(digest + (0 .. 31));
    requires key: \valid_read(key + (0 .. 64));
    requires signature: \valid_read(signature + (0 .. 63));
    assigns \nothing;
*/
uint64_t gr_signature_verify(const uint8_t *digest, const uint8_t *key, const uint8_t *signature,
                             uint32_t good);

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \valid_read(b + (0 .. bytes - 1));
    assigns \nothing;
*/
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);

/*@ requires \valid_read(s + (0 .. 31));
    assigns \nothing;
*/
bool gr_is_low(const uint8_t s[32]);
