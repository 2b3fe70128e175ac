/* SPDX-License-Identifier: BSD-2-Clause */
/* The messages in front of a trace, COSE_Sign (RFC 9052, 4.1) in the one encoding of signing/cose_sign.py. */
#include "trust_policy.h"

enum {
    TEXT_KIND = 0x57, /* CBOR: with 1 it is a byte string whose length is 1 byte, with 2 one of 2 */
    LEAST_IN_ONE = 24,
    LEAST_IN_TWO = 256,
    BEFORE_KEY_BYTES = 16,
    ML_DSA_KEY_BYTES = 1312,       /* of ML-DSA-44 */
    ML_DSA_SIGNATURE_BYTES = 2420, /* likewise */
    HEADER_KIND = 0x4e, /* in an entry's second byte, beside the size of what leads to its key id */
};

/* An entry with a signature, by its algorithm; after the key id, one with a key has what leads to that. */
struct form {
    uint8_t start[8]; /* up to the key id, which it has the length of */
    uint8_t last[3];  /* before the signature, which it has the length of, but for ML-DSA's */
};

static const struct form forms[] = {
    {{0x83, 0x55, 0xa2, 0x01, 0x26, 0x04, 0x50}, {0xa0, 0x58, 0x40}},       /* ES256 */
    {{0x83, 0x56, 0xa2, 0x01, 0x38, 0x2f, 0x04, 0x50}, {0x59, 0x09, 0x74}}, /* ML-DSA-44 */
    {{0x83, 0x56, 0xa2, 0x01, 0x38, 0x22, 0x04, 0x50}, {0xa0, 0x58, 0x60}}, /* ES384 */
    {{0x83, 0x55, 0xa2, 0x01, 0x27, 0x04, 0x50}, {0xa0, 0x58, 0x40}},       /* Ed25519 */
};

static uint32_t room(const uint8_t *at, const uint8_t *end)
{
    return (uint32_t)(end - at);
}

GR_NOINLINE bool gr_read_entry(const uint8_t *at, const uint8_t *end, struct gr_entry *entry)
{
    /* {14 (CWT claims, RFC 9528): {8 (cnf): {1: {1 (kty): 7 (AKP), 3 (alg): -48, -1 (pub): the key}}}} */
    static const uint8_t before_key[BEFORE_KEY_BYTES] = {0xa1, 0x0e, 0xa1, 0x08, 0xa1, 0x01, 0xa3, 0x01,
                                                         0x07, 0x03, 0x38, 0x2f, 0x20, 0x59, 0x05, 0x20};
    for (uint32_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        const struct form *f = &forms[i];
        const uint32_t start_bytes = f->start[1] - (uint32_t)HEADER_KIND;
        const bool is_ml_dsa = i + 1 == GR_ENTRY_ML_DSA_44;
        const uint32_t with_key = is_ml_dsa ? BEFORE_KEY_BYTES + ML_DSA_KEY_BYTES : 0;
        const uint32_t signature_bytes = is_ml_dsa ? ML_DSA_SIGNATURE_BYTES : f->last[2];
        const uint32_t before = start_bytes + KID_BYTES + with_key + (uint32_t)sizeof f->last;
        if (room(at, end) < before + signature_bytes || !gr_is_same(at, f->start, start_bytes))
            continue;
        const uint8_t *kid = at + start_bytes, *key = kid + KID_BYTES + BEFORE_KEY_BYTES;
        *entry = (struct gr_entry){i + 1, at + 1, kid, key, at + before, at + before + signature_bytes};
        return (!with_key || gr_is_same(kid + KID_BYTES, before_key, sizeof before_key)) &&
               gr_is_same(entry->signature - sizeof f->last, f->last, sizeof f->last) &&
               (entry->kind != GR_KEY_KIND_ES256 || gr_is_low(entry->signature + 32));
    }
    return false;
}

bool gr_read_message(const uint8_t **at, const uint8_t *end, struct gr_message *m)
{
    static const uint8_t start[] = {0xd8, 0x62, 0x84, 0x40, 0xa0};
    struct gr_entry entry, last = {0};
    const uint8_t *p = *at;
    *m = (struct gr_message){.end = end};
    if (room(p, end) < sizeof start + 2 || !gr_is_same(p, start, sizeof start))
        return false;
    p += sizeof start;
    const uint32_t kind = *p++, length = kind - TEXT_KIND;
    if (kind != 0xf6) {
        if (length - 1 > 1 || room(p, end) <= length) /* 1 or 2 */
            return false;
        const uint32_t bytes = length == 1 ? p[0] : (uint32_t)(p[0] << 8 | p[1]);
        p += length;
        if (bytes < (length == 1 ? LEAST_IN_ONE : LEAST_IN_TWO) || bytes >= room(p, end))
            return false;
        m->payload = p;
        m->payload_bytes = bytes;
        p += bytes;
    }
    m->count = *p++ - 0x80u;
    m->entries = p;
    if (m->count > GR_MAX_TRUST_SIGNATURES)
        return false;
    for (uint32_t i = 0; i < m->count; i++, last = entry) {
        if (!gr_read_entry(p, end, &entry))
            return false;
        /* In ascending order of their key ids; but the two of a hybrid key have one. */
        if (i && !gr_trust_is_before(last.kid, entry.kid) &&
            (entry.kind != GR_ENTRY_ML_DSA_44 || last.kind != GR_KEY_KIND_ES256 ||
             !gr_is_same(last.kid, entry.kid, KID_BYTES)))
            return false;
#ifdef GRAMOPHONE_ML_DSA
        m->hybrid |= entry.kind == GR_ENTRY_ML_DSA_44;
#endif
        p = entry.end;
    }
    *at = p;
    return true;
}

uint8_t *gr_to_be_signed(uint8_t *payload, uint32_t bytes, const struct gr_entry *entry)
{
    static const uint8_t context[CONTEXT_BYTES] = {0x85, 0x69, 'S', 'i', 'g', 'n',
                                                   'a',  't',  'u', 'r', 'e', 0x40};
    uint8_t *p = payload;
    const uint32_t size_bits = bytes > 0xffff ? 32 : bytes > 0xff ? 16 : 8;
    for (uint32_t bit = 0; bit < size_bits; bit += 8)
        *--p = (uint8_t)(bytes >> bit);
    *--p = (uint8_t)(0x58 + size_bits / 16); /* 8, 16, 32: 0, 1, 2 */
    *--p = 0x40;                             /* no bytes */
    const uint32_t protected_bytes = (uint32_t)(entry->kid - entry->protected_header) + KID_BYTES;
    p -= protected_bytes;
    memcpy(p, entry->protected_header, protected_bytes);
    p -= sizeof context;
    memcpy(p, context, sizeof context);
    return p;
}
