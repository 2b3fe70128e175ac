/* SPDX-License-Identifier: BSD-2-Clause */
/* Trust policies, as signed files bring them: memory that was copied, and is not checked. */
#ifndef GRAMOPHONE_TRUST_H
#define GRAMOPHONE_TRUST_H

#include "gramophone_trust.h"
#include "load.h"

/* Whether `bytes` bytes at `data`, a multiple of 8, are a well-formed policy. Nothing is read behind them. */
GR_INTERNAL bool gr_trust_is_valid(const uint8_t *data, uint32_t bytes);

/* Of a well-formed policy: a key by its number; the number of a key by its id, key_count where there is none;
 * whether a key was revoked; whether a device is one that a mask names. */
GR_INTERNAL const struct gr_trust_key *gr_trust_key_at(const struct gr_trust_policy *p, uint32_t number);
GR_INTERNAL uint32_t gr_trust_find_key(const struct gr_trust_policy *p, const uint8_t *kid);
GR_INTERNAL bool gr_trust_is_revoked(const struct gr_trust_policy *p, const uint8_t *kid);
GR_INTERNAL bool gr_trust_has_device(const struct gr_trust_policy *p, uint32_t mask, const uint8_t *id);

/* The first rule that fits a manifest's name, 64 bytes; NULL where none does. */
GR_INTERNAL const struct gr_trust_rule *gr_trust_find_rule(const struct gr_trust_policy *p,
                                                           const uint8_t *name);

/* Whether one id is below another. */
GR_INTERNAL bool gr_trust_is_before(const uint8_t *kid, const uint8_t *other);

#endif
