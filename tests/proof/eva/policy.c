/* SPDX-License-Identifier: BSD-2-Clause */
/* Of policy.c, all of it: any bytes as a policy, behind which there is nothing, of any number of keys and
 * rules with the least and the most devices and revoked keys, and of any number of these with the least and
 * the most of those; and what is looked up in one that is well formed. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
#include "__fc_builtin.h"
#include "crypto.h"
#include "gr_target.h"
#include "string.h"
#include "trust_policy.h"

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \initialized(a + (0 .. bytes - 1));
    requires \valid_read(b + (0 .. bytes - 1)) && \initialized(b + (0 .. bytes - 1));
    assigns \result \from a[0 .. bytes - 1], b[0 .. bytes - 1]; ensures 0 <= \result <= 1; */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);
/*@ requires \valid_read((uint8_t *)data + (0 .. bytes - 1));
    requires \initialized((uint8_t *)data + (0 .. bytes - 1));
    requires \valid(digest + (0 .. 31));
    assigns \result, digest[0 .. 31] \from ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(digest + (0 .. 31)); */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);

static uint64_t memory[GR_MAX_TRUST_BYTES / 8];
static uint64_t manifest[GR_MANIFEST_BYTES / 8];
static uint8_t id[16], name[64], platform[16];

static const uint32_t some[] = {0, 1, 2, 15, 16};

static void look_up(const struct gr_trust_policy *p)
{
    const uint32_t number = gr_trust_find_key(p, id);
    if (number < p->key_count) {
        const struct gr_trust_key *key = gr_trust_key_at(p, number);
        //@ assert key: \valid_read(key);
    }
    const struct gr_trust_rule *rule = gr_trust_find_rule(p, name);
    //@ assert rule: rule == \null || \valid_read(rule);
    if (rule) {
        const struct gr_policy device = {
            .platform = platform,
            .device_id = id,
            .least_trust_version = Frama_C_unsigned_int_interval(0, UINT32_MAX),
            .now_s = Frama_C_unsigned_long_interval(0, UINT64_MAX),
        };
        gr_trust_breach(&device, p, rule, (const uint8_t *)manifest);
    }
    gr_trust_is_revoked(p, id);
    gr_trust_has_device(p, Frama_C_unsigned_int_interval(0, UINT32_MAX), id);
    gr_trust_has_algorithms(p);
    gr_trust_keeps_revoked(p, p);
}

static void check(uint32_t keys, uint32_t rules, uint32_t devices, uint32_t revoked)
{
    const uint32_t bytes = sizeof(struct gr_trust_policy) + keys * sizeof(struct gr_trust_key) +
                           rules * sizeof(struct gr_trust_rule) + (devices + revoked) * 16;
    Frama_C_make_unknown((char *)memory, sizeof memory);
    struct gr_trust_policy *p = (void *)((uint8_t *)memory + sizeof memory - bytes);
    p->key_count = (uint8_t)keys;
    p->rule_count = (uint8_t)rules;
    p->device_count = (uint8_t)devices;
    p->revoked_count = (uint8_t)revoked;
    if (gr_trust_is_valid((const uint8_t *)p, bytes))
        look_up(p);
}

int main(void)
{
    Frama_C_make_unknown((char *)id, sizeof id);
    Frama_C_make_unknown((char *)name, sizeof name);
    Frama_C_make_unknown((char *)platform, sizeof platform);
    Frama_C_make_unknown((char *)manifest, sizeof manifest);
    //@ loop unroll 5;
    for (uint32_t i = 0; i < 5; i++) {
        const uint32_t n = some[i];
        check(n < GR_MAX_TRUST_KEYS ? n + 1 : n, 0, 0, 0);
        check(1, n, 0, 0);
    }
    check(GR_MAX_TRUST_KEYS, GR_MAX_TRUST_RULES, GR_MAX_TRUST_DEVICES, GR_MAX_TRUST_REVOKED);
    /* Any counts, where there is room for the most; and less than a policy has at least. */
    Frama_C_make_unknown((char *)memory, sizeof memory);
    if (gr_trust_is_valid((const uint8_t *)memory, Frama_C_unsigned_int_interval(0, UINT32_MAX)))
        look_up((const struct gr_trust_policy *)(const void *)memory);
    gr_trust_is_valid((const uint8_t *)memory + sizeof memory, sizeof(struct gr_trust_policy) - 1);
    return 0;
}
#include "shipped/policy.c"
