/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash of the crypto seam: BearSSL's, which fails where the target wants it to. */
#include "bearssl.h"
#include "crypto.h"

bool gr_fuzz_hash_fails(void);

bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    br_sha256_context context;
    if (gr_fuzz_hash_fails())
        return false;
    br_sha256_init(&context);
    br_sha256_update(&context, data, bytes);
    br_sha256_out(&context, digest);
    return true;
}
