/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: what a device makes of the message that says who can read an encrypted trace. An input is the
 * message, behind two bytes: which hash fails, whether the device has a secret and a fleet's key; and how
 * many blocks of a wrapped key decrypt to what a right one would.
 *
 * Cryptography is a stand-in: a point is good when its last byte is odd, AES leaves blocks as they are or
 * gives what the check of RFC 3394 asks for. A body is opened only with a key that was unwrapped, and all
 * that is secret is gone afterwards.
 */
#include "crypto.h"
#include "load.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { BEFORE = 64, MOST = 4096 };

static uint32_t hashes, hash_fails_at, inverses, good_inverse, ended, now;
static bool has_secret, has_fleet_key;

static void check(bool good)
{
    if (!good)
        abort();
}

bool gr_fuzz_hash_fails(void)
{
    return ++hashes == hash_fails_at;
}

uint64_t gr_port_now_us(void)
{
    return now++;
}

bool gr_port_secret(uint8_t secret[32])
{
    memset(secret, 0x5e, 32);
    return has_secret;
}

bool gr_port_fleet_key(uint8_t key[32])
{
    memset(key, 0xf1, 32);
    return has_fleet_key;
}

bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32])
{
    check(point[0] == 4 && (has_secret || has_fleet_key));
    for (uint32_t i = 0; i < 32; i++)
        shared[i] = secret[i] ^ point[1 + i] ^ point[33 + i];
    return point[64] & 1;
}

bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16])
{
    memcpy(cipher, key, 16);
    inverses++;
    return true;
}

bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16])
{
    (void)cipher;
    if (inverses == good_inverse)
        memset(block, 0xa6, 8); /* the check of RFC 3394, 2.2.3.1 */
    return true;
}

bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16])
{
    (void)cipher, (void)key, (void)counter;
    abort(); /* no body is read here */
}

uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks)
{
    (void)cipher, (void)data, (void)blocks;
    abort(); /* no body is read here */
}

void gr_cipher_end(struct gr_cipher *cipher)
{
    memset(cipher, 0, sizeof *cipher);
    ended++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2 || bytes - 2 > MOST)
        return 0;
    hash_fails_at = data[0] >> 2;
    has_secret = data[0] & 1;
    has_fleet_key = data[0] & 2;
    good_inverse = data[1];
    hashes = inverses = ended = now = 0;
    const size_t size = bytes - 2;
    uint8_t *head = malloc(BEFORE + size); /* to the byte, so that nothing behind it is touched */
    if (!head)
        abort();
    memset(head, 0, BEFORE);
    memcpy(head + BEFORE, data + 2, size);
    struct gr_replayer replayer = {0};
    struct loader l = {.r = &replayer, .head = head, .flags = GR_HEADER_FLAG_ENCRYPTED};
    l.stream.deadline_us = 40; /* of at most 32 trials */
    const enum gr_status status = gr_open_body(&l, head + BEFORE, size);
    check((status == GR_STATUS_OK) == (l.stream.body_key != NULL));
    check(status != GR_STATUS_OK || (good_inverse && inverses == good_inverse));
    check(ended == inverses && inverses <= 2 * GR_MAX_RECIPIENTS);
    check(status == GR_STATUS_OK || status == GR_STATUS_ENCRYPTED || status == GR_STATUS_SECTIONS ||
          (status == GR_STATUS_MEMORY && hash_fails_at));
    free(head);
    return 0;
}
