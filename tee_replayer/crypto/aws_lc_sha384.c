/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-384 over AWS-LC's SHA-512 for AArch64, of which one function takes the Armv8.2
 * instructions. They take whole blocks; here is the padding (FIPS 180-4, 5.1.2), and which one the core can
 * execute. Every block is a copy: without an MMU, what is wider than a byte must be aligned. */
#include <string.h>

#include "crypto.h"

enum { WIDE_BLOCK_BYTES = 128, WIDE_LENGTH_BYTES = 16, WIDE_STATE_WORDS = 8, SHA384_WORDS = 6 };

void sha512_block_data_order_hw(uint64_t state[WIDE_STATE_WORDS], const uint8_t *data, size_t blocks);
void sha512_block_data_order_nohw(uint64_t state[WIDE_STATE_WORDS], const uint8_t *data, size_t blocks);

static void add_wide_block(uint64_t state[WIDE_STATE_WORDS], const uint8_t *data)
{
    uint64_t features = 0;
    __asm__("mrs %0, id_aa64isar0_el1" : "=r"(features));
    if ((features >> 12 & 0xf) >= 2) /* SHA2: SHA-512 as well; Arm ARM, D19.2.61 */
        sha512_block_data_order_hw(state, data, 1);
    else
        sha512_block_data_order_nohw(state, data, 1);
}

GR_SEAM bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48])
{
    uint64_t state[WIDE_STATE_WORDS] = {0xcbbb9d5dc1059ed8, 0x629a292a367cd507, 0x9159015a3070dd17,
                                        0x152fecd8f70e5939, 0x67332667ffc00b31, 0x8eb44a8768581511,
                                        0xdb0c2e0d64f98fa7, 0x47b5481dbefa4fa4}; /* FIPS 180-4, 5.3.4 */
    _Alignas(16) uint8_t block[WIDE_BLOCK_BYTES];
    const uint8_t *at = data;
    const uint64_t length = __builtin_bswap64((uint64_t)bytes * 8);
    size_t left = bytes;
    for (; left >= sizeof block; left -= sizeof block, at += sizeof block) {
        memcpy(block, at, sizeof block);
        add_wide_block(state, block);
    }
    memset(block, 0, sizeof block);
    memcpy(block, at, left);
    block[left] = 0x80;
    if (left >= sizeof block - WIDE_LENGTH_BYTES) {
        add_wide_block(state, block);
        memset(block, 0, sizeof block);
    }
    memcpy(block + sizeof block - sizeof length, &length, sizeof length);
    add_wide_block(state, block);
    for (uint32_t i = 0; i < SHA384_WORDS; i++)
        state[i] = __builtin_bswap64(state[i]);
    memcpy(digest, state, SHA384_WORDS * sizeof state[0]);
    return true;
}
