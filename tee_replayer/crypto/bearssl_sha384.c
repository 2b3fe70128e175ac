/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-384 of host builds: BearSSL's only one. */
#include <bearssl.h>

#include "crypto.h"

GR_SEAM bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48])
{
    br_sha384_context context;
    br_sha384_init(&context);
    br_sha384_update(&context, data, bytes);
    br_sha384_out(&context, digest);
    return true;
}
