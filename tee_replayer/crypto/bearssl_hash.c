/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-256: BearSSL's only one. */
#include <bearssl.h>

#include "crypto.h"

GR_SEAM bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    br_sha256_context context;
    br_sha256_init(&context);
    br_sha256_update(&context, data, bytes);
    br_sha256_out(&context, digest);
    return true;
}
