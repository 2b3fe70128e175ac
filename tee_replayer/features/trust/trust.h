/* SPDX-License-Identifier: BSD-2-Clause */
/* What lies in front of a trace: the messages that a trust policy judges, or one key's signature.
 */
#ifndef GRAMOPHONE_TRUST_H
#define GRAMOPHONE_TRUST_H

#ifdef GRAMOPHONE_TRUST

#define GR_PROTECTED_BYTES 24                       /* the algorithm may take two bytes more */
#define REFUSAL (GR_KNOWN_VERDICT ^ GR_BAD_VERDICT) /* of the judge, about a changed head */
#define TRACE_START(l) ((l)->trace_at)
#define HEADER_AT GR_SIGNED_HEADER_BYTES
#define BEFORE_TRACE 0u /* it is not known yet */
#define GR_TRUST_LOADER_FIELDS                                                                               \
    const uint8_t *envelope; /* copy of all signatures and policies */                                       \
    uint32_t envelope_bytes, trace_at;                                                                       \
    uint8_t *policies[2]; /* room for the policy that counts and the next one */                             \
    void *workspace;      /* for ML-DSA */                                                                   \
    bool has_signed_weights;                                                                                 \
    /* signed header, the trace's header */                                                                  \
    _Alignas(8) uint8_t start[GR_SIGNED_HEADER_BYTES + GR_HEADER_BYTES];

/* Whether the rule allows weights that callers give, once the slots are known. */
GR_INTERNAL enum gr_status gr_check_weights(const struct loader *l);

#else

#define GR_PROTECTED_BYTES 22
#define REFUSAL 0u
#define TRACE_START(l) ((void)(l), (uint32_t)TRACE_AT)
#define HEADER_AT TRACE_AT
#define BEFORE_TRACE TRACE_AT
#define GR_TRUST_LOADER_FIELDS                                                                               \
    /* signed header, envelope, padding, the trace's header */                                               \
    _Alignas(8) uint8_t start[TRACE_AT + GR_HEADER_BYTES];
#define gr_check_weights(l) GR_STATUS_OK

#endif

/* By one key or a trust policy: copy header and envelope into secure memory, and check their
 * form; the verdict on all that is signed; the verdict once more, when all of the head's copy has been used:
 * with the port's other copy of what is trusted, and of memory as it is then. */
GR_INTERNAL enum gr_status gr_copy_envelope(struct loader *l);
GR_INTERNAL enum gr_status gr_judge(struct loader *l);
GR_INTERNAL enum gr_status gr_check_signature_again(struct loader *l);

#endif
