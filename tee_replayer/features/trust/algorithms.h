/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam of keys that only trust policies name. */
#ifndef GRAMOPHONE_ALGORITHMS_H
#define GRAMOPHONE_ALGORITHMS_H

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
