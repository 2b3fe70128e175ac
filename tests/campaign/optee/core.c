/* SPDX-License-Identifier: BSD-2-Clause */
/* The replayer as in OP-TEE's pseudo-TA (gramophone.c there): one file with the seam to OP-TEE's core crypto.
 * What calls it is the bare-metal program. OP-TEE's own part of this image is its core crypto, LibTomCrypt
 * and mbedTLS's big numbers, as its build has compiled them. */
#define GR_API static
#define gr_main campaign_main
/* The bare-metal port has the normal world's data in its mailbox, not in the carve-out as OP-TEE's has. */
#define GR_STAGING_BYTES 0
#include "replayer.c"

#include "crypto.c"
#include "optee_crypto.c"

#include "port.c"

#include "qemu_virt.c"

#include "main.c"
#undef gr_main

#include <malloc.h>

enum { HEAP_BYTES = 128 << 10 };

/* What OP-TEE does when it starts. */
_Noreturn void gr_main(void)
{
    static uint64_t heap[HEAP_BYTES / sizeof(uint64_t)];
    malloc_add_pool(heap, sizeof heap);
    if (crypto_init() != TEE_SUCCESS)
        gr_exit('!', 0, EXIT_EXCEPTION);
    campaign_main();
}
