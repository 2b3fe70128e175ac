/* SPDX-License-Identifier: BSD-2-Clause */
/* Of trust.c, all of it: an envelope of some sizes with any bytes, from a source that may fail at each call;
 * any verdict of policy.c (unit policy) and of the library, any messages as cose.c reads them (unit cose),
 * any device. Buffers are as long as the loader takes them, and end where memory does. */
#define __attribute__(names)
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
#include "__fc_builtin.h"
#include "crypto.h"
#include "gr_target.h"
#include "string.h"
#include "trust_policy.h"

enum {
    SLOTS_HERE = 2,
    KEY_AT = 24,
    MOST_HEAD = GR_HEADER_BYTES + GR_MAX_SECTIONS * GR_SECTION_BYTES + GR_MANIFEST_BYTES
};
static uint8_t envelope[GR_MAX_TRUST_ENVELOPE_BYTES], head[BEFORE_HEAD_BYTES + MOST_HEAD];
static uint64_t policies[2][(BEFORE_HEAD_BYTES + GR_MAX_TRUST_BYTES) / 8];
static uint64_t own[GR_MAX_TRUST_BYTES / 8], other_copy[GR_MAX_TRUST_BYTES / 8];
static uint64_t workspace[GR_ML_DSA_WORKSPACE_BYTES / 8];
static uint8_t slots[SLOTS_HERE * GR_SLOT_BYTES], platform[16], device_id[16];
/* Of an entry. */
static uint8_t header[KEY_AT], kid[KID_BYTES], ml_dsa_key[GR_ML_DSA_KEY_BYTES],
    signature[GR_ML_DSA_SIGNATURE_BYTES];
static struct gr_trust_key key;
static struct gr_trust_rule rule;
static uint32_t size, taken;

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \initialized(a + (0 .. bytes - 1));
    requires \valid_read(b + (0 .. bytes - 1)) && \initialized(b + (0 .. bytes - 1));
    assigns \result \from a[0 .. bytes - 1], b[0 .. bytes - 1]; ensures 0 <= \result <= 1; */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);
/*@ requires \valid_read((uint8_t *)data + (0 .. bytes - 1)) && \valid(digest + (0 .. 31));
    assigns \result, digest[0 .. 31] \from ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(digest + (0 .. 31)); */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);
/*@ requires \valid_read((uint8_t *)data + (0 .. bytes - 1)) && \valid(digest + (0 .. 47));
    assigns \result, digest[0 .. 47] \from ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(digest + (0 .. 47)); */
bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48]);
/*@ requires \valid_read(digest + (0 .. 31)) && \initialized(digest + (0 .. 31));
    requires \valid_read(key + (0 .. 64)) && \valid_read(signature + (0 .. 63));
    assigns \result \from digest[0 .. 31], key[0 .. 64], signature[0 .. 63], good; */
uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good);
/*@ requires \valid_read(digest + (0 .. 47)) && \initialized(digest + (0 .. 47));
    requires \valid_read(key + (0 .. 96)) && \valid_read(signature + (0 .. 95));
    assigns \result \from digest[0 .. 47], key[0 .. 96], signature[0 .. 95], good; */
uint32_t gr_es384_verify(const uint8_t digest[48], const uint8_t key[97], const uint8_t signature[96],
                         uint32_t good);
/*@ requires \valid_read(message + (0 .. bytes - 1));
    requires \valid_read(key + (0 .. 31)) && \valid_read(signature + (0 .. 63));
    assigns \result \from message[0 .. bytes - 1], key[0 .. 31], signature[0 .. 63], good; */
uint32_t gr_ed25519_verify(const uint8_t *message, size_t bytes, const uint8_t key[32],
                           const uint8_t signature[64], uint32_t good);
/*@ requires \valid_read(message + (0 .. bytes - 1));
    requires \valid_read(key + (0 .. GR_ML_DSA_KEY_BYTES - 1));
    requires \valid_read(signature + (0 .. GR_ML_DSA_SIGNATURE_BYTES - 1));
    requires \valid((uint8_t *)workspace + (0 .. GR_ML_DSA_WORKSPACE_BYTES - 1));
    assigns \result, ((uint8_t *)workspace)[0 .. GR_ML_DSA_WORKSPACE_BYTES - 1] \from message[0 .. bytes - 1],
      key[0 .. GR_ML_DSA_KEY_BYTES - 1], signature[0 .. GR_ML_DSA_SIGNATURE_BYTES - 1], good; */
