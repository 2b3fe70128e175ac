/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verify and load: copy a part of the signed trace into secure memory, check it there, then use it.
 *
 * All rules of the format are checked, but for these, which only name something: the trace's id, the encoding
 * of texts, and what lies in optional sections. The signer's program checks them, and the signature covers
 * them.
 */
#include "crypto.h"
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

/* Sizes are fixed: the envelope has only one encoding (signing/envelope.py). */
enum {
    KID_BYTES = 16,
    ENVELOPE_AT = GR_SIGNED_HEADER_BYTES,
    PROTECTED_AT = ENVELOPE_AT + 2,
    PROTECTED_BYTES = 22,
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
    ACTIONS = 3,
    CONTEXT_BYTES = 12,
    LENGTH_MAX_BYTES = 6, /* h'', and how long the payload is */
    BEFORE_HEAD_BYTES =
        (CONTEXT_BYTES + PROTECTED_BYTES + LENGTH_MAX_BYTES + GR_ALIGNMENT - 1) & ~(GR_ALIGNMENT - 1),
};

/* What the two verifications of the signature answer when it is good: far apart, and no values that a skipped
 * call would leave. */
#define FIRST_VERDICT 0x627bf322u
#define SECOND_VERDICT 0xb1a69d54u

/* Each step changes `state` once it is done. Only all of them together, with both verdicts on the signature,
 * make GR_STATE_LOADED: an attacker who skips a step, or the branch after it, ends in another state. */
enum step {
    STEP_ENVELOPE = 0x0007ffe0,
    STEP_HEADER = 0x3c3c3c3c,
    STEP_SECTIONS = 0x01ff01ff,
    STEP_MANIFEST = 0x0ffe0ffe,
    STEP_BODY = 0x00007fff,
    STEP_IDENTITY = 0x70707070,
};
#define STEP_ACTIONS                                                                                         \
    (GR_STATE_LOADED ^ FIRST_VERDICT ^ SECOND_VERDICT ^ STEP_ENVELOPE ^ STEP_HEADER ^ STEP_SECTIONS ^        \
     STEP_MANIFEST ^ STEP_BODY ^ STEP_IDENTITY)

struct loader {
    struct gr_replayer *r;
    const struct gr_source *source;
    const struct gr_policy *policy;
    uint64_t trace_bytes;
    uint32_t state; /* becomes the replayer's */
    uint8_t *head;  /* copy of the head in the carve-out */
    uint32_t head_bytes, section_count;
    uint64_t image_bytes;
    struct gr_stream stream;
    _Alignas(8) uint8_t start[START_BYTES]; /* signed header, envelope, padding, the trace's header */
};

/* Memory for the loader's own use, taken downwards from the carve-out's end, 8-byte aligned; NULL when
 * there is none left. */
static void *take_memory(struct loader *l, uint64_t bytes)
{
    bytes = (bytes + 7) & ~(uint64_t)7;
    if (bytes > (uint64_t)(l->r->high - l->r->memory.base))
        return NULL;
    l->r->high -= bytes;
    return l->r->high;
}

/* What the signed header and the envelope must be, up to the signature, except for sizes and key id. */
/* clang-format off */
static const uint8_t expected[SIGNATURE_AT] = {
    0x89, 'G', 'S', 'G', '\r', '\n', 0x1a, '\n', /* GR_SIGNED_HEADER_MAGIC */
    GR_VERSION_MAJOR, 0, GR_VERSION_MINOR, 0,
    ENVELOPE_END - ENVELOPE_AT, 0, 0, 0,
    [ENVELOPE_AT] = 0xd2, 0x84, /* COSE_Sign1 (tag 18), array of 4: */
    0x55, 0xa2, 0x01, 0x26, 0x04, 0x50, /* byte string of {1: ES256, 4: key id} */
    [BEHIND_KID] = 0xa0, 0xf6, 0x58, 0x40, /* {}, nil, byte string of 64 */
};
/* clang-format on */

static bool is_expected(const struct loader *l, uint32_t from, uint32_t to)
{
    return gr_is_same(l->start + from, expected + from, to - from);
}

