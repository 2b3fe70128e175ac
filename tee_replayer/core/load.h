/* SPDX-License-Identifier: BSD-2-Clause */
/* What the check of the envelope and the loader share. */
#ifndef GRAMOPHONE_LOAD_H
#define GRAMOPHONE_LOAD_H

#include "crypto.h"
#include "internal.h"

/* The longest protected header: under a trust policy, the algorithm may take two bytes more. */
#ifdef GRAMOPHONE_TRUST
#define GR_PROTECTED_BYTES 24
#else
#define GR_PROTECTED_BYTES 22
#endif

/* Sizes are fixed: the envelope has only one encoding, which is the one that traces are signed with. */
enum {
    KID_BYTES = 16,
    ENVELOPE_AT = GR_SIGNED_HEADER_BYTES,
    PROTECTED_AT = ENVELOPE_AT + 2,
    PROTECTED_BYTES = 22,
    LONGEST_PROTECTED_BYTES = GR_PROTECTED_BYTES,
    KID_AT = ENVELOPE_AT + 8,
    BEHIND_KID = KID_AT + KID_BYTES,
    SIGNATURE_AT = BEHIND_KID + 4,
    ENVELOPE_END = SIGNATURE_AT + 64,
    TRACE_AT = (ENVELOPE_END + GR_ALIGNMENT - 1) & ~(GR_ALIGNMENT - 1),
    START_BYTES = TRACE_AT + GR_HEADER_BYTES,
    HEAD_SECTIONS = 3,
    MANIFEST = 0, /* their order */
    SLOTS = 1,
    CHUNKS = 2,
    CONTEXT_BYTES = 12,
    LENGTH_MAX_BYTES = 6, /* h'', and how long the payload is */
    BEFORE_HEAD_BYTES =
        (CONTEXT_BYTES + LONGEST_PROTECTED_BYTES + LENGTH_MAX_BYTES + GR_ALIGNMENT - 1) & ~(GR_ALIGNMENT - 1),
};

/* What the two verifications of the signature answer when it is good: far apart, and no values that a skipped
 * call would leave. */
#define FIRST_VERDICT 0x627bf322u
#define SECOND_VERDICT 0xb1a69d54u

/* Each step changes `state` once it is done. Only all of them together, with both verdicts on the signature
 * and the known answer, make GR_STATE_LOADED: an attacker who skips a step, or the branch after it, ends in
 * another state. */
enum step {
    STEP_ENVELOPE = 0x0007ffe0,
    STEP_HEADER = 0x3c3c3c3c,
    STEP_SECTIONS = 0x01ff01ff,
    STEP_MANIFEST = 0x0ffe0ffe,
    STEP_BODY = 0x00007fff,
    STEP_IDENTITY = 0x70707070,
};
#ifdef GRAMOPHONE_TRUST
#define REFUSAL (GR_KNOWN_VERDICT ^ GR_BAD_VERDICT) /* of a trust policy's judge */
#else
#define REFUSAL 0
#endif
#define STEP_ACTIONS                                                                                         \
    (GR_STATE_LOADED ^ FIRST_VERDICT ^ SECOND_VERDICT ^ GR_KNOWN_ANSWER ^ REFUSAL ^ STEP_ENVELOPE ^          \
     STEP_HEADER ^ STEP_SECTIONS ^ STEP_MANIFEST ^ STEP_BODY ^ STEP_IDENTITY)

/* Where the trace starts in the file, and where its header lies in `start`. */
#ifdef GRAMOPHONE_TRUST
#define TRACE_START(l) ((l)->trace_at)
#define HEADER_AT(l) GR_SIGNED_HEADER_BYTES
#else
#define TRACE_START(l) ((uint32_t)TRACE_AT)
#define HEADER_AT(l) TRACE_AT
#endif

/* Sections of the head, of which a fourth says who can read the body, or what networks there are; the
 * actions' comes next. */
