/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the trust policy allows a signed trace. In front of it, the file has the trace's signatures and
 * then signed policies, each a COSE_Sign message: a policy is taken when enough root keys of the one before
 * and enough of its own have signed it. signing/trust_verdict.py says the same, step by step.
 */
#include "trust.h"
#include "crypto.h"
#include "gr_target.h"

#ifdef GRAMOPHONE_TRUST

/* A message, and a signature in it (signing/cose_sign.py). */
enum {
    RECORD_KID = 7,
    RECORD_BEHIND_KID = RECORD_KID + KID_BYTES,
    RECORD_SIGNATURE = RECORD_BEHIND_KID + 3,
    RECORD_BYTES = RECORD_SIGNATURE + 64,
    TEXT_KIND = 0x57, /* CBOR: with 1 it is a byte string whose length is 1 byte, with 2 one of 2 */
    LEAST_IN_ONE = 24,
    LEAST_IN_TWO = 256,
};

struct message {
    const uint8_t *payload; /* NULL: it is elsewhere */
    uint32_t payload_bytes;
    const uint8_t *records; /* signatures */
    uint32_t count;
};

static uint32_t room(const uint8_t *at, const uint8_t *end)
{
    return (uint32_t)(end - at);
}

/* The message at *at, which then lies behind it. False: it is not in its one encoding, or does not end before
 * `end`. */
static bool read_message(const uint8_t **at, const uint8_t *end, struct message *m)
{
    static const uint8_t start[] = {0xd8, 0x62, 0x84, 0x40, 0xa0};
    static const uint8_t record[RECORD_KID] = {0x83, 0x55, 0xa2, 0x01, 0x26, 0x04, 0x50};
    static const uint8_t behind_kid[] = {0xa0, 0x58, 0x40};
    const uint8_t *p = *at;
    *m = (struct message){0};
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
    m->records = p;
    if (m->count > GR_MAX_TRUST_SIGNATURES || room(p, end) < m->count * RECORD_BYTES)
        return false;
    for (uint32_t i = 0; i < m->count; i++, p += RECORD_BYTES) {
        if (!gr_is_same(p, record, sizeof record) ||
            !gr_is_same(p + RECORD_BEHIND_KID, behind_kid, sizeof behind_kid) ||
            !gr_is_low(p + RECORD_SIGNATURE + 32) ||
            (i && !gr_trust_is_before(p + RECORD_KID - RECORD_BYTES, p + RECORD_KID)))
            return false;
    }
    *at = p;
    return true;
}

/* All of them: signatures of the trace, then policies. */
static bool are_messages(const struct loader *l)
{
    const uint8_t *at = l->envelope, *end = at + l->envelope_bytes;
    struct message m;
    if (!read_message(&at, end, &m) || m.payload)
        return false;
    for (uint32_t i = 0; at != end; i++) {
        if (i == GR_MAX_TRUST_POLICIES || !read_message(&at, end, &m) || !m.payload)
            return false;
    }
    return true;
}

enum gr_status gr_copy_envelope(struct loader *l)
{
    /* clang-format off */
    static const uint8_t expected[GR_SIGNED_HEADER_AT_ENVELOPE_BYTES] = {
        0x89, 'G', 'S', 'G', '\r', '\n', 0x1a, '\n', /* GR_SIGNED_HEADER_MAGIC */
        GR_VERSION_MAJOR, 0, GR_VERSION_MINOR, 0,
    };
    /* clang-format on */
    const struct gr_source *source = l->stream.source;
    const uint64_t file_bytes = l->trace_bytes;
    if (file_bytes < GR_SIGNED_HEADER_BYTES ||
        !source->read(source->ctx, 0, l->start, GR_SIGNED_HEADER_BYTES))
        return GR_STATUS_READ;
    const uint32_t bytes = gr_load32(l->start + GR_SIGNED_HEADER_AT_ENVELOPE_BYTES);
    if (!gr_is_same(l->start, expected, sizeof expected) || bytes - 1 >= GR_MAX_TRUST_ENVELOPE_BYTES)
        return GR_STATUS_FORMAT;
    l->envelope_bytes = bytes;
    l->trace_at = (GR_SIGNED_HEADER_BYTES + bytes + GR_ALIGNMENT - 1) & ~(uint32_t)(GR_ALIGNMENT - 1);
    if (file_bytes < l->trace_at + GR_HEADER_BYTES)
        return GR_STATUS_READ;
    l->trace_bytes = file_bytes - l->trace_at;
    const uint32_t padded = l->trace_at - GR_SIGNED_HEADER_BYTES;
    l->policies[0] = gr_take_memory(l, BEFORE_HEAD_BYTES + GR_MAX_TRUST_BYTES);
    l->policies[1] = gr_take_memory(l, BEFORE_HEAD_BYTES + GR_MAX_TRUST_BYTES);
    uint8_t *envelope = gr_take_memory(l, padded);
    if (!l->policies[0] || !l->policies[1] || !envelope)
        return GR_STATUS_MEMORY;
    l->envelope = envelope;
    if (!source->read(source->ctx, GR_SIGNED_HEADER_BYTES, envelope, padded) ||
        !source->read(source->ctx, l->trace_at, l->start + HEADER_AT(l), GR_HEADER_BYTES))
        return GR_STATUS_READ;
    if (!gr_is_zero(l->start + GR_SIGNED_HEADER_AT_RESERVED, 8) ||
        (padded != bytes && !gr_is_zero(envelope + bytes, padded - bytes)) || !are_messages(l))
        return GR_STATUS_ENVELOPE;
    if (gr_load64(gr_aligned(l->start) + GR_SIGNED_HEADER_AT_TRACE_BYTES) != l->trace_bytes)
        return GR_STATUS_SIZE;
    l->state ^= STEP_ENVELOPE;
    return GR_STATUS_OK;
}