/* Whether s, of the signature (r, s), is at most half of the group's order (SEC 2, 2.4.2): (r, n - s) is as
 * good, and a trace has one signed file. */
static bool is_low(const uint8_t s[32])
{
    static const uint8_t half[32] = {
        0x7f, 0xff, 0xff, 0xff, 0x80, 0x00, 0x00, 0x00, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        0xde, 0x73, 0x7d, 0x56, 0xd3, 0x8b, 0xcf, 0x42, 0x79, 0xdc, 0xe5, 0x61, 0x7e, 0x31, 0x92, 0xa8,
    };
    uint32_t i = 0;
    while (i < sizeof half - 1 && s[i] == half[i])
        i++;
    return s[i] <= half[i];
}

static enum gr_status check_envelope(struct loader *l)
{
    if (!l->source->read(l->source->ctx, 0, l->start, START_BYTES))
        return GR_STATUS_READ;
    if (!is_expected(l, 0, GR_SIGNED_HEADER_AT_TRACE_BYTES))
        return GR_STATUS_FORMAT;
    if (!is_expected(l, GR_SIGNED_HEADER_AT_RESERVED, KID_AT) || !is_expected(l, BEHIND_KID, SIGNATURE_AT) ||
        gr_load32(gr_aligned(l->start + TRACE_AT - GR_ALIGNMENT) + GR_ALIGNMENT -
                  (TRACE_AT - ENVELOPE_END)) ||
        !is_low(l->start + SIGNATURE_AT + 32))
        return GR_STATUS_ENVELOPE;
    if (!gr_is_same(l->start + KID_AT, l->policy->key_id, KID_BYTES))
        return GR_STATUS_KEY;
    if (gr_load64(gr_aligned(l->start) + GR_SIGNED_HEADER_AT_TRACE_BYTES) != l->trace_bytes)
        return GR_STATUS_SIZE;
    l->state ^= STEP_ENVELOPE;
    return GR_STATUS_OK;
}

static enum gr_status copy_head(struct loader *l)
{
    /* clang-format off */
    static const uint8_t expected_start[GR_HEADER_AT_TRACE_BYTES] = {
        0x89, 'G', 'T', 'R', '\r', '\n', 0x1a, '\n', /* GR_HEADER_MAGIC */
        GR_VERSION_MAJOR, 0, GR_VERSION_MINOR, 0,
        GR_HEADER_BYTES, 0, 0, 0,
    };
    /* clang-format on */
    const uint8_t *header = gr_aligned(l->start + TRACE_AT);
    if (!gr_is_same(header, expected_start, sizeof expected_start))
        return GR_STATUS_HEADER;
    const uint32_t chunk_bytes = gr_load32(header + GR_HEADER_AT_CHUNK_BYTES),
                   flags = gr_load16(header + GR_HEADER_AT_FLAGS);
    l->head_bytes = gr_load32(header + GR_HEADER_AT_HEAD_BYTES);
    l->section_count = gr_load16(header + GR_HEADER_AT_SECTION_COUNT);
    l->stream.chunk_bytes = chunk_bytes;
    l->stream.left = l->trace_bytes - l->head_bytes;
    if (l->head_bytes > GR_MAX_HEAD_BYTES || l->head_bytes > l->trace_bytes || l->head_bytes % GR_ALIGNMENT ||
        chunk_bytes < GR_MIN_CHUNK_BYTES || chunk_bytes > GR_MAX_CHUNK_BYTES ||
        chunk_bytes & (chunk_bytes - 1) || l->section_count <= HEAD_SECTIONS ||
        l->section_count > GR_MAX_SECTIONS || flags & ~GR_HEADER_FLAG_RAW ||
        gr_load64(header + GR_HEADER_AT_TRACE_BYTES) != l->trace_bytes ||
        gr_load32(header + GR_HEADER_AT_CHUNK_COUNT) != (l->stream.left + chunk_bytes - 1) / chunk_bytes ||
        !gr_is_zero(header + GR_HEADER_AT_RESERVED, GR_HEADER_BYTES - GR_HEADER_AT_RESERVED) ||
        GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES > l->head_bytes)
        return GR_STATUS_HEADER;
    uint8_t *memory = take_memory(l, BEFORE_HEAD_BYTES + l->head_bytes);
    if (!memory)
        return GR_STATUS_MEMORY;
    l->head = memory + BEFORE_HEAD_BYTES;
    memcpy(l->head, header, GR_HEADER_BYTES);
    if (!l->source->read(l->source->ctx, START_BYTES, l->head + GR_HEADER_BYTES,
                         l->head_bytes - GR_HEADER_BYTES))
        return GR_STATUS_READ;
    l->state ^= STEP_HEADER;
    return GR_STATUS_OK;
}

