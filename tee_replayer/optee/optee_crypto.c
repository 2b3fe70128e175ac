/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-256 over OP-TEE's core crypto. */
#include <tee/tee_cryp_utl.h>
#include <tee_api_defines.h>

#include "replayer.h"

/* Core crypto allocates, so it may fail. */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    return tee_hash_createdigest(TEE_ALG_SHA256, data, bytes, digest, 32) == TEE_SUCCESS;
}
