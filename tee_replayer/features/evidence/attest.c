/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An Entity Attestation Token (RFC 9711): claims in CBOR, in a COSE_Sign1 message (RFC 9052), ES256. The
 * encoding is the deterministic one (RFC 8949, 4.2.1), in which the claims' order is that of their labels'
 * bytes. Verifiers ('gramophone verify attestation') read no other encoding.
 */
#include "attest.h"
#include "internal.h"

enum {
    UNSIGNED = 0 << 5, /* major types of RFC 8949, 3.1 */
    NEGATIVE = 1 << 5,
    BYTES = 2 << 5,
    TEXT = 3 << 5,
    ARRAY = 4 << 5,
    MAP = 5 << 5,
    ID_BYTES = 16,
    CLAIM_NONCE = 10, /* RFC 9711, 4 */
    CLAIM_UEID = 256,
    CLAIM_PROFILE = 265,
    CLAIM_BOOTS = 267,
    CLAIM_OURS = 69999, /* our first is -1 - 69999; each following one is one less */
#ifdef GRAMOPHONE_LOG_HASHES
    HASH_CLAIMS = 2,
#else
    HASH_CLAIMS = 0,
#endif
#ifdef GRAMOPHONE_TRUST
    TRUST_CLAIMS = 2,
#else
    TRUST_CLAIMS = 0,
#endif
    CLAIMS = 12 + HASH_CLAIMS + TRUST_CLAIMS,
};

/* `static` where the stack is small, and nothing else runs meanwhile. */
#ifndef GR_SCRATCH
#define GR_SCRATCH
#endif

/* What is written, from its start; only as much as there is room for. */
struct writer {
    uint8_t *out;
    uint32_t used, room;
};

static void put(struct writer *w, const void *data, uint32_t bytes)
{
    if (bytes <= w->room - w->used)
        memcpy(w->out + w->used, data, bytes);
    else
        bytes = w->room - w->used;
    w->used += bytes;
}