/* From all that is signed to a verdict; called twice, since one call can be made to say anything by one
 * fault. RFC 9052, 4.4: the signature is over ["Signature1", protected header, h'', payload], in CBOR. All
 * that precedes the payload is put in front of the head's copy. */
GR_NOINLINE static enum gr_status check_signature(struct loader *l, uint32_t good)
{
    static const uint8_t context[CONTEXT_BYTES] = {0x84, 0x6a, 'S', 'i', 'g', 'n',
                                                   'a',  't',  'u', 'r', 'e', '1'};
    const uint32_t size = l->head_bytes; /* more than 255: CBOR says it in 16 bits, or else in 32 */
    uint8_t *to_be_signed = l->head, digest[32];
    *--to_be_signed = (uint8_t)size;
    *--to_be_signed = (uint8_t)(size >> 8);
    if (size > 0xffff) {
        *--to_be_signed = (uint8_t)(size >> 16);
        *--to_be_signed = (uint8_t)(size >> 24);
    }
    *--to_be_signed = size > 0xffff ? 0x5a : 0x59;
    *--to_be_signed = 0x40; /* no bytes */
    to_be_signed -= PROTECTED_BYTES;
    memcpy(to_be_signed, l->start + PROTECTED_AT, PROTECTED_BYTES);
    to_be_signed -= sizeof context;
    memcpy(to_be_signed, context, sizeof context);
    if (!gr_sha256(to_be_signed, (uint32_t)(l->head - to_be_signed) + size, digest))
        return GR_STATUS_MEMORY;
    const volatile uint32_t verdict =
        gr_signature_verify(digest, l->policy->key, l->start + SIGNATURE_AT, good);
    if (verdict != good)
        return GR_STATUS_SIGNATURE;
    l->state ^= verdict;
    return GR_STATUS_OK;
}

GR_INLINE const uint8_t *section_at(const struct loader *l, uint32_t index)
{
    return l->head + GR_HEADER_BYTES + index * GR_SECTION_BYTES;
}

/* Where a section of the head lies; size of any section, decoded. */
GR_INLINE const uint8_t *section_data(const struct loader *l, uint32_t index)
{
    return l->head + gr_load64(gr_aligned(section_at(l, index)) + GR_SECTION_AT_OFFSET);
}

GR_INLINE uint64_t section_bytes(const struct loader *l, uint32_t index)
{
    return gr_load64(gr_aligned(section_at(l, index)) + GR_SECTION_AT_RAW_BYTES);
}

GR_INLINE uint64_t stored_bytes(const struct loader *l, uint32_t index)
{
    return gr_load64(gr_aligned(section_at(l, index)) + GR_SECTION_AT_STORED_BYTES);
}

/* Whether a section of this type, with these flags, may follow `i` others, the one before of type `before`.
 * The order: the head's three, ACTIONS, IMAGE sections, optional ones. */
static bool is_in_order(uint32_t i, uint32_t type, uint32_t flags, uint32_t before)
{
    static const uint8_t first[] = {GR_SECTION_TYPE_MANIFEST, GR_SECTION_TYPE_SLOTS, GR_SECTION_TYPE_CHUNKS,
                                    GR_SECTION_TYPE_ACTIONS};
    if (i < sizeof first)
        return type == first[i] && flags == 0;
    if (type == GR_SECTION_TYPE_IMAGE)
        return flags == 0 && (before == GR_SECTION_TYPE_ACTIONS || before == GR_SECTION_TYPE_IMAGE);
    return flags == GR_SECTION_FLAG_OPTIONAL && type - GR_SECTION_TYPE_MANIFEST > 2 &&
           type != GR_SECTION_TYPE_ACTIONS;
}

