/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam of encrypted bodies: AES-128 and ECDH. */
#ifndef GRAMOPHONE_CIPHER_H
#define GRAMOPHONE_CIPHER_H

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

#endif
