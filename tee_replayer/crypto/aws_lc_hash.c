/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's SHA-256 over AWS-LC's functions for AArch64, of which one takes the Armv8 instructions.
 * They take whole blocks; here is the padding (FIPS 180-4, 5.1.1), and which one the core can execute. */
#include <string.h>

#include "crypto.h"

enum { BLOCK_BYTES = 64, LENGTH_BYTES = 8, STATE_WORDS = 8, AT_ONCE = 4 };

/* blocks > 0, and data at a multiple of 8: without an MMU, what is wider than a byte must be aligned. */
void sha256_block_data_order_hw(uint32_t state[STATE_WORDS], const uint8_t *data, size_t blocks);
void sha256_block_data_order_nohw(uint32_t state[STATE_WORDS], const uint8_t *data, size_t blocks);

static bool has_instructions(void)
{
    uint64_t features = 0;
    __asm__("mrs %0, id_aa64isar0_el1" : "=r"(features));
    return features >> 12 & 0xf; /* SHA2; Arm ARM, D19.2.61 */
}

static void add_blocks(uint32_t state[STATE_WORDS], const uint8_t *data, size_t blocks)
{
    if (!blocks)
        return;
    if (has_instructions())
        sha256_block_data_order_hw(state, data, blocks);
    else
        sha256_block_data_order_nohw(state, data, blocks);
}

GR_SEAM bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32])
{
    uint32_t state[STATE_WORDS] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}; /* FIPS 180-4, 5.3.3 */
    _Alignas(uint64_t) uint8_t last[AT_ONCE * BLOCK_BYTES];
    const uint8_t *at = data;
    const size_t whole = bytes / BLOCK_BYTES, rest = bytes % BLOCK_BYTES;
    const size_t blocks = rest < BLOCK_BYTES - LENGTH_BYTES ? 1 : 2;
    const uint64_t length = __builtin_bswap64((uint64_t)bytes * 8);
    if ((uintptr_t)data % sizeof(uint64_t) == 0) {
        add_blocks(state, at, whole);
        at += whole * BLOCK_BYTES;
    } else {
        for (size_t left = whole, n; left; left -= n, at += n * BLOCK_BYTES) {
            n = left < AT_ONCE ? left : AT_ONCE;
            memcpy(last, at, n * BLOCK_BYTES);
            add_blocks(state, last, n);
        }
    }
    memset(last, 0, sizeof last);
    memcpy(last, at, rest);
    last[rest] = 0x80;
    memcpy(last + blocks * BLOCK_BYTES - LENGTH_BYTES, &length, LENGTH_BYTES);
    add_blocks(state, last, blocks);
    for (uint32_t i = 0; i < STATE_WORDS; i++)
        state[i] = __builtin_bswap32(state[i]);
    memcpy(digest, state, sizeof state);
    return true;
}