/* The section table: sections in their order, without gaps or overlaps. */
static enum gr_status check_sections(struct loader *l)
{
    uint64_t at = GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES;
    uint32_t before = 0, notes = 0;
    for (uint32_t i = 0; i < l->section_count; i++) {
        const uint8_t *s = gr_aligned(section_at(l, i));
        const uint32_t type = gr_load16(s + GR_SECTION_AT_TYPE), codec = s[GR_SECTION_AT_CODEC];
        const uint64_t stored = gr_load64(s + GR_SECTION_AT_STORED_BYTES),
                       raw = gr_load64(s + GR_SECTION_AT_RAW_BYTES);
        l->r->report.offset = i;
        if (gr_load64(s + GR_SECTION_AT_OFFSET) != at || stored > l->trace_bytes - at ||
            raw > (uint64_t)1 << 32 ||
            (codec == GR_CODEC_STORED ? raw != stored
                                      : codec != GR_CODEC_LZ4 || i == MANIFEST || i == CHUNKS) ||
            !is_in_order(i, type, gr_load16(s + GR_SECTION_AT_FLAGS), before) ||
            !gr_is_zero(s + GR_SECTION_AT_RESERVED, GR_SECTION_AT_OFFSET - GR_SECTION_AT_RESERVED))
            return GR_STATUS_SECTIONS;
        before = type;
        notes += type == GR_SECTION_TYPE_NOTES;
        if (type == GR_SECTION_TYPE_IMAGE)
            l->image_bytes += raw;
        const uint64_t end = at + stored;
        at = (end + GR_ALIGNMENT - 1) & ~(uint64_t)(GR_ALIGNMENT - 1);
        if (at > (i < HEAD_SECTIONS ? l->head_bytes : l->trace_bytes) ||
            (i < HEAD_SECTIONS && !gr_is_zero(l->head + end, (uint32_t)(at - end))))
            return GR_STATUS_SECTIONS;
    }
    /* The body begins where the head ends, so the first chunk begins there too; each chunk has its hash. */
    if (at != l->trace_bytes || notes > 1 || section_bytes(l, SLOTS) % GR_SLOT_BYTES ||
        section_bytes(l, ACTIONS) % GR_ACTION_BYTES ||
        gr_load64(gr_aligned(section_at(l, ACTIONS)) + GR_SECTION_AT_OFFSET) != l->head_bytes ||
        section_bytes(l, MANIFEST) != GR_MANIFEST_BYTES ||
        section_bytes(l, CHUNKS) != gr_load32(gr_aligned(l->head) + GR_HEADER_AT_CHUNK_COUNT) * UINT64_C(32))
        return GR_STATUS_SECTIONS;
    l->stream.hashes = section_data(l, CHUNKS);
    l->state ^= STEP_SECTIONS;
    return GR_STATUS_OK;
}

/* Reads only: nothing has been written to the GPU yet. */
static enum gr_status check_identity(struct loader *l, const uint8_t *m)
{
    struct gr_replayer *r = l->r;
    m = gr_aligned(m);
    const uint32_t mask = gr_load32(m + GR_MANIFEST_AT_GPU_ID_MASK);
    const uint32_t revision = gr_port_read32(GR_REVISION_OFFSET) >> GR_REVISION_SHIFT & GR_REVISION_MASK;
    const uint32_t cores = gr_port_read32(GR_CORES_OFFSET) >> GR_CORES_SHIFT & GR_CORES_MASK;
    r->report.expected = gr_load32(m + GR_MANIFEST_AT_GPU_ID) & mask;
    r->report.seen = gr_port_read32(GR_ID_OFFSET) & mask;
    if (r->report.seen != r->report.expected || revision < gr_load32(m + GR_MANIFEST_AT_REVISION_MIN) ||
        revision > gr_load32(m + GR_MANIFEST_AT_REVISION_MAX) ||
        gr_load64(m + GR_MANIFEST_AT_CORE_MASK) & ~GR_CORES_TO_MASK(cores))
        return GR_STATUS_IDENTITY;
    l->state ^= STEP_IDENTITY;
    return GR_STATUS_OK;
}