/* What the digest of a payload is made over, RFC 9052, 4.4: ["Signature", h'', protected header, h'',
 * payload], in CBOR. What precedes the payload is put in front of it, where BEFORE_HEAD_BYTES are free. */
static bool digest_of(uint8_t *payload, uint32_t bytes, const uint8_t *record, uint8_t digest[32])
{
    static const uint8_t context[CONTEXT_BYTES] = {0x85, 0x69, 'S', 'i', 'g', 'n',
                                                   'a',  't',  'u', 'r', 'e', 0x40};
    uint8_t *p = payload;
    const uint32_t size_bits = bytes > 0xffff ? 32 : bytes > 0xff ? 16 : 8;
    for (uint32_t bit = 0; bit < size_bits; bit += 8)
        *--p = (uint8_t)(bytes >> bit);
    *--p = (uint8_t)(0x58 + size_bits / 16); /* 8, 16, 32: 0, 1, 2 */
    *--p = 0x40;                             /* no bytes */
    p -= PROTECTED_BYTES;
    memcpy(p, record + 1, PROTECTED_BYTES);
    p -= sizeof context;
    memcpy(p, context, sizeof context);
    return gr_sha256(p, (uint32_t)(payload - p) + bytes, digest);
}

/* Zero if enough keys of a role have signed a payload: `threshold` times `good`, less what the verifications
 * answer. A key that is named and whose signature does not fit is no lack, but an attempt: *bad is set. */
GR_NOINLINE static uint32_t lacking(const struct gr_trust_policy *p, uint32_t keys, uint32_t threshold,
                                    uint8_t *payload, uint32_t bytes, const struct message *m, uint32_t good,
                                    bool *bad)
{
    uint32_t left = threshold * good, counted = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const uint8_t *record = m->records + i * RECORD_BYTES;
        const uint32_t number = gr_trust_find_key(p, record + RECORD_KID);
        if (number >= p->key_count || !(keys >> number & 1))
            continue;
        uint8_t digest[32] = {0};
        const bool hashed = digest_of(payload, bytes, record, digest);
        const volatile uint32_t verdict =
            gr_signature_verify(digest, gr_trust_key_at(p, number)->key, record + RECORD_SIGNATURE, good);
        if (!hashed || verdict != good) {
            *bad = true;
            return ~0u;
        }
        if (counted < threshold) {
            left -= verdict;
            counted++;
        }
    }
    return left;
}

/* What the rule asks of the trace, by its manifest. */
static enum gr_status check_rule(const struct gr_policy *policy, const struct gr_trust_policy *p,
                                 const struct gr_trust_rule *rule, const uint8_t *manifest)
{
    const uint8_t *m = gr_aligned(manifest);
    if (rule->gpu && rule->gpu != gr_load32(m + GR_MANIFEST_AT_GPU))
        return GR_STATUS_TRUST_GPU;
    if (rule->platform[0] &&
        !gr_is_same((const uint8_t *)rule->platform, policy->platform, sizeof rule->platform))
        return GR_STATUS_TRUST_PLATFORM;
    if (rule->devices && !gr_trust_has_device(p, rule->devices, policy->device_id))
        return GR_STATUS_TRUST_DEVICE;
    if (gr_load32(m + GR_MANIFEST_AT_SECURITY_VERSION) < rule->min_security_version)
        return GR_STATUS_ROLLBACK;
    if ((rule->carveout_bytes && gr_load64(m + GR_MANIFEST_AT_CARVEOUT_BYTES) > rule->carveout_bytes) ||
        (rule->time_budget_us && gr_load64(m + GR_MANIFEST_AT_TIME_BUDGET_US) > rule->time_budget_us))
        return GR_STATUS_TRUST_LIMITS;
    return GR_STATUS_OK;
}

