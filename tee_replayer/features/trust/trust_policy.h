/* SPDX-License-Identifier: BSD-2-Clause */
/* Trust policies, as signed files bring them: memory that was copied, and is not checked. */
#ifndef GRAMOPHONE_TRUST_POLICY_H
#define GRAMOPHONE_TRUST_POLICY_H

#include "gramophone_trust.h"
#include "load.h"

enum { TRUST_KEY_BYTES = 65 }; /* of ES256, and of a hybrid key before the hash of its ML-DSA half */

/* A signature in a message: its algorithm is one of enum gr_key_kind, or the one that is a hybrid key's
 * second. */
#define GR_ENTRY_ML_DSA_44 2u
struct gr_entry {
    uint32_t kind;
    const uint8_t *protected_header; /* ends with the key id */
    const uint8_t *kid;
    const uint8_t *key; /* that an entry of ML-DSA brings */
    const uint8_t *signature;
    const uint8_t *end;
};

struct gr_message {
    const uint8_t *payload; /* NULL: it is elsewhere */
    uint32_t payload_bytes;
    const uint8_t *entries; /* signatures */
    uint32_t count, hybrid; /* of them; not 0: one is of ML-DSA, where that is linked */
    const uint8_t *end;     /* of the memory that it is in */
};

/* The message at *at, which then lies behind it; an entry of one. False: it is not in its one encoding, or
 * does not end before `end`. */
GR_INTERNAL bool gr_read_message(const uint8_t **at, const uint8_t *end, struct gr_message *m);
GR_INTERNAL bool gr_read_entry(const uint8_t *at, const uint8_t *end, struct gr_entry *entry);

/* Where what an entry's key signs of a payload begins, RFC 9052, 4.4: ["Signature", h'', protected header,
 * h'', payload], in CBOR. What precedes the payload is put in front of it, where BEFORE_HEAD_BYTES are free.
 */
GR_INTERNAL uint8_t *gr_to_be_signed(uint8_t *payload, uint32_t bytes, const struct gr_entry *entry);

/* Whether `bytes` bytes at `data`, a multiple of 8, are a well-formed policy. Nothing is read behind them. */
GR_INTERNAL bool gr_trust_is_valid(const uint8_t *data, uint32_t bytes);

/* Of a well-formed policy: a key by its number; the number of a key by its id, key_count where there is none;
 * whether a key was revoked; whether another policy has all that were; whether a device is one that a mask
 * names. */
GR_INTERNAL const struct gr_trust_key *gr_trust_key_at(const struct gr_trust_policy *p, uint32_t number);
GR_INTERNAL uint32_t gr_trust_find_key(const struct gr_trust_policy *p, const uint8_t *kid);
GR_INTERNAL bool gr_trust_is_revoked(const struct gr_trust_policy *p, const uint8_t *kid);
GR_INTERNAL bool gr_trust_keeps_revoked(const struct gr_trust_policy *newer, const struct gr_trust_policy *p);
GR_INTERNAL bool gr_trust_has_device(const struct gr_trust_policy *p, uint32_t mask, const uint8_t *id);

/* Whether this device verifies signatures of all of its keys. */
GR_INTERNAL bool gr_trust_has_algorithms(const struct gr_trust_policy *p);

/* The first rule that fits a manifest's name, 64 bytes; NULL where none does. */
GR_INTERNAL const struct gr_trust_rule *gr_trust_find_rule(const struct gr_trust_policy *p,
                                                           const uint8_t *name);

/* Zero if a rule is the first that fits the manifest's name, and is kept, and the policy holds: what the
 * judge asks by branches, in another form, whose answer goes into the loader's state. */
GR_INTERNAL uint32_t gr_trust_breach(const struct gr_policy *policy, const struct gr_trust_policy *p,
                                     const struct gr_trust_rule *rule, const uint8_t *manifest);

/* Whether one id is below another. */
GR_INTERNAL bool gr_trust_is_before(const uint8_t *kid, const uint8_t *other);

#endif