/* Copy what is left of the section, or skip it. */
static void take_rest(struct gr_stream *s, uint8_t *out)
{
    while (s->section) {
        const uint32_t n = gr_stream_ready(s);
        if (n == 0)
            return;
        if (out) {
            memcpy(out, s->at, n);
            out += n;
        }
        s->at += n;
        s->section -= n;
    }
}

/* The next section of the stream, decoded to `out`, or skipped. */
static void take_section(const struct loader *l, struct gr_stream *s, uint32_t index, uint8_t *out)
{
    s->section = stored_bytes(l, index);
    if (out && gr_aligned(section_at(l, index))[GR_SECTION_AT_CODEC] == GR_CODEC_LZ4)
        gr_lz4_decode(s, out, section_bytes(l, index));
    else
        take_rest(s, out);
}

/* Memory, read by an access of its own: the compiler takes no earlier value for it. */
static uint32_t fresh32(const void *p)
{
    return *(const volatile uint32_t *)p;
}

static uint64_t fresh64(const void *p)
{
    return *(const volatile uint64_t *)p;
}

/* What is so only if the manifest is for this device, and the replayer's fields are what it says: zero. Asked
 * twice: once for a reason, and once, after all else, for the state, which takes it as it is, so that there
 * is no branch to skip. */
GR_NOINLINE static uint64_t differences(const struct loader *l)
{
    const struct gr_replayer *r = l->r;
    const uint8_t *m = gr_aligned(r->manifest);
    const uint64_t image_bytes = fresh64(m + GR_MANIFEST_AT_IMAGE_BYTES);
    const uint64_t older =
        (uint64_t)fresh32(m + GR_MANIFEST_AT_SECURITY_VERSION) - fresh32(&l->policy->min_security_version);
    return older >> 32 | (fresh32(m + GR_MANIFEST_AT_GPU) ^ GR_TARGET_GPU) |
           (fresh64(m + GR_MANIFEST_AT_PROFILE_ID) ^ GR_PROFILE_ID) |
           (fresh32(m + GR_MANIFEST_AT_GPU_ID) ^ GR_ID_VALUE) |
           (fresh32(m + GR_MANIFEST_AT_GPU_ID_MASK) ^ GR_ID_MASK) |
           (fresh32(m + GR_MANIFEST_AT_ACTION_COUNT) ^ fresh32(&r->action_count)) |
           (fresh32(m + GR_MANIFEST_AT_SLOT_COUNT) ^ fresh32(&r->slot_count)) |
           (image_bytes ^ fresh64(&l->image_bytes)) | (r->image_end - image_bytes) / GR_PAGE_BYTES |
           r->image_end % GR_PAGE_BYTES;
}

/* The manifest, the slots, and where everything goes in the carve-out. */
static enum gr_status check_manifest(struct loader *l)
{
    struct gr_replayer *r = l->r;
    const uint8_t *m = gr_aligned(section_data(l, MANIFEST));
    if (gr_load32(m + GR_MANIFEST_AT_GPU) != GR_TARGET_GPU)
        return GR_STATUS_TARGET;
    if (gr_load64(m + GR_MANIFEST_AT_PROFILE_ID) != GR_PROFILE_ID)
        return GR_STATUS_PROFILE;
    if (gr_load32(m + GR_MANIFEST_AT_SECURITY_VERSION) < l->policy->min_security_version)
        return GR_STATUS_ROLLBACK;
    r->manifest = m;
    r->carveout_bytes = gr_load64(m + GR_MANIFEST_AT_CARVEOUT_BYTES);
    r->image_bytes = l->image_bytes;
    r->va_bytes = gr_load64(m + GR_MANIFEST_AT_VA_BYTES);
    r->time_budget_us = gr_load64(m + GR_MANIFEST_AT_TIME_BUDGET_US);
    r->retry_limit = gr_load32(m + GR_MANIFEST_AT_RETRY_LIMIT);
    r->action_count = (uint32_t)(section_bytes(l, ACTIONS) / GR_ACTION_BYTES);
    r->slot_count = (uint32_t)(section_bytes(l, SLOTS) / GR_SLOT_BYTES);
    r->image_end = (r->image_bytes + GR_PAGE_BYTES - 1) & ~(uint64_t)(GR_PAGE_BYTES - 1);
    /* One less: zero is too small. */
    if (r->carveout_bytes - 1 >= GR_MAX_CARVEOUT_BYTES || r->va_bytes - 1 >= (uint64_t)1 << GR_VA_BITS ||
        (r->carveout_bytes | r->va_bytes) % GR_PAGE_BYTES || r->image_bytes > r->carveout_bytes ||
        differences(l) || r->time_budget_us > GR_MAX_TIME_BUDGET_US ||
        !gr_is_zero(m + GR_MANIFEST_AT_RESERVED, GR_MANIFEST_BYTES - GR_MANIFEST_AT_RESERVED))
        return GR_STATUS_MANIFEST;
    if (r->slot_count > GR_MAX_SLOTS)
        return GR_STATUS_SLOTS;