enum gr_status gr_check_weights(const struct loader *l)
{
    const struct gr_replayer *r = l->r;
    for (uint32_t i = 0; l->has_signed_weights && i < r->slot_count; i++) {
        if (r->slots[i * GR_SLOT_BYTES + GR_SLOT_AT_KIND] == GR_SLOT_KIND_PARAMETER)
            return GR_STATUS_TRUST_WEIGHTS;
    }
    return GR_STATUS_OK;
}

/* From all that is signed to a verdict: by the device's own policy, the newer ones, and the rule for the
 * trace's name. Called twice, the second time with another copy of the device's own. */
GR_NOINLINE static enum gr_status judge(struct loader *l, const struct gr_policy *policy, uint32_t good)
{
    const struct gr_trust_policy *p = (const struct gr_trust_policy *)(const void *)gr_aligned(policy->trust);
    const uint8_t *at = l->envelope, *end = at + l->envelope_bytes;
    struct message trace, m;
    uint32_t side = 0;
    bool bad = false;
    if (!gr_trust_is_valid(policy->trust, p->bytes))
        return GR_STATUS_TRUST;
    if (!read_message(&at, end, &trace))
        return GR_STATUS_ENVELOPE;
    uint32_t left = 0;
    for (uint32_t i = 0; at != end; i++) {
        uint8_t *copy = l->policies[side] + BEFORE_HEAD_BYTES;
        const struct gr_trust_policy *newer = (const struct gr_trust_policy *)(const void *)gr_aligned(copy);
        if (i == GR_MAX_TRUST_POLICIES || !read_message(&at, end, &m) || !m.payload)
            return GR_STATUS_ENVELOPE;
        if (m.payload_bytes > GR_MAX_TRUST_BYTES)
            return GR_STATUS_TRUST;
        memcpy(copy, m.payload, m.payload_bytes);
        if (!gr_trust_is_valid(copy, m.payload_bytes))
            return GR_STATUS_TRUST;
        if (newer->version <= p->version)
            continue;
        if (newer->version - p->version != 1 ||
            !gr_is_same((const uint8_t *)newer->name, (const uint8_t *)p->name, sizeof p->name))
            return GR_STATUS_TRUST_CHAIN;
        left |= lacking(p, p->root_keys, p->root_threshold, copy, m.payload_bytes, &m, good, &bad);
        left |=
            lacking(newer, newer->root_keys, newer->root_threshold, copy, m.payload_bytes, &m, good, &bad);
        if (left)
            return GR_STATUS_TRUST_CHAIN;
        p = newer;
        side ^= 1;
    }
    if (p->version < policy->least_trust_version)
        return GR_STATUS_TRUST_OLD;
    if (policy->now_s && (policy->now_s < p->not_before || (p->not_after && policy->now_s > p->not_after)))
        return GR_STATUS_TRUST_TIME;
#ifdef GRAMOPHONE_CLOCK
    if (policy->now_s == GR_NO_TIME && (p->not_before || p->not_after))
        return GR_STATUS_TRUST_TIME;
#endif
    const uint32_t manifest_at = GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES;
    if (manifest_at + GR_MANIFEST_BYTES > l->head_bytes)
        return GR_STATUS_SECTIONS;
    const uint8_t *manifest = l->head + manifest_at;
    const struct gr_trust_rule *rule = gr_trust_find_rule(p, manifest + GR_MANIFEST_AT_NAME);
    if (!rule)
        return GR_STATUS_TRUST_NAME;
    left |= lacking(p, rule->keys, rule->threshold, l->head, l->head_bytes, &trace, good, &bad);
    if (bad)
        return GR_STATUS_SIGNATURE;
    if (left) {
        for (uint32_t i = 0; i < trace.count; i++) {
            if (gr_trust_is_revoked(p, trace.records + i * RECORD_BYTES + RECORD_KID))
                return GR_STATUS_REVOKED;
        }
        return GR_STATUS_THRESHOLD;
    }
    const enum gr_status status = check_rule(policy, p, rule, manifest);
    if (status != GR_STATUS_OK)
        return status;
    l->r->trust_version = p->version;
    GR_TELL(l->r, gr_log_policy(l->r->log, (const uint8_t *)p, p->bytes, p->version));
    l->has_signed_weights = rule->flags & GR_TRUST_SIGNED_WEIGHTS;
    l->state ^= good ^ left;
    return GR_STATUS_OK;
}

enum gr_status gr_judge(struct loader *l)
{
    return judge(l, l->policy, FIRST_VERDICT);
}

enum gr_status gr_check_signature_again(struct loader *l)
{
    struct gr_policy policy = {0};
    gr_port_policy_again(&policy);
    const enum gr_status status = judge(l, &policy, SECOND_VERDICT);
    return status == GR_STATUS_OK ? gr_check_weights(l) : status;
}

#endif
