/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's AES-128 over AWS-LC's functions, which take the same time for all keys and data: on
 * AArch64 by the Armv8 instructions where the core has them, else, and on x86-64, by permutations of bytes in
 * vector registers (Hamburg, "Accelerating AES with Vector Permute Instructions", 2009). */
#include <string.h>

#include "crypto.h"

enum { KEY_BITS = 128, AES_BLOCK_BYTES = 16, SCHEDULE_BYTES = 244 };

/* AWS-LC's AES_KEY (openssl/aes.h): 60 words, and the number of rounds. */
struct schedule {
    _Alignas(16) uint32_t words[SCHEDULE_BYTES / 4];
};

struct state {
    struct schedule schedule;
    uint8_t counter[AES_BLOCK_BYTES];
};

_Static_assert(sizeof(struct state) <= sizeof(struct gr_cipher), "crypto.h has room for it");

int vpaes_set_encrypt_key(const uint8_t *key, int bits, struct schedule *schedule);
int vpaes_set_decrypt_key(const uint8_t *key, int bits, struct schedule *schedule);
void vpaes_decrypt(const uint8_t *in, uint8_t *out, const struct schedule *schedule);
void vpaes_ctr32_encrypt_blocks(const uint8_t *in, uint8_t *out, size_t blocks,
                                const struct schedule *schedule, const uint8_t counter[AES_BLOCK_BYTES]);

#if defined(__aarch64__) && (!defined(GR_AES) || GR_AES)
int aes_hw_set_encrypt_key(const uint8_t *key, int bits, struct schedule *schedule);
int aes_hw_set_decrypt_key(const uint8_t *key, int bits, struct schedule *schedule);
void aes_hw_decrypt(const uint8_t *in, uint8_t *out, const struct schedule *schedule);
void aes_hw_ctr32_encrypt_blocks(const uint8_t *in, uint8_t *out, size_t blocks,
                                 const struct schedule *schedule, const uint8_t counter[AES_BLOCK_BYTES]);

/* GR_AES is a board's: its cores have the instructions, or have not. */
static bool has_aes(void)
{
#ifdef GR_AES
    return GR_AES;
#else
    uint64_t features = 0;
    __asm__("mrs %0, id_aa64isar0_el1" : "=r"(features));
    return features >> 4 & 0xf; /* AES; Arm ARM, D19.2.61 */
#endif
}
#define CHOOSE(name, ...) (has_aes() ? aes_hw_##name(__VA_ARGS__) : vpaes_##name(__VA_ARGS__))
#else
#define CHOOSE(name, ...) vpaes_##name(__VA_ARGS__)
#endif

static struct state *state_of(struct gr_cipher *cipher)
{
    return (struct state *)(void *)cipher;
}

GR_SEAM bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16])
{
    struct state *s = state_of(cipher);
    memcpy(s->counter, counter, sizeof s->counter);
    return CHOOSE(set_encrypt_key, key, KEY_BITS, &s->schedule) == 0;
}

GR_SEAM uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks)
{
    struct state *s = state_of(cipher);
    CHOOSE(ctr32_encrypt_blocks, data, data, blocks, &s->schedule, s->counter);
    uint32_t next = 0;
    memcpy(&next, s->counter + AES_BLOCK_BYTES - sizeof next, sizeof next);
    next = __builtin_bswap32(__builtin_bswap32(next) + blocks);
    memcpy(s->counter + AES_BLOCK_BYTES - sizeof next, &next, sizeof next);
    return blocks;
}

GR_SEAM bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16])
{
    return CHOOSE(set_decrypt_key, key, KEY_BITS, &state_of(cipher)->schedule) == 0;
}

GR_SEAM bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16])
{
    CHOOSE(decrypt, block, block, &state_of(cipher)->schedule);
    return true;
}

GR_SEAM void gr_cipher_end(struct gr_cipher *cipher)
{
    memset(cipher, 0, sizeof *cipher);
    __asm__ volatile("" ::"r"(cipher) : "memory"); /* it is not left out */
}