uint32_t gr_ml_dsa_verify(const uint8_t *message, size_t bytes, const uint8_t key[GR_ML_DSA_KEY_BYTES],
                          const uint8_t signature[GR_ML_DSA_SIGNATURE_BYTES], void *workspace, uint32_t good);

/* As proved of cose.c. */
bool gr_read_message(const uint8_t **at, const uint8_t *end, struct gr_message *m)
{
    *m = (struct gr_message){.end = end};
    if (Frama_C_interval(0, 1))
        return false;
    m->payload = Frama_C_nondet_ptr(NULL, envelope);
    m->payload_bytes = Frama_C_unsigned_int_interval(0, sizeof envelope);
    m->entries = envelope;
    m->count = Frama_C_unsigned_int_interval(0, 2);
    m->hybrid = Frama_C_unsigned_int_interval(0, 1);
    *at = Frama_C_nondet_ptr(envelope, (void *)(uintptr_t)end);
    return true;
}

bool gr_read_entry(const uint8_t *at, const uint8_t *end, struct gr_entry *entry)
{
    (void)at;
    (void)end;
    if (Frama_C_interval(0, 1))
        return false;
    *entry =
        (struct gr_entry){Frama_C_unsigned_int_interval(1, 4), header, kid, ml_dsa_key, signature, envelope};
    return true;
}

/* It may be as far before the payload as there is room. */
uint8_t *gr_to_be_signed(uint8_t *payload, uint32_t bytes, const struct gr_entry *entry)
{
    //@ assert room: \valid(payload + (-BEFORE_HEAD_BYTES .. bytes - 1));
    //@ assert entry: \initialized(&entry->kid);
    Frama_C_make_unknown((char *)payload - BEFORE_HEAD_BYTES, BEFORE_HEAD_BYTES);
    return payload - BEFORE_HEAD_BYTES;
}

/* As proved of policy.c. */
bool gr_trust_is_valid(const uint8_t *data, uint32_t bytes)
{
    struct gr_trust_policy *p = (struct gr_trust_policy *)(uintptr_t)data;
    //@ assert policy: \valid_read(p);
    (void)bytes;
    if (Frama_C_interval(0, 1))
        return false;
    p->key_count = (uint8_t)Frama_C_interval(1, GR_MAX_TRUST_KEYS);
    return true;
}

/*@ requires \valid_read(policy) && \valid_read(p) && \valid_read(r);
    requires \valid_read(manifest + (0 .. GR_MANIFEST_BYTES - 1));
    assigns \result \from *policy, *p, *r, manifest[0 .. GR_MANIFEST_BYTES - 1]; */
uint32_t gr_trust_breach(const struct gr_policy *policy, const struct gr_trust_policy *p,
                         const struct gr_trust_rule *r, const uint8_t *manifest);
/*@ assigns \result \from \nothing; */
uint32_t gr_known_answer(void);
/*@ requires \valid_read(p); assigns \result \from *p; ensures 0 <= \result <= 1; */
bool gr_trust_has_algorithms(const struct gr_trust_policy *p);
/*@ requires \valid_read(p) && \valid_read(kid + (0 .. KID_BYTES - 1));
    assigns \result \from *p, kid[0 .. KID_BYTES - 1]; ensures 0 <= \result <= 1; */
bool gr_trust_is_revoked(const struct gr_trust_policy *p, const uint8_t *kid);
/*@ requires \valid_read(p) && \valid_read(newer);
    assigns \result \from *p, *newer; ensures 0 <= \result <= 1; */
bool gr_trust_keeps_revoked(const struct gr_trust_policy *newer, const struct gr_trust_policy *p);
/*@ requires \valid_read(p) && \valid_read(id + (0 .. 15));
    assigns \result \from *p, mask, id[0 .. 15]; ensures 0 <= \result <= 1; */
bool gr_trust_has_device(const struct gr_trust_policy *p, uint32_t mask, const uint8_t *id);
/* A number below the count of keys, or one that is not, whatever the count is. */
/*@ requires \valid_read(p) && \valid_read(kid + (0 .. KID_BYTES - 1));
    assigns \result \from *p, kid[0 .. KID_BYTES - 1];
    ensures \result < GR_MAX_TRUST_KEYS || \result == 255; */
uint32_t gr_trust_find_key(const struct gr_trust_policy *p, const uint8_t *kid);

const struct gr_trust_key *gr_trust_key_at(const struct gr_trust_policy *p, uint32_t number)
{
    //@ assert key: \valid_read(p) && number < GR_MAX_TRUST_KEYS;
    Frama_C_make_unknown((char *)&key, sizeof key);
    key.kind = Frama_C_interval(GR_KEY_KIND_ES256, GR_KEY_KIND_ED25519);
    return &key;
}

