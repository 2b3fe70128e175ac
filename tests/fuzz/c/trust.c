/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: what a device with a trust policy makes of the envelope of a signed trace. An input is the
 * envelope, behind two bytes: whether the hash or a read fails, and how large the carve-out is. The trace is
 * a good one.
 *
 * A signature is good here when its second byte is odd, so that inputs reach all of the code. What is
 * accepted must have as many good signatures by different keys of the one rule as that asks for, in the first
 * judgement and in the second.
 */
#include "../../../tee_replayer/features/trust/trust_policy.h"
#include "crypto.h"
#include "fuzz_trace.h"
#include "fuzz_trust.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { PLAIN_TRACE_AT = 128, MOST = 1 << 16, ROOM = 64 << 10 };

static uint8_t file[GR_SIGNED_HEADER_BYTES + MOST + sizeof fuzz_trace];
static size_t file_bytes;
static uint32_t reads, read_fails_at, hashes, hash_fails_at;
static const uint8_t *good_keys[64];
static uint32_t good_count;
/* Hashes that were signed; the known answer and a changed head have others. */
enum { HASHES = (2 * GR_MAX_TRUST_POLICIES + 1) * GR_MAX_TRUST_SIGNATURES };
static uint8_t signed_hashes[HASHES][32];
static uint32_t signed_count;

static void check(bool good)
{
    if (!good)
        abort();
}

bool gr_fuzz_hash_fails(void)
{
    return ++hashes == hash_fails_at;
}

uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good)
{
    check(key[0] == 4);
    if (good != GR_KNOWN_VERDICT && signed_count < HASHES)
        memcpy(signed_hashes[signed_count++], digest, 32);
    uint32_t i = 0;
    while (i < signed_count && memcmp(signed_hashes[i], digest, 32))
        i++;
    if (i == signed_count)
        return (uint64_t)GR_KNOWN_X << 32 | GR_BAD_VERDICT;
    if (!(signature[1] & 1))
        return GR_BAD_VERDICT;
    if (good_count < 64)
        good_keys[good_count++] = key;
    return good;
}

static bool read_file(void *ctx, uint64_t offset, uint8_t *to, uint32_t size)
{
    (void)ctx;
    if (++reads == read_fails_at || offset > file_bytes || size > file_bytes - offset)
        return false;
    memcpy(to, file + offset, size);
    return true;
}

uint32_t gr_port_read32(uint32_t offset)
{
    (void)offset;
    abort();
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    (void)offset, (void)value;
    abort();
}

uint64_t gr_port_now_us(void)
{
    return 0;
}

static const struct gr_policy policy = {
    .trust = fuzz_trust, .platform = fuzz_platform, .device_id = fuzz_device_id, .least_trust_version = 0};

void gr_port_policy_again(struct gr_policy *again)
{
    *again = policy;
    again->trust = fuzz_trust_again;
}

/* Whether one of the policy's first keys, which sign policies, was asked for: a newer policy may say anything
 * then. */
static bool is_newer(void)
{
    const uint8_t *keys = fuzz_trust + sizeof(struct gr_trust_policy);
    for (uint32_t i = 0; i < good_count; i++)
        for (uint32_t k = 0; k < FUZZ_TRUST_ROOTS; k++)
            if (!memcmp(good_keys[i], ((const struct gr_trust_key *)(const void *)keys)[k].key, 65))
                return true;
    return false;
}

/* Keys with a good signature, each counted once. */
static uint32_t distinct(void)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < good_count; i++) {
        bool is_new = true;
        for (uint32_t k = 0; k < i; k++)
            is_new &= memcmp(good_keys[i], good_keys[k], 65) != 0;
        found += is_new;
    }
    return found;
}

static size_t make_file(const uint8_t *envelope, size_t bytes)
{
    static const uint8_t start[12] = {0x89, 'G', 'S', 'G', '\r', '\n', 0x1a, '\n', GR_VERSION_MAJOR, 0, 0, 0};
    const size_t trace_bytes = sizeof fuzz_trace - PLAIN_TRACE_AT;
    memset(file, 0, GR_SIGNED_HEADER_BYTES + bytes + 8);
    memcpy(file, start, sizeof start);
    for (uint32_t i = 0; i < 4; i++) {
        file[12 + i] = (uint8_t)(bytes >> 8 * i);
        file[16 + i] = (uint8_t)(trace_bytes >> 8 * i);
    }
    memcpy(file + GR_SIGNED_HEADER_BYTES, envelope, bytes);
    const size_t at = (GR_SIGNED_HEADER_BYTES + bytes + 7) & ~(size_t)7;
    memcpy(file + at, fuzz_trace + PLAIN_TRACE_AT, trace_bytes);
    return at + trace_bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2 || bytes - 2 > MOST - 16)
        return 0;
    read_fails_at = data[0] & 7;
    hash_fails_at = data[0] >> 3;
    const uint64_t room = data[1] ? (uint64_t)data[1] << 8 : ROOM;
    file_bytes = make_file(data + 2, bytes - 2);
    reads = hashes = good_count = signed_count = 0;
    struct gr_replayer replayer = {0};
    struct gr_source source = {read_file, NULL};
    struct loader l = {.r = &replayer, .policy = &policy, .trace_bytes = file_bytes};
    uint8_t *memory = malloc(room); /* to the byte, so that nothing behind it is touched */
    check(memory != NULL && (uintptr_t)memory % 8 == 0);
    l.stream.source = &source;
    replayer.memory = (struct gr_memory){memory, 0, room};
    replayer.high = memory + room;
    if (gr_check_envelope(&l) == GR_STATUS_OK) {
        check(is_newer() || distinct() >= FUZZ_TRUST_THRESHOLD);
        check((l.state ^ STEP_ENVELOPE ^ STEP_HEADER) == FIRST_VERDICT);
        good_count = 0;
        const enum gr_status again = gr_check_signature_again(&l);
        const bool is_good = (l.state ^ STEP_ENVELOPE ^ STEP_HEADER ^ FIRST_VERDICT) ==
                             (SECOND_VERDICT ^ GR_KNOWN_ANSWER ^ REFUSAL);
        check((again == GR_STATUS_OK && is_good) || hash_fails_at);
        check(!is_good || again == GR_STATUS_OK);
        check(again != GR_STATUS_OK || is_newer() || distinct() >= FUZZ_TRUST_THRESHOLD);
    }
    free(memory);
    return 0;
}
