/* SPDX-License-Identifier: BSD-2-Clause */
/* The form of a trust policy, and what is looked up in one. */
#include "crypto.h"
#include "trust_policy.h"

enum {
    TRUST_ID_BYTES = 16,
    MOST_BEFORE = 26,
    MOST_KEY = 97,
    HALF_BYTES = 32, /* SHA-256 of an ML-DSA key */
    ALIKE_BYTES = 31 /* without the last byte, which has the sign of an Ed25519 key */
};

/* Bytes of a key of each kind, and what precedes them in what its id is the hash of. */
static const struct key_form {
    uint8_t key_bytes, before_bytes, before[MOST_BEFORE];
} key_forms[GR_KEY_KIND_ED25519] = {
    {TRUST_KEY_BYTES, MOST_BEFORE, GR_SPKI_ES256},
    {MOST_KEY, MOST_BEFORE, GR_SPKI_ES256},
    {MOST_KEY, 23, GR_SPKI_ES384},
    {HALF_BYTES, 12, GR_SPKI_ED25519},
};

bool gr_trust_is_before(const uint8_t *kid, const uint8_t *other)
{
    uint32_t i = 0;
    while (i < TRUST_ID_BYTES - 1 && kid[i] == other[i])
        i++;
    return kid[i] < other[i];
}

static const uint8_t *keys(const struct gr_trust_policy *p)
{
    return (const uint8_t *)p + sizeof *p;
}

const struct gr_trust_key *gr_trust_key_at(const struct gr_trust_policy *p, uint32_t number)
{
    return (const struct gr_trust_key *)(const void *)keys(p) + number;
}

static const struct gr_trust_rule *rule_at(const struct gr_trust_policy *p, uint32_t number)
{
    return (const struct gr_trust_rule *)(const void *)gr_trust_key_at(p, p->key_count) + number;
}

static const uint8_t *device_at(const struct gr_trust_policy *p, uint32_t number)
{
    return (const uint8_t *)rule_at(p, p->rule_count) + number * TRUST_ID_BYTES;
}

static const uint8_t *revoked_at(const struct gr_trust_policy *p, uint32_t number)
{
    return device_at(p, p->device_count) + number * TRUST_ID_BYTES;
}

uint32_t gr_trust_find_key(const struct gr_trust_policy *p, const uint8_t *kid)
{
    uint32_t i = 0;
    while (i < p->key_count && !gr_is_same(gr_trust_key_at(p, i)->kid, kid, TRUST_ID_BYTES))
        i++;
    return i;
}

bool gr_trust_is_revoked(const struct gr_trust_policy *p, const uint8_t *kid)
{
    for (uint32_t i = 0; i < p->revoked_count; i++) {
        if (gr_is_same(revoked_at(p, i), kid, TRUST_ID_BYTES))
            return true;
    }
    return false;
}

bool gr_trust_keeps_revoked(const struct gr_trust_policy *newer, const struct gr_trust_policy *p)
{
    for (uint32_t i = 0; i < p->revoked_count; i++) {
        if (!gr_trust_is_revoked(newer, revoked_at(p, i)))
            return false;
    }
    return true;
}

bool gr_trust_has_device(const struct gr_trust_policy *p, uint32_t mask, const uint8_t *id)
{
    for (uint32_t i = 0; i < p->device_count; i++) {
        if (mask >> i & 1 && gr_is_same(device_at(p, i), id, TRUST_ID_BYTES))
            return true;
    }
    return false;
}

/* Bytes of a text up to the zeros that fill it up. */
static uint32_t length(const char *text, uint32_t size)
{
    uint32_t n = 0;
    while (n < size && text[n])
        n++;
    return n;
}

const struct gr_trust_rule *gr_trust_find_rule(const struct gr_trust_policy *p, const uint8_t *name)
{
    for (uint32_t i = 0; i < p->rule_count; i++) {
        const struct gr_trust_rule *rule = rule_at(p, i);
        const uint32_t n = rule->flags & GR_TRUST_PREFIX ? length(rule->name, sizeof rule->name)
                                                         : (uint32_t)sizeof rule->name;
        if (n == 0 || gr_is_same((const uint8_t *)rule->name, name, n))
            return rule;
    }
    return NULL;
}

/* ASCII that can be printed, and zeros after it. */
static bool is_text(const char *text, uint32_t size)
{
    const uint32_t n = length(text, size);
    for (uint32_t i = 0; i < size; i++) {
        if (i < n ? text[i] < 0x20 || text[i] > 0x7e : text[i] != 0)
            return false;
    }
    return true;
}