#ifdef GRAMOPHONE_ENCRYPTION
#define IS_ENCRYPTED(l) ((l)->is_encrypted)
#else
#define IS_ENCRYPTED(l) 0u
#endif
#ifdef GRAMOPHONE_NETWORKS
#define IS_JOINT(l) ((l)->is_joint)
#else
#define IS_JOINT(l) 0u
#endif
#define SECTIONS_IN_HEAD(l) (HEAD_SECTIONS + IS_ENCRYPTED(l) + IS_JOINT(l)) /* not both */
#define ACTIONS(l) SECTIONS_IN_HEAD(l)

struct loader {
    struct gr_replayer *r;
    const struct gr_policy *policy;
    uint64_t trace_bytes;
    uint32_t state; /* becomes the replayer's */
    uint8_t *head;  /* copy of the head in the carve-out */
    uint32_t head_bytes, section_count;
    uint64_t image_bytes;
    struct gr_stream stream;
#ifdef GRAMOPHONE_ENCRYPTION
    uint32_t is_encrypted; /* 0 or 1 */
    struct gr_cipher cipher;
#endif
#ifdef GRAMOPHONE_NETWORKS
    uint32_t is_joint; /* 0 or 1 */
#endif
#ifdef GRAMOPHONE_TRUST
    const uint8_t *envelope; /* copy of all signatures and policies */
    uint32_t envelope_bytes, trace_at;
    uint8_t *policies[2]; /* room for the policy that counts and the next one */
    void *workspace;      /* for ML-DSA */
    bool has_signed_weights;
    _Alignas(
        8) uint8_t start[GR_SIGNED_HEADER_BYTES + GR_HEADER_BYTES]; /* signed header, the trace's header */
#else
    _Alignas(8) uint8_t start[START_BYTES]; /* signed header, envelope, padding, the trace's header */
#endif
};

/* Memory for the loader's own use, taken downwards from the carve-out's end, 8-byte aligned; NULL when
 * there is none left. */
GR_INTERNAL void *gr_take_memory(struct loader *l, uint64_t bytes);

#ifdef GRAMOPHONE_TRUST
/* Copy header and envelope into secure memory, and check their form; the verdict on all that is signed;
 * whether the rule allows weights that callers give, once the slots are known. */
GR_INTERNAL enum gr_status gr_copy_envelope(struct loader *l);
GR_INTERNAL enum gr_status gr_judge(struct loader *l);
GR_INTERNAL enum gr_status gr_check_weights(const struct loader *l);
#endif

#ifdef GRAMOPHONE_ENCRYPTION
/* Have the stream decrypt the body, by a key that the message in the head, which lies in `bytes` bytes, has
 * for one of the device's. Only called once the signature has been found good. */
GR_INTERNAL enum gr_status gr_open_body(struct loader *l, const uint8_t *message, uint64_t bytes);
#endif

#ifdef GRAMOPHONE_NETWORKS
/* Take the networks from their section's rows, of `bytes` bytes; NULL: there is no section, and one network.
 */
GR_INTERNAL enum gr_status gr_take_networks(struct gr_replayer *r, const uint8_t *rows, uint64_t bytes);
/* Check each network's actions, by what is its own; then take room behind *low_bytes for what the driver
 * needs. */
GR_INTERNAL enum gr_status gr_check_networks(struct gr_replayer *r, uint64_t *low_bytes);
/* What of the networks is not as the section says, or breaks its rules, read anew: zero. */
GR_INTERNAL uint64_t gr_network_differences(const struct gr_replayer *r);
#endif

/* Copy header, envelope and head into secure memory, check them, verify the signature. */
GR_INTERNAL enum gr_status gr_check_envelope(struct loader *l);

/* GR_KNOWN_ANSWER if the verification works. */
GR_INTERNAL uint32_t gr_known_answer(void);

/* Verify the signature of the head's copy once more, when all of it has been used: with the port's other copy
 * of the key, and of memory as it is then. */
GR_INTERNAL enum gr_status gr_check_signature_again(struct loader *l);

#endif
