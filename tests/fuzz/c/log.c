/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the replay log and its attestations (tee_replayer/features/evidence), over the seam of
 * log_port.c. An input: which call of the seam fails, the device's secret, the tail's numbers, then steps:
 * entries with any report, traces, parts and bytes of replays, attestations on any nonce.
 *
 * Entries are a chain of hashes with good MACs. Attestations are read back by a reader of the target's own
 * and must say, in the shortest form, what the log says.
 */
#include "attest.h"
#include "bearssl.h"
#include "device.h"
#include "internal.h"
#include "log_port.h"

enum { SETUP_BYTES = 20, TAKEN = 16 };

struct reader {
    const uint8_t *at;
    size_t left;
};

static struct gr_log state;
static struct gr_log_tail last;
static uint8_t secret[GR_SECRET_BYTES];

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t take(struct reader *r, size_t bytes)
{
    uint64_t value = 0;
    for (size_t i = 0; i < bytes && r->left; i++, r->at++, r->left--)
        value |= (uint64_t)*r->at << 8 * i;
    return value;
}

static void digest_of(const void *data, size_t bytes, uint8_t digest[32])
{
    br_sha256_context context;
    br_sha256_init(&context);
    br_sha256_update(&context, data, bytes);
    br_sha256_out(&context, digest);
}

static void hmac(const uint8_t key[32], const void *data, size_t bytes, uint8_t mac[32])
{
    br_hmac_key_context keyed;
    br_hmac_context context;
    br_hmac_key_init(&keyed, &br_sha256_vtable, key, 32);
    br_hmac_init(&context, &keyed, 0);
    br_hmac_update(&context, data, bytes);
    br_hmac_out(&context, mac);
}

static bool give_secret(void *ctx, uint8_t out[GR_SECRET_BYTES])
{
    memcpy(out, secret, sizeof secret);
    return ctx != NULL;
}

static bool keep(void *ctx, const struct gr_log_entry *entry, const struct gr_log_tail *tail)
{
    static const uint8_t zeros[32];
    static const uint8_t info[] = "gramophone log\1";
    uint8_t expected[32], key[32];
    PROMISE(entry->sequence == last.entries && tail->entries == last.entries + 1, "entries are counted");
    PROMISE(entry->boot == last.boots && tail->boots == last.boots, "an entry is of this boot");
    PROMISE(!memcmp(entry->previous, last.hash, 32), "an entry names the one before");
    digest_of(entry, sizeof *entry, expected);
    PROMISE(!memcmp(tail->hash, expected, 32), "the tail is the hash of the last entry");
    hmac(secret, info, sizeof info - 1, key);
    hmac(key, entry, offsetof(struct gr_log_entry, mac), expected);
    PROMISE(!memcmp(entry->mac, expected, 32), "an entry has its MAC");
    if (entry->kind == GR_LOG_KIND_REPLAY && entry->status != GR_STATUS_OK)
        PROMISE(!memcmp(entry->inputs, zeros, 32) && !memcmp(entry->outputs, zeros, 32),
                "a replay that failed has no results");
    last = *tail;
    return ctx != NULL;
}

/* A head of RFC 8949 in its shortest form, of this major type; its number. */
static uint64_t head_of(struct reader *r, uint32_t major)
{
    const uint64_t first = take(r, 1), form = first & 31;
    PROMISE(first >> 5 == major && form <= 27, "an item of the type that is expected");
    if (form < 24)
        return form;
    const size_t bytes = (size_t)1 << (form - 24);
    uint64_t number = 0;
    PROMISE(r->left >= bytes, "a whole number");
    for (size_t i = 0; i < bytes; i++)
        number = number << 8 | take(r, 1);
    PROMISE(bytes == 1 ? number >= 24 : number >> 4 * bytes, "in its shortest form");
    return number;
}

static const uint8_t *bytes_of(struct reader *r, uint32_t major, size_t bytes)
{
    PROMISE(head_of(r, major) == bytes && r->left >= bytes, "a text of the length that is expected");
    const uint8_t *at = r->at;
    r->at += bytes;
    r->left -= bytes;
    return at;
}

enum { UNSIGNED, NEGATIVE, BYTES, TEXT, ARRAY, MAP };