    /* Actions, slots, chunk. */
    const uint64_t action_bytes = (uint64_t)r->action_count * GR_ACTION_BYTES;
    const uint32_t slot_bytes = r->slot_count * GR_SLOT_BYTES;
    uint8_t *memory = take_memory(l, action_bytes + slot_bytes + l->stream.chunk_bytes);
    if (!memory || r->carveout_bytes > (uint64_t)(memory - r->memory.base))
        return GR_STATUS_MEMORY;
    r->low_bytes = r->carveout_bytes;
    r->actions = memory;
    memory += action_bytes;
    r->slots = memory;
    l->stream.chunk = memory + slot_bytes;
    struct gr_stream stream = {.at = section_data(l, SLOTS), .status = GR_STATUS_OK};
    stream.end = stream.at + stored_bytes(l, SLOTS);
    take_section(l, &stream, SLOTS, memory);
    if (stream.status != GR_STATUS_OK)
        return stream.status;
    for (uint32_t i = 0; i < r->slot_count; i++) {
        r->report.offset = i;
        if (!gr_slot_is_valid(r, i))
            return GR_STATUS_SLOTS;
    }
    l->state ^= STEP_MANIFEST;
    return check_identity(l, m);
}

static enum gr_status load_body(struct loader *l)
{
    struct gr_replayer *r = l->r;
    struct gr_stream *stream = &l->stream;
    uint8_t *image = r->memory.base;
    stream->source = l->source;
    stream->offset = TRACE_AT + (uint64_t)l->head_bytes;
    stream->status = GR_STATUS_OK;
    gr_wipe(image, r->image_end); /* the prologue wipes what lies after it */
    for (uint32_t i = HEAD_SECTIONS; i < l->section_count; i++) {
        const uint8_t *s = gr_aligned(section_at(l, i));
        const uint32_t type = gr_load16(s + GR_SECTION_AT_TYPE);
        uint8_t *out = NULL; /* optional sections are skipped */
        if (i == ACTIONS)
            out = (uint8_t *)(uintptr_t)r->actions;
        if (type == GR_SECTION_TYPE_IMAGE) {
            out = image;
            image += section_bytes(l, i);
        }
        take_section(l, stream, i, out);
        uint64_t padding = 0;
        stream->section = -stored_bytes(l, i) % GR_ALIGNMENT;
        take_rest(stream, (uint8_t *)&padding);
        if (padding && stream->status == GR_STATUS_OK)
            stream->status = GR_STATUS_SECTIONS;
        r->report.offset = stream->index;
        if (stream->status != GR_STATUS_OK)
            return stream->status;
    }
    if (stream->left || stream->at != stream->end)
        return GR_STATUS_FLOW;
    l->state ^= STEP_BODY;
    return GR_STATUS_OK;
}

