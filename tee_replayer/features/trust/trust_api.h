/* SPDX-License-Identifier: BSD-2-Clause */
/* Who signs, and what a port says of it once more: not by way of a pointer that the caller has, and not where
 * the first one lies, since one fault does not exchange both. */
#ifndef GRAMOPHONE_TRUST_API_H
#define GRAMOPHONE_TRUST_API_H

#ifdef GRAMOPHONE_TRUST

#define GR_SIGNER_FIELDS                                                                                     \
    const uint8_t *trust;         /* the device's own trust policy, at a multiple of 8 */                    \
    const uint8_t *platform;      /* 16 bytes: board or environment, and zeros */                            \
    const uint8_t *device_id;     /* 16 bytes; zeros: it has none */                                         \
    uint32_t least_trust_version; /* older policies are refused */                                           \
    uint64_t now_s; /* seconds since 1970 (UTC); 0: there is no clock; GR_NO_TIME: it is not set */
#define GR_TRUST_FIELDS                                                                                      \
    uint32_t trust_version; /* of the policy under which the loaded trace was accepted                       \
                             */
GR_API void gr_port_policy_again(struct gr_policy *policy);

#else

#define GR_SIGNER_FIELDS                                                                                     \
    const uint8_t *key;    /* 65 bytes: P-256 public key, 04 || x || y */                                    \
    const uint8_t *key_id; /* 16 bytes */
#define GR_TRUST_FIELDS
GR_API const uint8_t *gr_port_key_again(void);

#endif

#endif