static void check_number(struct reader *r, uint32_t major, uint64_t label, uint64_t number)
{
    PROMISE(head_of(r, major) == label && head_of(r, UNSIGNED) == number, "a claim says the log's number");
}

static void check_bytes(struct reader *r, uint32_t major, uint64_t label, const uint8_t *wanted, size_t bytes)
{
    PROMISE(head_of(r, major) == label, "claims are in the order of their labels");
    PROMISE(!memcmp(bytes_of(r, BYTES, bytes), wanted, bytes), "a claim says what the log has");
}

static void check_claims(struct reader *r, const uint8_t *nonce, size_t nonce_bytes, const uint8_t *policy)
{
    enum { OURS = 69999, PROFILE_BYTES = 45 };
    PROMISE(head_of(r, MAP) == 14, "14 claims");
    check_bytes(r, UNSIGNED, 10, nonce, nonce_bytes);
    PROMISE(head_of(r, UNSIGNED) == 256 && *bytes_of(r, BYTES, 17) == 1, "the device's id");
    PROMISE(head_of(r, UNSIGNED) == 265 && bytes_of(r, TEXT, PROFILE_BYTES), "the profile");
    check_number(r, UNSIGNED, 267, state.tail.boots);
    check_bytes(r, NEGATIVE, OURS, state.firmware, 32);
    check_bytes(r, NEGATIVE, OURS + 1, policy, 32);
    check_bytes(r, NEGATIVE, OURS + 2, state.trace_id, 16);
    check_bytes(r, NEGATIVE, OURS + 3, state.subject, 32);
    check_number(r, NEGATIVE, OURS + 4, state.security_version);
    check_number(r, NEGATIVE, OURS + 5, state.status);
    check_number(r, NEGATIVE, OURS + 6, state.tail.entries);
    check_bytes(r, NEGATIVE, OURS + 7, state.tail.hash, 32);
    check_bytes(r, NEGATIVE, OURS + 8, state.inputs, 32);
    check_bytes(r, NEGATIVE, OURS + 9, state.outputs, 32);
    PROMISE(!r->left, "nothing after the claims");
}

/* Whether a key is one of those that attestations may have. */
static bool is_derived(const uint8_t key[32])
{
    uint8_t info[] = "gramophone attestation\0\1", expected[32];
    bool found = false;
    for (uint8_t i = 0; i < 4; i++) {
        info[sizeof info - 3] = i;
        hmac(secret, info, sizeof info - 1, expected);
        found |= !memcmp(key, expected, sizeof expected);
    }
    return found;
}

static void attest(struct reader *input)
{
    static const uint8_t policy[] = "a device", start[] = {0xd2, 0x84}, empty[] = {0xa0},
                         before[] = {0x84, 0x6a, 'S', 'i', 'g', 'n', 'a', 't', 'u', 'r', 'e', '1', 0x55};
    const size_t nonce_bytes = take(input, 1) % (GR_NONCE_MAX + 8);
    uint8_t *nonce = malloc(nonce_bytes + 1), *out = malloc(GR_ATTESTATION_MAX), digest[32];
    PROMISE(nonce && out, "there is memory");
    for (size_t i = 0; i < nonce_bytes; i++)
        nonce[i] = (uint8_t)take(input, 1);
    const uint32_t bytes = gr_attest(&state, nonce, (uint32_t)nonce_bytes, policy, sizeof policy, out);
    PROMISE(!bytes || (nonce_bytes >= GR_NONCE_MIN && nonce_bytes <= GR_NONCE_MAX), "nonces have a size");
    PROMISE(!bytes || !state.failed, "nothing is attested after a failure");
    if (bytes) {
        struct reader r = {out, bytes};
        PROMISE(!memcmp(r.at, start, sizeof start), "a COSE_Sign1");
        take(&r, sizeof start);
        const uint8_t *protected = bytes_of(&r, BYTES, 21);
        PROMISE(take(&r, 1) == *empty, "no other header");
        const uint8_t *item = r.at;
        const size_t claims_bytes = head_of(&r, BYTES);
        PROMISE(r.left >= claims_bytes, "claims are inside");
        struct reader claims = {r.at, claims_bytes};
        const size_t item_bytes = (size_t)(r.at - item) + claims_bytes;
        r.at += claims_bytes;
        r.left -= claims_bytes;
        digest_of(policy, sizeof policy, digest);
        check_claims(&claims, nonce, nonce_bytes, digest);
        uint8_t signed_bytes[GR_ATTESTATION_MAX];
        size_t used = sizeof before;
        memcpy(signed_bytes, before, sizeof before);
        memcpy(signed_bytes + used, protected, 21);
        used += 21;
        signed_bytes[used++] = 0x40; /* no bytes of the application */
        memcpy(signed_bytes + used, item, item_bytes);
        digest_of(signed_bytes, used + item_bytes, digest);
        const uint8_t *signature = bytes_of(&r, BYTES, 64); /* secret and digest: see log_port.c */
        PROMISE(is_derived(signature) && !memcmp(signature + 32, digest, 32),
                "what is signed is what is said");
        PROMISE(!r.left, "nothing after the signature");
    }
    free(nonce);
    free(out);
}