/* Whether a mask names the first `count` of something at most. */
static bool is_mask(uint32_t mask, uint32_t count)
{
    return !((uint64_t)mask >> count);
}

static bool is_role(const struct gr_trust_policy *p, uint32_t mask, uint32_t threshold)
{
    uint32_t named = 0;
    for (uint32_t left = mask; left; left &= left - 1)
        named++;
    return is_mask(mask, p->key_count) && threshold - 1 < named;
}

/* The id of a key, of a kind that it is or whose bytes it begins with. False: the hash failed. */
static bool make_id(const struct gr_trust_key *key, uint32_t kind, uint8_t digest[32])
{
    const struct key_form *form = &key_forms[kind - 1];
    uint8_t hashed[MOST_BEFORE + MOST_KEY] = {0};
    memcpy(hashed, form->before, form->before_bytes);
    memcpy(hashed + form->before_bytes, key->key, form->key_bytes);
    return gr_sha256(hashed, (size_t)form->before_bytes + form->key_bytes, digest);
}

/* What a key and its negative, which one private key signs for, have in common: x, of Ed25519 y. */
static const uint8_t *shared_coordinate(const struct gr_trust_key *key)
{
    return key->key + (key->kind != GR_KEY_KIND_ED25519);
}

/* Whether one person has both: a hybrid key has two halves. */
static bool is_one_person(const struct gr_trust_key *one, const struct gr_trust_key *other)
{
    return gr_is_same(shared_coordinate(one), shared_coordinate(other), ALIKE_BYTES) ||
           (one->kind == GR_KEY_KIND_ES256_ML_DSA_44 && other->kind == one->kind &&
            gr_is_same(one->key + TRUST_KEY_BYTES, other->key + TRUST_KEY_BYTES, HALF_BYTES));
}

/* Whether a key is in its one form under the id that is its own, not revoked, and shared with none before. */
static bool is_key(const struct gr_trust_policy *p, uint32_t number)
{
    const struct gr_trust_key *key = gr_trust_key_at(p, number);
    uint8_t id[32] = {0};
    if (key->kind - 1 >= GR_KEY_KIND_ED25519 || key->reserved)
        return false;
    const uint32_t used = key_forms[key->kind - 1].key_bytes;
    if ((key->kind != GR_KEY_KIND_ED25519 && key->key[0] != 4) ||
        !gr_is_zero(key->key + used, sizeof key->key - used) || !make_id(key, key->kind, id) ||
        !gr_is_same(id, key->kid, TRUST_ID_BYTES) || gr_trust_is_revoked(p, id))
        return false;
    for (uint32_t i = 0; i < number; i++) {
        if (is_one_person(gr_trust_key_at(p, i), key))
            return false;
    }
    /* A revoked key does not come back as half of a hybrid one, nor does half of a hybrid one. */
    return key->kind != GR_KEY_KIND_ES256_ML_DSA_44 ||
           (make_id(key, GR_KEY_KIND_ES256, id) && !gr_trust_is_revoked(p, id) &&
            !gr_trust_is_revoked(p, key->key + TRUST_KEY_BYTES));
}

bool gr_trust_has_algorithms(const struct gr_trust_policy *p)
{
    for (uint32_t i = 0; i < p->key_count; i++) {
        const uint32_t kind = gr_trust_key_at(p, i)->kind;
        if (kind != GR_KEY_KIND_ES256
#ifdef GRAMOPHONE_ML_DSA
            && kind != GR_KEY_KIND_ES256_ML_DSA_44
#endif
#ifdef GRAMOPHONE_ES384
            && kind != GR_KEY_KIND_ES384
#endif
#ifdef GRAMOPHONE_ED25519
            && kind != GR_KEY_KIND_ED25519
#endif
        )
            return false;
    }
    return true;
}

static bool is_rule(const struct gr_trust_policy *p, const struct gr_trust_rule *rule)
{
    return is_text(rule->name, sizeof rule->name) && is_text(rule->platform, sizeof rule->platform) &&
           (rule->name[0] || rule->flags & GR_TRUST_PREFIX) && is_role(p, rule->keys, rule->threshold) &&
           !(rule->flags & ~(GR_TRUST_PREFIX | GR_TRUST_SIGNED_WEIGHTS)) &&
           is_mask(rule->devices, p->device_count) && !rule->reserved;
}

