/* SPDX-License-Identifier: BSD-2-Clause */
/* What the check of the envelope and the loader share. */
#ifndef GRAMOPHONE_LOAD_H
#define GRAMOPHONE_LOAD_H

#include "crypto.h"
#include "internal.h"

/* Bytes at the carve-out's end that the port caches: nothing that the GPU reaches may lie there. */
#ifndef GR_CACHED_BYTES
#define GR_CACHED_BYTES 0
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
#define STEP_ACTIONS                                                                                         \
    (GR_STATE_LOADED ^ FIRST_VERDICT ^ SECOND_VERDICT ^ GR_KNOWN_ANSWER ^ REFUSAL ^ STEP_ENVELOPE ^          \
     STEP_HEADER ^ STEP_SECTIONS ^ STEP_MANIFEST ^ STEP_BODY ^ STEP_IDENTITY)

/* Whether a flag is set that brings the head a section; where that lies among those of the head, by its type:
 * the greatest first; sections of the head; the actions' comes next. */
#define GR_HAS(l, flag) (GR_HEAD_FLAGS && (l)->flags & (flag))
#define SECTION_OF(l, type)                                                                                  \
    ((uint32_t)HEAD_SECTIONS + ((type) < GR_SECTION_TYPE_PIECES && GR_HAS(l, GR_STREAMING_FLAG)) +           \
     ((type) < GR_SECTION_TYPE_NETWORKS && GR_HAS(l, GR_NETWORKS_FLAG)) +                                    \
     ((type) < GR_SECTION_TYPE_ENCRYPTION && GR_HAS(l, GR_ENCRYPTION_FLAG)))
#define SECTIONS_IN_HEAD(l) SECTION_OF(l, 0u)
#define OF_HEAD(l, type) section_data(l, SECTION_OF(l, type)), section_bytes(l, SECTION_OF(l, type))
#define ACTIONS(l) SECTIONS_IN_HEAD(l)

struct loader {
    struct gr_replayer *r;
    const struct gr_policy *policy;
    uint64_t trace_bytes;
    uint32_t state; /* becomes the replayer's */
    uint8_t *head;  /* copy of the head in the carve-out */
    uint32_t head_bytes, section_count, flags;
    uint64_t image_bytes;
    struct gr_stream stream;
    GR_LOADER_FIELDS
};

/* Memory for the loader's own use, taken downwards from the carve-out's end, 8-byte aligned; NULL when
 * there is none left. */
GR_INTERNAL void *gr_take_memory(struct loader *l, uint64_t bytes);

/* Copy header, envelope and head into secure memory, check them, verify the signature. */
GR_INTERNAL enum gr_status gr_check_envelope(struct loader *l);

/* GR_KNOWN_ANSWER if the verification works. */
GR_INTERNAL uint32_t gr_known_answer(void);

#endif
