/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages in memory: a parser gets any two places of it, in order, and reads nothing from the second on. */
#include "common.h"
#include "trust_policy.h"

/* Memory up to the end of a message is less than 4 GiB. */
/*@ predicate span(uint8_t *at, uint8_t *end) = \base_addr(at) == \base_addr(end) && 0 <= end - at <=
   4294967295 && \valid_read(at + (0 .. end - at - 1));
*/

/*@ requires span(at, end);
    assigns \nothing;
    ensures \result == end - at;
*/
static uint32_t room(const uint8_t *at, const uint8_t *end);

/*@ requires first: \valid_read(a + (0 .. bytes - 1));
    requires second: \valid_read(b + (0 .. bytes - 1));
    assigns \nothing;
    ensures 0 <= \result <= 1;
*/
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);

/*@ requires \valid_read(s + (0 .. 31));
    assigns \nothing;
*/
bool gr_is_low(const uint8_t s[32]);

/*@ requires \valid_read(kid + (0 .. 15)) && \valid_read(other + (0 .. 15));
    assigns \nothing;
*/
bool gr_trust_is_before(const uint8_t *kid, const uint8_t *other);

/*@ predicate inside(uint8_t *p, uint8_t *at, uint8_t *end, integer bytes) =
      \base_addr(p) == \base_addr(at) && 0 <= p - at && bytes <= end - p;

    predicate entry_of(struct gr_entry *e, uint8_t *at, uint8_t *end) = 1 <= e->kind <= 4 &&
      e->protected_header == at + 1 && 22 <= e->kid - at + 15 <= LONGEST_PROTECTED_BYTES &&
      inside(e->kid, at, end, 16) && inside(e->signature, at, end, 64) && inside(e->end, at, end, 0) &&
      (e->kind == GR_ENTRY_ML_DSA_44 ==> inside(e->signature, at, end, 2420) && inside(e->key, at, end, 1312))
   && (e->kind == GR_KEY_KIND_ES384 ==> inside(e->signature, at, end, 96)) && e->end - at >= 87;
*/

/*@ requires span(at, end);
    requires \valid(entry) && \separated(entry, at + (0 .. end - at - 1));
    assigns *entry;
    ensures \result ==> entry_of(entry, at, end);
*/
bool gr_read_entry(const uint8_t *at, const uint8_t *end, struct gr_entry *entry);

/*@ requires span(*at, end) && \valid(at) && \valid(m);
    requires \separated(at, m, *at + (0 .. end - *at - 1));
    assigns *at, *m;
    ensures \result ==> inside(*at, \old(*at), end, 0);
    ensures \result ==> m->end == end && m->count <= GR_MAX_TRUST_SIGNATURES && inside(m->entries, \old(*at),
   end, 0); ensures \result && m->payload != \null ==> inside(m->payload, \old(*at), end, m->payload_bytes);
    ensures !\result ==> *at == \old(*at);
*/
bool gr_read_message(const uint8_t **at, const uint8_t *end, struct gr_message *m);

/*@ requires \valid(payload + (-BEFORE_HEAD_BYTES .. bytes - 1)) && \valid_read(entry);
    requires 6 <= entry->kid - entry->protected_header <= 8;
    requires \base_addr(entry->kid) == \base_addr(entry->protected_header);
    requires \valid_read(entry->protected_header + (0 .. 23));
    requires \separated(payload + (-BEFORE_HEAD_BYTES .. -1), entry, entry->protected_header + (0 .. 23));
    assigns payload[-BEFORE_HEAD_BYTES .. -1];
    ensures \base_addr(\result) == \base_addr(payload) && 1 <= payload - \result <= BEFORE_HEAD_BYTES;
*/
uint8_t *gr_to_be_signed(uint8_t *payload, uint32_t bytes, const struct gr_entry *entry);
#include "shipped/cose.c"
