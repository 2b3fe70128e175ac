/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-384 and SHA-512, BearSSL's: only what is signed is hashed with them, so that the few
 * bytes count, and not the speed. */
#include <bearssl.h>

#include "crypto.h"

#ifdef GRAMOPHONE_ES384
GR_SEAM bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48])
{
    br_sha384_context context;
    br_sha384_init(&context);
    br_sha384_update(&context, data, bytes);
    br_sha384_out(&context, digest);
    return true;
}
#endif

#ifdef GRAMOPHONE_ED25519
GR_SEAM bool gr_sha512(const uint8_t first[64], const void *data, size_t bytes, uint8_t digest[64])
{
    br_sha512_context context;
    br_sha512_init(&context);
    br_sha512_update(&context, first, 64);
    br_sha512_update(&context, data, bytes);
    br_sha512_out(&context, digest);
    return true;
}
#endif