/* A number with its major type, in the shortest form. */
static void put_head(struct writer *w, uint32_t major, uint64_t number)
{
    uint8_t text[9] = {(uint8_t)(major | number)};
    uint32_t bytes = 0;
    if (number > 23) {
        uint32_t form = 24;
        for (bytes = 1; bytes < 8 && number >> 8 * bytes; bytes *= 2)
            form++;
        text[0] = (uint8_t)(major | form);
        for (uint32_t i = 0; i < bytes; i++)
            text[1 + i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
    }
    put(w, text, 1 + bytes);
}

static void put_bytes(struct writer *w, const void *data, uint32_t bytes)
{
    put_head(w, BYTES, bytes);
    put(w, data, bytes);
}

/* Our claims, in the order of their labels. */
static void put_ours(struct writer *w, uint32_t number)
{
    put_head(w, NEGATIVE, CLAIM_OURS + number);
}

static void put_claims(struct writer *w, const struct gr_log *log, const uint8_t *nonce, uint32_t nonce_bytes,
                       const uint8_t ueid[1 + ID_BYTES], const uint8_t policy[GR_DIGEST_BYTES])
{
    static const char profile[] = "urn:uuid:19b260ea-6fc0-5911-9f01-a9d34ac18a8a";
    put_head(w, MAP, CLAIMS);
    put_head(w, UNSIGNED, CLAIM_NONCE);
    put_bytes(w, nonce, nonce_bytes);
    put_head(w, UNSIGNED, CLAIM_UEID);
    put_bytes(w, ueid, 1 + ID_BYTES);
    put_head(w, UNSIGNED, CLAIM_PROFILE);
    put_head(w, TEXT, sizeof profile - 1);
    put(w, profile, sizeof profile - 1);
    put_head(w, UNSIGNED, CLAIM_BOOTS);
    put_head(w, UNSIGNED, log->tail.boots);
    put_ours(w, 0);
    put_bytes(w, log->firmware, GR_DIGEST_BYTES);
    put_ours(w, 1);
    put_bytes(w, policy, GR_DIGEST_BYTES);
    put_ours(w, 2);
    put_bytes(w, log->trace_id, GR_TRACE_ID_BYTES);
    put_ours(w, 3);
    put_bytes(w, log->subject, GR_DIGEST_BYTES);
    put_ours(w, 4);
    put_head(w, UNSIGNED, log->security_version);
    put_ours(w, 5);
    put_head(w, UNSIGNED, log->status);
    put_ours(w, 6);
    put_head(w, UNSIGNED, log->tail.entries);
    put_ours(w, 7);
    put_bytes(w, log->tail.hash, GR_DIGEST_BYTES);
#ifdef GRAMOPHONE_LOG_HASHES
    put_ours(w, 8);
    put_bytes(w, log->inputs, GR_DIGEST_BYTES);
    put_ours(w, 9);
    put_bytes(w, log->outputs, GR_DIGEST_BYTES);
#endif
#ifdef GRAMOPHONE_TRUST
    put_ours(w, 10);
    put_bytes(w, log->policy, GR_DIGEST_BYTES);
    put_ours(w, 11);
    put_head(w, UNSIGNED, log->policy_version);
#endif
}

/* The attestations' key: the first of a few candidates that is one. */
static bool derive_private(const struct gr_log *log, struct gr_log_key *key)
{
    enum { CANDIDATES = 4 };
    char info[] = "gramophone attestation\0"; /* and its number */
    for (uint32_t i = 0; i < CANDIDATES; i++) {
        info[sizeof info - 2] = (char)i;
        if (!gr_log_derive(log, info, sizeof info - 1, key) || gr_log_is_blank(key->bytes))
            return false;
        if (gr_is_private_key(key->bytes))
            return true;
    }
    return false;
}

GR_NOINLINE bool gr_attest_key(const struct gr_log *log, uint8_t key[GR_PUBLIC_KEY_BYTES])
{
    struct gr_log_key private = {{0}, {0}, {0}};
    const bool good =
        derive_private(log, &private) && !gr_log_is_blank(private.bytes) && gr_public_key(private.bytes, key);
    gr_wipe(&private, sizeof private);
    return good;
}

/* UEID (RFC 9711, 4.2.1.1): type 1, and the key's id: the start of the SHA-256 of its SubjectPublicKeyInfo
 * (RFC 5480), as for every key of Gramophone's. */
static bool find_ueid(const struct gr_log *log, uint8_t ueid[1 + ID_BYTES])
{
    static const uint8_t prefix[] = {0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48,
                                     0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48,
                                     0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00};
    uint8_t info[sizeof prefix + GR_PUBLIC_KEY_BYTES], digest[GR_DIGEST_BYTES];
    memcpy(info, prefix, sizeof prefix);
    if (!gr_attest_key(log, info + sizeof prefix) || !gr_sha256(info, sizeof info, digest))
        return false;
    ueid[0] = 1;
    memcpy(ueid + 1, digest, ID_BYTES);
    return true;
}

/* Sign twice: of two signatures of one message, one with a fault in it, whoever has both computes the key. */
GR_NOINLINE static bool sign_alike(const struct gr_log *log, const uint8_t digest[GR_DIGEST_BYTES],
                                   uint8_t signature[64])
{
    struct gr_log_key private = {{0}, {0}, {0}};
    uint8_t again[64], differences = 0;
    memset(again, 0, sizeof again);
    const bool good = derive_private(log, &private) && !gr_log_is_blank(private.bytes) &&
                      gr_sign(private.bytes, digest, signature) && gr_sign(private.bytes, digest, again);
    gr_wipe(&private, sizeof private);
    if (!good)
        return false;
    for (uint32_t i = 0; i < sizeof again; i++)
        differences |= signature[i] ^ again[i];
    return !differences;
}

uint32_t gr_attest(const struct gr_log *log, const uint8_t *nonce, uint32_t nonce_bytes, const void *policy,
                   size_t policy_bytes, uint8_t out[GR_ATTESTATION_MAX])
{
    static const uint8_t context[] = {0x84, 0x6a, 'S', 'i', 'g', 'n', 'a', 't', 'u', 'r', 'e', '1'};
    static const uint8_t header_start[] = {0xa2, 0x01, 0x26, 0x04, 0x50}; /* {1: ES256, 4: key id} */
    static const uint8_t start[] = {0xd2, 0x84}; /* COSE_Sign1 (tag 18), array of 4 */
    uint8_t ueid[1 + ID_BYTES], digest[GR_DIGEST_BYTES], signature[64];
    uint8_t header[sizeof header_start + ID_BYTES];
    GR_SCRATCH uint8_t claims[GR_ATTESTATION_MAX - 128], to_be_signed[GR_ATTESTATION_MAX];
    struct writer payload = {claims, 0, sizeof claims}, tbs = {to_be_signed, 0, sizeof to_be_signed},
                  message = {out, 0, GR_ATTESTATION_MAX};
    if (log->failed || nonce_bytes - GR_NONCE_MIN > GR_NONCE_MAX - GR_NONCE_MIN || !find_ueid(log, ueid) ||
        !gr_sha256(policy, policy_bytes, digest))
        return 0;
    put_claims(&payload, log, nonce, nonce_bytes, ueid, digest);
    memcpy(header, header_start, sizeof header_start);
    memcpy(header + sizeof header_start, ueid + 1, ID_BYTES);

    put(&tbs, context, sizeof context); /* RFC 9052, 4.4 */
    put_bytes(&tbs, header, sizeof header);
    put_head(&tbs, BYTES, 0);
    put_bytes(&tbs, claims, payload.used);
    if (!gr_sha256(to_be_signed, tbs.used, digest) || !sign_alike(log, digest, signature))
        return 0;

    put(&message, start, sizeof start);
    put_bytes(&message, header, sizeof header);
    put_head(&message, MAP, 0);
    put_bytes(&message, claims, payload.used);
    put_bytes(&message, signature, sizeof signature);
    /* What did not fit was left out, and then it is full. */
    return payload.used < sizeof claims && tbs.used < sizeof to_be_signed && message.used < GR_ATTESTATION_MAX
               ? message.used
               : 0;
}
