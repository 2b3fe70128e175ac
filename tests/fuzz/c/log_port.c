/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What firmware with a replay log needs besides (fuzz target mailbox-log, around mailbox.c): the crypto seam
 * of the log, the device's secret, and where the tail is kept. It watches the tail: entries are counted one
 * by one, and a boot, a load and each replay have one.
 */
#include "log_port.h"
#include "device.h"
#include "log.h"
#include "port.h"

/* The firmware's own seam, under other names, without its signatures: these are replaced below. */
#undef GRAMOPHONE_ATTEST
#define gr_hash_begin library_hash_begin
#define gr_hash_add library_hash_add
#define gr_hash_end library_hash_end
#define gr_hmac library_hmac
#include "bearssl_log.c"
#undef gr_hash_begin
#undef gr_hash_add
#undef gr_hash_end
#undef gr_hmac

__asm__(".section .rodata\n.globl gr_rom_start, gr_rom_end\ngr_rom_start: .zero 64\ngr_rom_end:\n.text\n");

enum { BOOTS = 7, FIRST_ENTRY = 40 }; /* as the board finds them */

static struct gr_log_tail kept;
static uint32_t fails_at, calls;

/* Every call of the seam and of the board may fail: the one with this number does. */
static bool works(void)
{
    return ++calls != fails_at;
}

void fuzz_evidence_begin(uint32_t number)
{
    kept = (struct gr_log_tail){.boots = BOOTS, .entries = FIRST_ENTRY};
    calls = 0;
    fails_at = number;
}

bool gr_hash_begin(struct gr_hash *hash)
{
    return library_hash_begin(hash) && works();
}

bool gr_hash_add(struct gr_hash *hash, const void *data, size_t bytes)
{
    return library_hash_add(hash, data, bytes) && works();
}

bool gr_hash_end(struct gr_hash *hash, uint8_t digest[32])
{
    return library_hash_end(hash, digest) && works();
}

bool gr_hmac(const uint8_t key[32], const void *data, size_t bytes, uint8_t mac[32])
{
    return library_hmac(key, data, bytes, mac) && works();
}

bool gr_is_private_key(const uint8_t secret[32])
{
    return secret[31] % 4 != 0;
}

bool gr_sign(const uint8_t secret[32], const uint8_t digest[32], uint8_t signature[64])
{
    memcpy(signature, secret, 32);
    memcpy(signature + 32, digest, 32);
    return works();
}

bool gr_public_key(const uint8_t secret[32], uint8_t key[65])
{
    key[0] = 4;
    memcpy(key + 1, secret, 32);
    memcpy(key + 33, secret, 32);
    return works();
}

bool gr_board_secret(uint8_t secret[32])
{
    for (uint8_t i = 0; i < 32; i++)
        secret[i] = i;
    return works();
}

bool gr_board_start_log(struct gr_log_tail *tail)
{
    *tail = kept;
    return works();
}

bool gr_board_keep_tail(const struct gr_log_tail *tail)
{
    PROMISE(tail->entries == kept.entries + 1 && tail->boots == kept.boots, "entries are counted one by one");
    kept = *tail;
    return works();
}

/* The last buffer of a kind, as the firmware takes it; of no bytes: there is none. */
static struct mailbox_buffer buffer_of(const uint8_t *mailbox, uint32_t kind)
{
    struct mailbox_request request;
    struct mailbox_buffer b, found_one = {0};
    memcpy(&request, mailbox, sizeof request);
    for (uint32_t i = 0; i < request.buffer_count && i < MAILBOX_BUFFERS; i++) {
        memcpy(&b, mailbox + sizeof request + i * sizeof b, sizeof b);
        if (b.slot == kind)
            found_one = b;
    }
    return found_one;
}

void fuzz_evidence_end(const uint8_t *mailbox, bool done, uint64_t replays)
{
    const struct mailbox_buffer entries = buffer_of(mailbox, MAILBOX_LOG);
    const uint64_t kept_entries = kept.entries - FIRST_ENTRY;
    if (kept_entries)
        PROMISE(entries.bytes >= sizeof(struct mailbox_message), "no log without a place for it");
    if (!done)
        return; /* and a later buffer of the caller's may lie over the entries */
    PROMISE(kept_entries == 2 + replays, "a boot, a load, and each replay have an entry");
}
