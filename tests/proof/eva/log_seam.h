/* SPDX-License-Identifier: BSD-2-Clause */
/* What a replay log calls, for its proof: a library that writes what it is to write, and may fail at each
 * call; a board that may have a secret. */
#define __attribute__(names)
/* A hint to the compiler; it has no instructions. */
#define __asm__
#define volatile(...)
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "__fc_builtin.h"
#include "attest.h"
#include "gr_target.h"
#include "internal.h"
#include "string.h"

/*@ requires \valid(hash); assigns \result, *hash \from \nothing; ensures 0 <= \result <= 1; */
bool gr_hash_begin(struct gr_hash *hash);
/*@ requires \valid(hash) && \valid_read((uint8_t *)data + (0 .. bytes - 1));
    assigns \result, *hash \from *hash, ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1; */
bool gr_hash_add(struct gr_hash *hash, const void *data, size_t bytes);
/*@ requires \valid(hash) && \valid(digest + (0 .. 31));
    assigns \result, *hash, digest[0 .. 31] \from *hash; ensures 0 <= \result <= 1 && \initialized(digest + (0
   .. 31)); */
bool gr_hash_end(struct gr_hash *hash, uint8_t digest[32]);
/*@ requires \valid_read((uint8_t *)data + (0 .. bytes - 1)) && \valid(digest + (0 .. 31));
    requires \initialized((uint8_t *)data + (0 .. bytes - 1));
    assigns \result, digest[0 .. 31] \from ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(digest + (0 .. 31)); */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);
/*@ requires \valid_read(key + (0 .. 31)) && \initialized(key + (0 .. 31));
    requires \valid_read((uint8_t *)data + (0 .. bytes - 1)) && \valid(mac + (0 .. 31));
    requires \initialized((uint8_t *)data + (0 .. bytes - 1));
    assigns \result, mac[0 .. 31] \from key[0 .. 31], ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(mac + (0 .. 31)); */
bool gr_hmac(const uint8_t key[32], const void *data, size_t bytes, uint8_t mac[32]);

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \initialized(a + (0 .. bytes - 1));
    requires \valid_read(b + (0 .. bytes - 1)) && \initialized(b + (0 .. bytes - 1));
    assigns \result \from a[0 .. bytes - 1], b[0 .. bytes - 1]; ensures 0 <= \result <= 1; */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);

void gr_wipe(void *to, uint64_t bytes)
{
    memset(to, 0, bytes);
}

/*@ requires \valid_read(secret + (0 .. 31)) && \initialized(secret + (0 .. 31));
    assigns \result \from secret[0 .. 31]; ensures 0 <= \result <= 1; */
bool gr_is_private_key(const uint8_t secret[32]);
/*@ requires \valid_read(secret + (0 .. 31)) && \initialized(secret + (0 .. 31));
    requires \valid_read(digest + (0 .. 31)) && \initialized(digest + (0 .. 31));
    requires \valid(signature + (0 .. 63));
    assigns \result, signature[0 .. 63] \from secret[0 .. 31], digest[0 .. 31];
    ensures 0 <= \result <= 1 && \initialized(signature + (0 .. 63)); */
bool gr_sign(const uint8_t secret[32], const uint8_t digest[32], uint8_t signature[64]);
/*@ requires \valid_read(secret + (0 .. 31)) && \initialized(secret + (0 .. 31)) && \valid(key + (0 .. 64));
    assigns \result, key[0 .. 64] \from secret[0 .. 31];
    ensures 0 <= \result <= 1 && \initialized(key + (0 .. 64)); */
bool gr_public_key(const uint8_t secret[32], uint8_t key[65]);

static bool give_secret(void *ctx, uint8_t secret[GR_SECRET_BYTES])
{
    (void)ctx;
    Frama_C_make_unknown((char *)secret, GR_SECRET_BYTES);
    return Frama_C_interval(0, 1);
}
