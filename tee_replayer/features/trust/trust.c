/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the trust policy allows a signed trace. In front of it, the file has the trace's signatures and
 * then signed policies, each a COSE_Sign message: a policy is taken when enough root keys of the one before
 * and enough of its own have signed it. signing/trust_verdict.py says the same, step by step.
 */
#include "crypto.h"
#include "gr_target.h"
#include "trust_policy.h"

/* Of what the verification of a hybrid key's ML-DSA half answers when it is good; the other half answers the
 * rest of what the whole does. */
#define HALF_VERDICT 0x2d7c51a6u

/* All of them: signatures of the trace, then policies. */
static bool are_messages(const struct loader *l, uint32_t *hybrid)
{
    const uint8_t *at = l->envelope, *end = at + l->envelope_bytes;
    struct gr_message m;
    if (!gr_read_message(&at, end, &m) || m.payload)
        return false;
    *hybrid = m.hybrid;
    for (uint32_t i = 0; at != end; i++) {
        if (i == GR_MAX_TRUST_POLICIES || !gr_read_message(&at, end, &m) || !m.payload)
            return false;
        *hybrid |= m.hybrid;
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
    uint32_t hybrid = 0;
    l->policies[0] = gr_take_memory(l, BEFORE_HEAD_BYTES + GR_MAX_TRUST_BYTES);
    l->policies[1] = gr_take_memory(l, BEFORE_HEAD_BYTES + GR_MAX_TRUST_BYTES);
    uint8_t *envelope = gr_take_memory(l, padded);
    if (!l->policies[0] || !l->policies[1] || !envelope)
        return GR_STATUS_MEMORY;
    l->envelope = envelope;
    if (!source->read(source->ctx, GR_SIGNED_HEADER_BYTES, envelope, padded) ||
        !source->read(source->ctx, l->trace_at, l->start + HEADER_AT, GR_HEADER_BYTES))
        return GR_STATUS_READ;
    if (!gr_is_zero(l->start + GR_SIGNED_HEADER_AT_RESERVED, 8) ||
        (padded != bytes && !gr_is_zero(envelope + bytes, padded - bytes)) || !are_messages(l, &hybrid))
        return GR_STATUS_ENVELOPE;
    if (gr_load64(gr_aligned(l->start) + GR_SIGNED_HEADER_AT_TRACE_BYTES) != l->trace_bytes)
        return GR_STATUS_SIZE;
#ifdef GRAMOPHONE_ML_DSA
    if (hybrid) {
        l->workspace = gr_take_memory(l, GR_ML_DSA_WORKSPACE_BYTES);
        if (!l->workspace)
            return GR_STATUS_MEMORY;
    }
#endif
    l->state ^= STEP_ENVELOPE;
    return GR_STATUS_OK;
}

#ifdef GRAMOPHONE_ES384
/* Whether an ES384 signature's s is the one of two that is taken: n / 2 at most, as gr_is_low. */
static bool is_low_384(const uint8_t s[48])
{
    static const uint8_t half[48] = {
        0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xe3, 0xb1, 0xa6, 0xc0, 0xfa, 0x1b, 0x96, 0xef,
        0xac, 0x0d, 0x06, 0xd9, 0x24, 0x58, 0x53, 0xbd, 0x76, 0x76, 0x0c, 0xb5, 0x66, 0x62, 0x94, 0xb9,
    };
    uint32_t i = 0;
    while (i < sizeof half - 1 && s[i] == half[i])
        i++;
    return s[i] <= half[i];
}
#endif

/* What the verification by an entry's algorithm answers. */
static uint32_t verify(const struct loader *l, const struct gr_trust_key *key, const struct gr_entry *entry,
                       uint8_t *payload, uint32_t bytes, uint32_t good)
{
    const uint8_t *start = gr_to_be_signed(payload, bytes, entry);
    const uint32_t size = (uint32_t)(payload - start) + bytes;
    uint8_t digest[32] = {0};
    (void)l;
#ifdef GRAMOPHONE_ML_DSA
    if (entry->kind == GR_ENTRY_ML_DSA_44)
        return gr_ml_dsa_verify(start, size, entry->key, entry->signature, l->workspace, good);
#endif
#ifdef GRAMOPHONE_ED25519
    if (entry->kind == GR_KEY_KIND_ED25519)
        return gr_ed25519_verify(start, size, key->key, entry->signature, good);
#endif
#ifdef GRAMOPHONE_ES384
    if (entry->kind == GR_KEY_KIND_ES384) {
        uint8_t longer[48] = {0};
        return gr_sha384(start, size, longer) && is_low_384(entry->signature + sizeof longer)
                   ? gr_es384_verify(longer, key->key, entry->signature, good)
                   : GR_BAD_VERDICT;
    }
#endif
    return gr_sha256(start, size, digest)
               ? (uint32_t)gr_signature_verify(digest, key->key, entry->signature, good)
               : GR_BAD_VERDICT;
}

#ifdef GRAMOPHONE_ML_DSA
/* 0: the ML-DSA key that an entry brings is the one whose hash the policy has. */
static uint32_t key_difference(const struct gr_trust_key *key, const struct gr_entry *entry)
{
    uint8_t digest[32] = {0};
    if (!gr_sha256(entry->key, GR_ML_DSA_KEY_BYTES, digest))
        return ~0u;
    return gr_is_same(digest, key->key + TRUST_KEY_BYTES, sizeof digest) ^ 1;
}
#endif

/* Zero if enough keys of a role have signed a payload: `threshold` times `good`, less what the verifications
 * answer. A key that is named and whose signature does not fit is no lack, but an attempt: *why says it.
 * Entries and keys ascend, so each key comes after the one before; one that is met twice counts for nothing,
 * whatever made the loop take an entry again. */
GR_NOINLINE static uint32_t lacking(const struct loader *l, const struct gr_trust_policy *p, uint32_t keys,
                                    uint32_t threshold, uint8_t *payload, uint32_t bytes,
                                    const struct gr_message *m, uint32_t good, enum gr_status *why)
{
    uint32_t left = threshold * good, counted = 0, after = 0;
    const uint8_t *at = m->entries;
    struct gr_entry entry;
    for (uint32_t i = 0; i < m->count && gr_read_entry(at, m->end, &entry); i++) {
        at = entry.end;
#ifdef GRAMOPHONE_ML_DSA
        struct gr_entry other;
        const bool is_pair = i + 1 < m->count && gr_read_entry(at, m->end, &other) &&
                             gr_is_same(entry.kid, other.kid, KID_BYTES);
        if (is_pair) {
            at = other.end;
            i++;
        }
#endif
        const uint32_t number = gr_trust_find_key(p, entry.kid);
        if (number >= p->key_count || !(keys >> number & 1))
            continue;
        const struct gr_trust_key *key = gr_trust_key_at(p, number);
        uint32_t kind = key->kind, rest = 0;
        *why = GR_STATUS_SIGNATURE;
#ifdef GRAMOPHONE_ML_DSA
        /* Of a hybrid key, ES256 is asked for less than a good verdict: the ML-DSA half answers the rest. */
        const uint32_t halves = kind >> 1 & ~kind & 1; /* GR_KEY_KIND_ES256_ML_DSA_44: 2 of 1 to 4 */
        rest = halves * HALF_VERDICT;
        if (halves) {
            kind = GR_KEY_KIND_ES256;
            *why = !is_pair ? GR_STATUS_TRUST_HALF : key_difference(key, &other) ? GR_STATUS_TRUST_KEY : *why;
        }
        if (is_pair != halves || *why != GR_STATUS_SIGNATURE)
            return GR_BAD_VERDICT;
#endif
        if (entry.kind != kind || number < after)
            return GR_BAD_VERDICT;
        after = number + 1;
        volatile uint32_t verdict = verify(l, key, &entry, payload, bytes, good - rest);
#ifdef GRAMOPHONE_ML_DSA
        if (rest)
            verdict += verify(l, key, &other, payload, bytes, rest) ^ key_difference(key, &other);
#endif
        if (verdict != good)
            return GR_BAD_VERDICT;
        *why = GR_STATUS_OK;
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
    struct gr_message trace, m;
    uint32_t side = 0;
    enum gr_status why = GR_STATUS_OK;
    if (!gr_trust_is_valid(policy->trust, p->bytes))
        return GR_STATUS_TRUST;
    if (!gr_read_message(&at, end, &trace))
        return GR_STATUS_ENVELOPE;
    uint32_t left = 0;
    for (uint32_t i = 0; at != end; i++) {
        uint8_t *copy = l->policies[side] + BEFORE_HEAD_BYTES;
        const struct gr_trust_policy *newer = (const struct gr_trust_policy *)(const void *)gr_aligned(copy);
        if (i == GR_MAX_TRUST_POLICIES || !gr_read_message(&at, end, &m) || !m.payload)
            return GR_STATUS_ENVELOPE;
        if (m.payload_bytes > GR_MAX_TRUST_BYTES)
            return GR_STATUS_TRUST;
        memcpy(copy, m.payload, m.payload_bytes);
        if (!gr_trust_is_valid(copy, m.payload_bytes))
            return GR_STATUS_TRUST;
        if (newer->version <= p->version)
            continue;
        if (newer->version - p->version != 1 ||
            !gr_is_same((const uint8_t *)newer->name, (const uint8_t *)p->name, sizeof p->name) ||
            !gr_trust_keeps_revoked(newer, p))
            return GR_STATUS_TRUST_CHAIN;
        if (!gr_trust_has_algorithms(newer))
            return GR_STATUS_TRUST_ALGORITHM;
        left |= lacking(l, p, p->root_keys, p->root_threshold, copy, m.payload_bytes, &m, good, &why);
        left |=
            lacking(l, newer, newer->root_keys, newer->root_threshold, copy, m.payload_bytes, &m, good, &why);
        if (left)
            return GR_STATUS_TRUST_CHAIN;
        p = newer;
        side ^= 1;
    }
    if (p->version < policy->least_trust_version)
        return GR_STATUS_TRUST_OLD;
    if (policy->now_s && (policy->now_s < p->not_before || (p->not_after && policy->now_s > p->not_after)))
        return GR_STATUS_TRUST_TIME;
    if (GR_IS_NO_TIME(policy->now_s) && (p->not_before || p->not_after))
        return GR_STATUS_TRUST_TIME;
    const uint32_t manifest_at = GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES;
    if (manifest_at + GR_MANIFEST_BYTES > l->head_bytes)
        return GR_STATUS_SECTIONS;
    const uint8_t *manifest = l->head + manifest_at;
    const struct gr_trust_rule *rule = gr_trust_find_rule(p, manifest + GR_MANIFEST_AT_NAME);
    if (!rule)
        return GR_STATUS_TRUST_NAME;
    left |= lacking(l, p, rule->keys, rule->threshold, l->head, l->head_bytes, &trace, good, &why);
    l->state ^= good ^ left;
    if (why != GR_STATUS_OK)
        return why;
    if (left) {
        struct gr_entry entry = {.end = trace.entries};
        for (uint32_t i = 0; i < trace.count && gr_read_entry(entry.end, end, &entry); i++) {
            if (gr_trust_is_revoked(p, entry.kid))
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
    l->state ^= gr_trust_breach(policy, p, rule, manifest);
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
    l->state ^= gr_known_answer();
    /* With one bit of the head changed, all of it must be refused: REFUSAL. */
    volatile uint8_t *bit = l->head + l->head_bytes - 1;
    *bit ^= 1;
    (void)judge(l, &policy, GR_KNOWN_VERDICT);
    *bit ^= 1;
    const enum gr_status status = judge(l, &policy, SECOND_VERDICT);
    return status == GR_STATUS_OK ? gr_check_weights(l) : status;
}