const struct gr_trust_rule *gr_trust_find_rule(const struct gr_trust_policy *p, const uint8_t *name)
{
    //@ assert name: \valid_read(p) && \valid_read(name + (0 .. 63));
    Frama_C_make_unknown((char *)&rule, sizeof rule);
    return Frama_C_nondet_ptr(NULL, &rule);
}

/* The loader's memory, in the order in which it is taken. */
void *gr_take_memory(struct loader *l, uint64_t bytes)
{
    const uint32_t now = taken++;
    (void)l;
    if (Frama_C_interval(0, 1))
        return NULL;
    if (now < 2)
        return (uint8_t *)policies[now] + sizeof policies[0] - bytes;
    if (now == 2)
        return envelope + sizeof envelope - bytes;
    return (uint8_t *)workspace + sizeof workspace - bytes;
}

static bool read(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    Frama_C_make_unknown((char *)to, bytes);
    if (offset == 0) {
        //@ loop unroll 4;
        for (uint32_t i = 0; i < 4; i++)
            to[GR_SIGNED_HEADER_AT_ENVELOPE_BYTES + i] = (uint8_t)(size >> 8 * i);
    }
    return Frama_C_interval(0, 1);
}

static void set_policy(struct gr_policy *policy, uint32_t number)
{
    Frama_C_make_unknown((char *)policy, sizeof *policy);
    policy->trust = (const uint8_t *)(number ? other_copy : own);
    policy->platform = platform;
    policy->device_id = device_id;
}

void gr_port_policy_again(struct gr_policy *policy)
{
    set_policy(policy, 1);
}

static const struct gr_source source = {read, NULL};
static struct gr_replayer r;
static struct loader l;
static struct gr_policy policy;

/* Any state of the loader, with what all calls rely on. */
static void forget(void)
{
    Frama_C_make_unknown((char *)&r, sizeof r);
    Frama_C_make_unknown((char *)&l, sizeof l);
    set_policy(&policy, 0);
    r.slots = slots;
    r.slot_count = Frama_C_unsigned_int_interval(0, SLOTS_HERE);
    l.r = &r;
    l.policy = &policy;
    l.stream.source = &source;
    l.has_signed_weights = Frama_C_interval(0, 1);
    taken = 0;
}

static void copy(uint32_t bytes)
{
    forget();
    size = bytes;
    gr_copy_envelope(&l);
}

/* A head with a table of so many sections, and as many bytes behind it. */
static void judge_head(uint32_t sections, uint32_t bytes)
{
    forget();
    l.envelope = envelope;
    l.envelope_bytes = Frama_C_unsigned_int_interval(1, sizeof envelope);
    l.policies[0] = (uint8_t *)policies[0];
    l.policies[1] = (uint8_t *)policies[1];
    l.workspace = workspace;
    l.section_count = sections;
    l.head_bytes = GR_HEADER_BYTES + sections * GR_SECTION_BYTES + bytes;
    l.head = head + sizeof head - l.head_bytes;
    gr_judge(&l);
    gr_check_signature_again(&l);
}

int main(void)
{
    Frama_C_make_unknown((char *)envelope, sizeof envelope);
    Frama_C_make_unknown((char *)head, sizeof head);
    Frama_C_make_unknown((char *)policies, sizeof policies);
    Frama_C_make_unknown((char *)own, sizeof own);
    Frama_C_make_unknown((char *)other_copy, sizeof other_copy);
    Frama_C_make_unknown((char *)slots, sizeof slots);
    Frama_C_make_unknown((char *)platform, sizeof platform);
    Frama_C_make_unknown((char *)device_id, sizeof device_id);
    Frama_C_make_unknown((char *)header, sizeof header);
    Frama_C_make_unknown((char *)kid, sizeof kid);
    Frama_C_make_unknown((char *)ml_dsa_key, sizeof ml_dsa_key);
    Frama_C_make_unknown((char *)signature, sizeof signature);
    copy(0);
    copy(1);
    copy(8);
    copy(GR_MAX_TRUST_ENVELOPE_BYTES - 1);
    copy(GR_MAX_TRUST_ENVELOPE_BYTES);
    copy(GR_MAX_TRUST_ENVELOPE_BYTES + 1);
    copy(UINT32_MAX);
    judge_head(4, GR_MANIFEST_BYTES);
    judge_head(4, 0);
    return 0;
}
#include "shipped/trust.c"