static enum gr_status check_actions(struct loader *l)
{
    struct gr_replayer *r = l->r;
    uint32_t jobs = 0, starts = 0;
    for (uint32_t i = 0; i < r->action_count; i++) {
        struct gr_action action;
        const enum gr_status status = gr_fetch_action(r, i, &action);
        if (status != GR_STATUS_OK)
            return status;
        if (action.op == GR_OP_JOB && action.value != jobs++)
            return GR_STATUS_ACTION;
        if (action.op == GR_OP_REPLAY_START) {
            r->replay_start = i;
            if (starts++)
                return GR_STATUS_ACTION;
        }
    }
    if (jobs != gr_load32(gr_aligned(r->manifest) + GR_MANIFEST_AT_JOB_COUNT))
        return GR_STATUS_MANIFEST;
    const uint64_t low_bytes = r->low_bytes + gr_driver_bytes(r);
    if (low_bytes > (uint64_t)(r->high - r->memory.base))
        return GR_STATUS_MEMORY;
    r->low_bytes = low_bytes;
    r->report.secure_bytes = low_bytes + (uint64_t)(r->memory.base + r->memory.bytes - r->high);
    l->state ^= STEP_ACTIONS;
    return GR_STATUS_OK;
}

static enum gr_status load(struct loader *l)
{
    const uint64_t start = gr_port_now_us();
    l->stream.deadline_us = start + GR_MAX_TIME_BUDGET_US;
    enum gr_status status = check_envelope(l);
    if (status == GR_STATUS_OK)
        status = copy_head(l);
    if (status == GR_STATUS_OK)
        status = check_signature(l, FIRST_VERDICT);
    if (status == GR_STATUS_OK)
        status = check_signature(l, SECOND_VERDICT);
    const uint64_t verified = gr_port_now_us();
    if (status == GR_STATUS_OK)
        status = check_sections(l);
    if (status == GR_STATUS_OK)
        status = check_manifest(l);
    if (status == GR_STATUS_OK)
        status = load_body(l);
    if (status == GR_STATUS_OK)
        status = check_actions(l);
    if (status == GR_STATUS_OK) {
        const uint64_t differing = differences(l);
        l->state ^= (uint32_t)(differing | differing >> 32) |
                    ((gr_port_read32(GR_ID_OFFSET) ^ GR_ID_VALUE) & GR_ID_MASK);
    }
    if (status == GR_STATUS_OK && l->state != GR_STATE_LOADED)
        status = GR_STATUS_FLOW;
    l->r->state = l->state;
    l->r->report.verify_us = verified - start;
    l->r->report.load_us = gr_port_now_us() - verified;
    return status;
}

GR_NOINLINE enum gr_status gr_load(struct gr_replayer *r, const struct gr_memory *memory,
                                   const struct gr_source *source, uint64_t signed_bytes,
                                   const struct gr_policy *policy)
{
    memset(r, 0, sizeof *r);
    r->report.status = GR_STATUS_FLOW; /* until there is another */
    r->report.phase = GR_PHASE_LOAD;
    if ((uintptr_t)memory->base % 8 || memory->phys % GR_PAGE_BYTES || memory->bytes % 8 ||
        memory->bytes > (uint64_t)1 << GR_PA_BITS ||
        memory->phys > ((uint64_t)1 << GR_PA_BITS) - memory->bytes)
        return r->report.status = GR_STATUS_MEMORY;
    r->memory = *memory;
    r->high = memory->base + memory->bytes;
    struct loader l;
    memset(&l, 0, sizeof l);
    l.r = r;
    l.source = source;
    l.policy = policy;
    l.trace_bytes = signed_bytes - TRACE_AT;
    r->report.status = load(&l);
    if (r->report.status != GR_STATUS_OK)
        gr_unload(r);
    return r->report.status;
}

void gr_wipe(void *to, uint64_t bytes)
{
    volatile uint64_t *word = to;
    for (uint64_t i = 0; i < bytes / 8; i++)
        word[i] = 0;
}

void gr_unload(struct gr_replayer *r)
{
    if (r->touched)
        gr_driver_reset(r);
    gr_wipe(r->memory.base, r->low_bytes);
    gr_wipe(r->high, (uint64_t)(r->memory.base + r->memory.bytes - r->high));
    gr_wipe(&r->memory, sizeof *r - offsetof(struct gr_replayer, memory));
}