static bool are_ascending(const uint8_t *first, uint32_t count, uint32_t stride)
{
    for (uint32_t i = 1; i < count; i++) {
        if (!gr_trust_is_before(first + (i - 1) * stride, first + i * stride))
            return false;
    }
    return true;
}

bool gr_trust_is_valid(const uint8_t *data, uint32_t bytes)
{
    const struct gr_trust_policy *p = (const struct gr_trust_policy *)(const void *)gr_aligned(data);
    if (bytes < sizeof *p || p->magic != GR_TRUST_POLICY_MAGIC ||
        p->version_major != GR_TRUST_VERSION_MAJOR || p->version_minor != GR_TRUST_VERSION_MINOR ||
        p->key_count - 1u >= GR_MAX_TRUST_KEYS || p->rule_count > GR_MAX_TRUST_RULES ||
        p->device_count > GR_MAX_TRUST_DEVICES || p->revoked_count > GR_MAX_TRUST_REVOKED ||
        p->bytes != bytes || bytes != (uint32_t)(revoked_at(p, p->revoked_count) - data))
        return false;
    if (!p->version || !p->name[0] || !is_text(p->name, sizeof p->name) ||
        (p->not_after && p->not_after < p->not_before) || !gr_is_zero(p->reserved, sizeof p->reserved) ||
        !is_role(p, p->root_keys, p->root_threshold) ||
        !are_ascending(keys(p), p->key_count, sizeof(struct gr_trust_key)) ||
        !are_ascending(device_at(p, 0), p->device_count, TRUST_ID_BYTES) ||
        !are_ascending(revoked_at(p, 0), p->revoked_count, TRUST_ID_BYTES))
        return false;
    for (uint32_t i = 0; i < p->key_count; i++) {
        if (!is_key(p, i))
            return false;
    }
    uint32_t named = 0;
    for (uint32_t i = 0; i < p->rule_count; i++) {
        if (!is_rule(p, rule_at(p, i)))
            return false;
        named |= rule_at(p, i)->devices;
    }
    return named == (uint32_t)(((uint64_t)1 << p->device_count) - 1); /* no device that no rule names */
}

/* 0: bytes are the same; of a prefix, up to its end. */
static uint32_t name_distance(const uint8_t *a, const uint8_t *b, uint32_t bytes, bool is_prefix)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < bytes && !(is_prefix && !a[i]); i++)
        found |= (uint32_t)a[i] ^ b[i];
    return found;
}

static bool fits_name(const struct gr_trust_rule *rule, const uint8_t *name)
{
    return !name_distance((const uint8_t *)rule->name, name, sizeof rule->name,
                          rule->flags & GR_TRUST_PREFIX);
}

GR_NOINLINE uint32_t gr_trust_breach(const struct gr_policy *policy, const struct gr_trust_policy *p,
                                     const struct gr_trust_rule *rule, const uint8_t *manifest)
{
    const uint8_t *m = gr_aligned(manifest);
    const uint64_t now = policy->now_s;
    uint32_t found = (now != 0) & ((now < p->not_before) | ((p->not_after != 0) & (now > p->not_after)));
    found |= (uint32_t)(GR_IS_NO_TIME(now) & ((p->not_before | p->not_after) != 0));
    uint32_t first = 0;
    while (first < p->rule_count && !fits_name(rule_at(p, first), manifest + GR_MANIFEST_AT_NAME))
        first++;
    found |= (uintptr_t)rule_at(p, first) != (uintptr_t)rule;
    found |= p->version < policy->least_trust_version;
    found |= gr_load32(m + GR_MANIFEST_AT_SECURITY_VERSION) < rule->min_security_version;
    found |= (rule->gpu != 0) & (rule->gpu != gr_load32(m + GR_MANIFEST_AT_GPU));
    found |=
        (rule->carveout_bytes != 0) & (gr_load64(m + GR_MANIFEST_AT_CARVEOUT_BYTES) > rule->carveout_bytes);
    found |=
        (rule->time_budget_us != 0) & (gr_load64(m + GR_MANIFEST_AT_TIME_BUDGET_US) > rule->time_budget_us);
    found |= (rule->platform[0] != 0) & (name_distance((const uint8_t *)rule->platform, policy->platform,
                                                       sizeof rule->platform, false) != 0);
    uint32_t elsewhere = rule->devices != 0;
    for (uint32_t i = 0; i < p->device_count; i++)
        elsewhere &= !(rule->devices >> i & 1) |
                     (name_distance(device_at(p, i), policy->device_id, TRUST_ID_BYTES, false) != 0);
    return found | elsewhere;
}