static void append(struct reader *input)
{
    struct gr_report report = {.status = GR_STATUS_OK};
    const enum gr_log_kind kind = 1 + take(input, 1) % 4;
    if (take(input, 1) % 2 == 0)
        report.status = (enum gr_status)take(input, 4);
    report.action = (uint32_t)take(input, 2);
    report.op = (uint32_t)take(input, 1);
    report.seen = (uint32_t)take(input, 4);
    const struct gr_log_tail before = state.tail;
    const bool good = gr_log_append(&state, kind, &report);
    PROMISE(!good || state.tail.entries == before.entries + 1, "what is kept is counted");
    PROMISE(!good || !state.failed, "nothing is kept after a failure");
    PROMISE(!memcmp(&state.tail, &last, sizeof last), "the tail is that of the last entry");
}

static void step(struct reader *input)
{
    uint8_t data[TAKEN];
    switch (take(input, 1) % 6) {
    case 0: append(input); break;
    case 1: gr_log_begin(&state); break;
    case 2: {
        _Alignas(8) uint8_t manifest[GR_MANIFEST_BYTES] = {0};
        const uint64_t id = take(input, 8);
        const uint32_t version = (uint32_t)take(input, 4);
        memcpy(manifest + GR_MANIFEST_AT_TRACE_ID, &id, sizeof id);
        memcpy(manifest + GR_MANIFEST_AT_SECURITY_VERSION, &version, sizeof version);
        gr_log_trace(&state, manifest, (uint32_t)take(input, 1) % GR_MANIFEST_BYTES, manifest);
        break;
    }
    case 3: gr_log_part(&state, take(input, 1) % 4); break;
    case 4: {
        const uint32_t slot = (uint32_t)take(input, 1);
        const uint64_t bytes = take(input, 8);
        const bool to_gpu = take(input, 1) & 1;
        memset(data, (int)take(input, 1), sizeof data);
        gr_log_slot(&state, slot, bytes, to_gpu);
        gr_log_bytes(&state, data, take(input, 1) % (TAKEN + 1), to_gpu);
        break;
    }
    default: attest(input);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t firmware[32] = {'f'};
    const struct gr_log_port port = {keep, give_secret, &state};
    struct reader input = {data, size};
    if (size < SETUP_BYTES)
        return 0;
    fuzz_evidence_begin((uint32_t)take(&input, 1));
    const uint8_t first = (uint8_t)take(&input, 1), more = (uint8_t)take(&input, 1);
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)(first + i * more);
    memset(&last, 0, sizeof last);
    last.entries = take(&input, 8);
    last.boots = take(&input, 8);
    memset(last.hash, (int)take(&input, 1), sizeof last.hash);
    const struct gr_log_tail tail = last;
    const bool open = gr_log_open(&state, &port, &tail, firmware);
    PROMISE(!open || more, "a blank secret opens no log");
    PROMISE(!open || last.entries == tail.entries + 1, "a boot has its entry");
    while (open && input.left)
        step(&input);
    gr_log_close(&state);
    for (size_t i = 0; i < sizeof state; i++)
        PROMISE(!((const uint8_t *)&state)[i], "a closed log is wiped");
    return 0;
}
