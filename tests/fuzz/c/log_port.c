/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What firmware with a replay log needs besides (fuzz target mailbox-log, around mailbox.c): the crypto seam
 * of the log, the device's secret, and where the tail is kept. It watches the tail: entries are counted one
 * by one, each is kept before it is handed out, and what the mailbox holds in the end is what was kept.
 */
#include "log_port.h"
#include "bearssl.h"
#include "device.h"
#include "log.h"
#include "port.h"

__asm__(".section .rodata\n.globl gr_rom_start, gr_rom_end\ngr_rom_start: .zero 64\ngr_rom_end:\n.text\n");

static struct gr_log_tail kept;
static uint32_t kept_entries, fails_at, calls;

/* Every call of the seam and of the board may fail: the one with this number does. */
static bool works(void)
{
    return ++calls != fails_at;
}

void fuzz_evidence_begin(uint32_t number)
{
    memset(&kept, 0, sizeof kept);
    kept_entries = calls = 0;
    fails_at = number;
}

/* The library's state does not fit the seam's words here; which is which shows in what is computed. */
bool gr_hash_begin(struct gr_hash *hash)
{
    *hash = (struct gr_hash){{1}};
    return works();
}

bool gr_hash_add(struct gr_hash *hash, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    for (size_t i = 0; i < bytes; i++)
        hash->words[1] = hash->words[1] * 31 + from[i];
    return hash->words[0] == 1 && works();
}

bool gr_hash_end(struct gr_hash *hash, uint8_t digest[32])
{
    memset(digest, 0, 32);
    memcpy(digest, &hash->words[1], sizeof hash->words[1]);
    *hash = (struct gr_hash){{0}};
    return works();
}

bool gr_hmac(const uint8_t key[32], const void *data, size_t bytes, uint8_t mac[32])
{
    br_hmac_key_context keyed;
    br_hmac_context context;
    br_hmac_key_init(&keyed, &br_sha256_vtable, key, 32);
    br_hmac_init(&context, &keyed, 0);
    br_hmac_update(&context, data, bytes);
    br_hmac_out(&context, mac);
    return works();
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
    *tail = kept = (struct gr_log_tail){.boots = 7, .entries = 40};
    return works();
}

bool gr_board_keep_tail(const struct gr_log_tail *tail)
{
    PROMISE(tail->entries == kept.entries + 1 && tail->boots == kept.boots, "entries are counted one by one");
    kept = *tail;
    kept_entries++;
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
    if (kept_entries)
        PROMISE(entries.bytes >= sizeof(struct mailbox_message), "no log without a place for it");
    if (!done)
        return; /* and a later buffer of the caller's may lie over the entries */
    PROMISE(kept_entries == 2 + replays, "a boot, a load, and each replay have an entry");
}
