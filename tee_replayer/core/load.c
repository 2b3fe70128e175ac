/* Verify and load: copy a part of the signed trace into secure memory, check it there, then use it. */
#include "crypto.h"
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

/* Sizes are fixed: the envelope has only one encoding (signing/envelope.py). */
enum {
    KID_BYTES = 16,
    PROTECTED_AT = 3,
    PROTECTED_BYTES = 21,
    KID_AT = 8,
    BEHIND_KID = KID_AT + KID_BYTES,
    SIGNATURE_AT = BEHIND_KID + 4,
    ENVELOPE_BYTES = SIGNATURE_AT + 64,
    TRACE_AT = GR_SIGNED_HEADER_BYTES + ((ENVELOPE_BYTES + GR_ALIGNMENT - 1) & ~(GR_ALIGNMENT - 1)),
    START_BYTES = TRACE_AT + GR_HEADER_BYTES,
    HEAD_SECTIONS = 3,
};

/* Each step adds its number to r->state once it is done. Only all of them together, with the verdict on the
 * signature, make GR_STATE_LOADED: who skips a step, or the branch behind it, ends in another state. */
enum step {
    STEP_ENVELOPE = 0x2e704245,
    STEP_HEADER = 0x320a88ea,
    STEP_SECTIONS = 0x1e1b1471,
    STEP_MANIFEST = 0x4350cc17,
    STEP_BODY = 0x6f2c7a8c,
    STEP_IDENTITY = 0x56846325,
};
#define STEP_ACTIONS                                                                                         \
    (GR_STATE_LOADED - GR_SIGNATURE_GOOD - STEP_ENVELOPE - STEP_HEADER - STEP_SECTIONS - STEP_MANIFEST -     \
     STEP_BODY - STEP_IDENTITY)

struct loader {
    struct gr_replayer *r;
    const struct gr_source *source;
    const struct gr_policy *policy;
    _Alignas(8) uint8_t start[START_BYTES]; /* signed header, envelope, padding, the trace's header */
    uint8_t *head;                          /* copy of the head in the carve-out */
    uint8_t *top;                           /* memory from here to the carve-out's end is taken */
    struct gr_header header;
    struct gr_section head_section[HEAD_SECTIONS]; /* manifest, slots, chunk hashes */
    uint64_t image_bytes, action_bytes;
    uint16_t *probabilities;
    struct gr_stream stream;
};

/* Memory for the loader's own use, from the carve-out's end downwards, 8-byte aligned; NULL when there is no
 * more. */
static void *take_memory(struct loader *l, uint64_t bytes)
{
    bytes = (bytes + 7) & ~(uint64_t)7;
    if (bytes > (uint64_t)(l->top - l->r->memory.base))
        return NULL;
    l->top -= bytes;
    return l->top;
}

static bool is_same(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    uint32_t differing = 0;
    for (size_t i = 0; i < bytes; i++)
        differing |= (uint32_t)(a[i] ^ b[i]);
    return differing == 0;
}

static enum gr_status check_envelope(struct loader *l, uint64_t signed_bytes)
{
    static const uint8_t before_kid[KID_AT] = {0xd2, 0x84, 0x55, 0xa2, 0x01, 0x26, 0x04, 0x50};
    static const uint8_t behind_kid[] = {0xa0, 0xf6, 0x58, 0x40};
    if (signed_bytes < START_BYTES)
        return GR_STATUS_SIZE;
    if (!l->source->read(l->source->ctx, 0, l->start, START_BYTES))
        return GR_STATUS_READ;
    struct gr_signed_header header;
    if (!gr_signed_header_load(&header, gr_aligned(l->start), GR_SIGNED_HEADER_BYTES))
        return GR_STATUS_FORMAT;
    if (header.version_major != GR_VERSION_MAJOR || header.version_minor != GR_VERSION_MINOR)
        return GR_STATUS_VERSION;
    const uint8_t *envelope = l->start + GR_SIGNED_HEADER_BYTES;
    if (header.envelope_bytes != ENVELOPE_BYTES || !is_same(envelope, before_kid, KID_AT) ||
        !is_same(envelope + BEHIND_KID, behind_kid, sizeof behind_kid) ||
        !gr_is_zero(envelope + ENVELOPE_BYTES, TRACE_AT - GR_SIGNED_HEADER_BYTES - ENVELOPE_BYTES))
        return GR_STATUS_ENVELOPE;
    if (!is_same(envelope + KID_AT, l->policy->key_id, KID_BYTES))
        return GR_STATUS_KEY;
    if (header.trace_bytes != signed_bytes - TRACE_AT)
        return GR_STATUS_SIZE;
    l->r->state += STEP_ENVELOPE;
    return GR_STATUS_OK;
}

static enum gr_status copy_head(struct loader *l, uint64_t signed_bytes)
{
    struct gr_header *h = &l->header;
    if (!gr_header_load(h, gr_aligned(l->start + TRACE_AT), GR_HEADER_BYTES))
        return GR_STATUS_HEADER;
    if (h->version_major != GR_VERSION_MAJOR || h->version_minor > GR_VERSION_MINOR)
        return GR_STATUS_VERSION;
    if (h->trace_bytes != signed_bytes - TRACE_AT || h->head_bytes > h->trace_bytes)
        return GR_STATUS_SIZE;
    if (h->header_bytes != GR_HEADER_BYTES || h->head_bytes > GR_MAX_HEAD_BYTES ||
        h->head_bytes % GR_ALIGNMENT || h->chunk_bytes < GR_MIN_CHUNK_BYTES ||
        h->chunk_bytes > GR_MAX_CHUNK_BYTES || (h->chunk_bytes & (h->chunk_bytes - 1)) ||
        h->section_count < 3 || h->section_count > GR_MAX_SECTIONS ||
        GR_HEADER_BYTES + h->section_count * GR_SECTION_BYTES > h->head_bytes ||
        h->chunk_count != (h->trace_bytes - h->head_bytes + h->chunk_bytes - 1) / h->chunk_bytes)
        return GR_STATUS_HEADER;
    l->head = take_memory(l, h->head_bytes);
    if (!l->head)
        return GR_STATUS_MEMORY;
    memcpy(l->head, l->start + TRACE_AT, GR_HEADER_BYTES);
    if (!l->source->read(l->source->ctx, START_BYTES, l->head + GR_HEADER_BYTES,
                         h->head_bytes - GR_HEADER_BYTES))
        return GR_STATUS_READ;
    l->r->state += STEP_HEADER;
    return GR_STATUS_OK;
}

/* RFC 9052, 4.4: the signature is over ["Signature1", protected header, h'', payload], in CBOR. */
static enum gr_status check_signature(struct loader *l)
{
    static const uint8_t context[] = {0x84, 0x6a, 'S', 'i', 'g', 'n', 'a', 't', 'u', 'r', 'e', '1'};
    const uint8_t *envelope = l->start + GR_SIGNED_HEADER_BYTES;
    const uint32_t n = l->header.head_bytes;
    /* The empty byte string, then the payload's length in the shortest form; a head has at least 256 bytes.
     */
    const uint8_t short_length[] = {0x40, 0x59, (uint8_t)(n >> 8), (uint8_t)n};
    const uint8_t long_length[] = {0x40,      0x5a, (uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8),
                                   (uint8_t)n};
    struct gr_sha256 hash;
    uint8_t digest[32];
    gr_sha256_init(&hash);
    gr_sha256_update(&hash, context, sizeof context);
    gr_sha256_update(&hash, envelope + PROTECTED_AT - 1, PROTECTED_BYTES + 1);
    if (n < 0x10000)
        gr_sha256_update(&hash, short_length, sizeof short_length);
    else
        gr_sha256_update(&hash, long_length, sizeof long_length);
    gr_sha256_update(&hash, l->head, n);
    gr_sha256_final(&hash, digest);
    const volatile uint32_t verdict = gr_signature_verify(digest, l->policy->key, envelope + SIGNATURE_AT);
    if (verdict != GR_SIGNATURE_GOOD)
        return GR_STATUS_SIGNATURE;
    l->r->state += verdict;
    return GR_STATUS_OK;
}

static bool section_at(const struct loader *l, uint32_t index, struct gr_section *section)
{
    return gr_section_load(section, gr_aligned(l->head + GR_HEADER_BYTES + index * GR_SECTION_BYTES),
                           GR_SECTION_BYTES);
}

/* The section table: the head's three sections, ACTIONS, IMAGE sections, optional ones, without gaps or
 * overlaps. */
static enum gr_status check_sections(struct loader *l)
{
    const uint32_t count = l->header.section_count;
    uint64_t at = GR_HEADER_BYTES + count * GR_SECTION_BYTES;
    uint32_t last = GR_SECTION_TYPE_ACTIONS;
    for (uint32_t i = 0; i < count; i++) {
        struct gr_section s;
        l->r->report.offset = i;
        if (!section_at(l, i, &s) || s.offset != at || s.stored_bytes > l->header.trace_bytes - at ||
            s.raw_bytes > (uint64_t)1 << 32)
            return GR_STATUS_SECTIONS;
        at += (s.stored_bytes + GR_ALIGNMENT - 1) & ~(uint64_t)(GR_ALIGNMENT - 1);
        if (at > l->header.trace_bytes ||
            (s.codec == GR_CODEC_STORED ? s.codec_param || s.raw_bytes != s.stored_bytes
                                        : s.codec != GR_CODEC_LZMA))
            return GR_STATUS_SECTIONS;
        if (i < HEAD_SECTIONS) {
            if (s.type != GR_SECTION_TYPE_MANIFEST + i || s.codec != GR_CODEC_STORED)
                return GR_STATUS_SECTIONS;
            l->head_section[i] = s;
            if (i == HEAD_SECTIONS - 1 && at != l->header.head_bytes)
                return GR_STATUS_SECTIONS;
        } else if (i == HEAD_SECTIONS) {
            if (s.type != GR_SECTION_TYPE_ACTIONS)
                return GR_STATUS_SECTIONS;
            l->action_bytes = s.raw_bytes;
        } else if (s.type == GR_SECTION_TYPE_IMAGE && last <= GR_SECTION_TYPE_IMAGE) {
            l->image_bytes += s.raw_bytes;
            last = GR_SECTION_TYPE_IMAGE;
        } else {
            if (!(s.flags & GR_SECTION_FLAG_OPTIONAL) || s.type <= GR_SECTION_TYPE_IMAGE)
                return GR_STATUS_SECTIONS;
            last = GR_SECTION_TYPE_NOTES;
        }
    }
    const struct gr_section *chunks = &l->head_section[2];
    if (count <= HEAD_SECTIONS || at != l->header.trace_bytes ||
        chunks->stored_bytes != (uint64_t)l->header.chunk_count * 32)
        return GR_STATUS_SECTIONS;
    l->stream.hashes = l->head + chunks->offset;
    l->r->state += STEP_SECTIONS;
    return GR_STATUS_OK;
}

/* Reads only: nothing has been written to the GPU yet. */
static enum gr_status check_identity(struct gr_replayer *r, const struct gr_manifest *m)
{
    const uint32_t revision = gr_port_read32(GR_REVISION_OFFSET) >> GR_REVISION_SHIFT & GR_REVISION_MASK;
    const uint32_t cores = gr_port_read32(GR_CORES_OFFSET) >> GR_CORES_SHIFT & GR_CORES_MASK;
    r->report.expected = m->gpu_id & m->gpu_id_mask;
    r->report.seen = gr_port_read32(GR_ID_OFFSET) & m->gpu_id_mask;
    if (r->report.seen != r->report.expected || revision < m->revision_min || revision > m->revision_max ||
        cores >= 64 || m->core_mask >> cores)
        return GR_STATUS_IDENTITY;
    r->state += STEP_IDENTITY;
    return GR_STATUS_OK;
}

/* The manifest, the slots, and where everything goes in the carve-out. */
static enum gr_status check_manifest(struct loader *l)
{
    struct gr_replayer *r = l->r;
    const struct gr_section *at = &l->head_section[0], *slots = &l->head_section[1];
    struct gr_manifest m;
    if (at->stored_bytes != GR_MANIFEST_BYTES ||
        !gr_manifest_load(&m, gr_aligned(l->head + at->offset), GR_MANIFEST_BYTES))
        return GR_STATUS_MANIFEST;
    if (m.gpu != GR_TARGET_GPU)
        return GR_STATUS_TARGET;
    if (m.profile_id != GR_PROFILE_ID)
        return GR_STATUS_PROFILE;
    if (m.security_version < l->policy->min_security_version)
        return GR_STATUS_ROLLBACK;
    if (m.carveout_bytes == 0 || m.carveout_bytes % GR_PAGE_BYTES || m.carveout_bytes > (uint64_t)1 << 32 ||
        m.va_bytes == 0 || m.va_bytes % GR_PAGE_BYTES || m.va_bytes > (uint64_t)1 << GR_VA_BITS ||
        m.image_bytes > m.carveout_bytes || m.image_bytes != l->image_bytes ||
        m.time_budget_us > (uint64_t)1 << 48 || l->action_bytes != (uint64_t)m.action_count * GR_ACTION_BYTES)
        return GR_STATUS_MANIFEST;
    if (m.slot_count > GR_MAX_SLOTS || slots->stored_bytes != (uint64_t)m.slot_count * GR_SLOT_BYTES)
        return GR_STATUS_SLOTS;

    const uint64_t driver_bytes = gr_driver_bytes(m.va_bytes);
    uint8_t *actions = take_memory(l, l->action_bytes);
    l->stream.chunk = take_memory(l, l->header.chunk_bytes);
    l->probabilities = take_memory(l, GR_LZMA_BYTES);
    if (!actions || !l->stream.chunk || !l->probabilities ||
        m.carveout_bytes + driver_bytes > (uint64_t)(l->top - r->memory.base))
        return GR_STATUS_MEMORY;
    r->actions = actions;
    r->action_count = m.action_count;
    r->slots = l->head + slots->offset;
    r->slot_count = m.slot_count;
    r->retry_limit = m.retry_limit < GR_RETRY_LIMIT ? m.retry_limit : GR_RETRY_LIMIT;
    r->carveout_bytes = m.carveout_bytes;
    r->image_bytes = m.image_bytes;
    r->va_bytes = m.va_bytes;
    r->time_budget_us = m.time_budget_us;
    r->job_count = m.job_count;
    r->mmu.table = (volatile uint32_t *)(void *)(r->memory.base + m.carveout_bytes);
    r->mmu.table_phys = r->memory.phys + m.carveout_bytes;
    r->mmu.scratch_phys = r->mmu.table_phys + driver_bytes - GR_PAGE_BYTES;
    r->low_bytes = m.carveout_bytes + driver_bytes;
    r->report.secure_bytes = r->low_bytes + (uint64_t)(r->memory.base + r->memory.bytes - l->top);
    for (uint32_t i = 0; i < r->slot_count; i++) {
        r->report.offset = i;
        if (gr_check_slot(r, i) != GR_STATUS_OK)
            return GR_STATUS_SLOTS;
    }
    r->state += STEP_MANIFEST;
    return check_identity(r, &m);
}

/* One section of the body, to `out`; NULL passes it over. */
static bool load_section(struct loader *l, const struct gr_section *s, uint8_t *out)
{
    uint64_t left = s->stored_bytes;
    if (out && s->codec == GR_CODEC_LZMA) {
        if (!gr_lzma_decode(&l->stream, &left, out, s->raw_bytes, s->codec_param, l->probabilities))
            return false;
        out = NULL; /* an end marker may follow */
    }
    left += -s->stored_bytes % GR_ALIGNMENT;
    uint64_t room = out ? s->raw_bytes : 0; /* the padding behind it is not copied */
    while (left) {
        const uint8_t *data;
        const uint32_t n = gr_stream_take(&l->stream, room ? room : left, &data);
        if (n == 0)
            return false;
        if (room) {
            memcpy(out, data, n);
            out += n;
            room -= n;
        }
        left -= n;
    }
    return true;
}

static enum gr_status load_body(struct loader *l)
{
    struct gr_replayer *r = l->r;
    struct gr_stream *stream = &l->stream;
    uint8_t *image = r->memory.base;
    stream->source = l->source;
    stream->offset = TRACE_AT + (uint64_t)l->header.head_bytes;
    stream->left = l->header.trace_bytes - l->header.head_bytes;
    stream->chunk_bytes = l->header.chunk_bytes;
    stream->status = GR_STATUS_OK;
    gr_wipe(r->memory.base, r->low_bytes);
    for (uint32_t i = HEAD_SECTIONS; i < l->header.section_count; i++) {
        struct gr_section s;
        if (!section_at(l, i, &s))
            return GR_STATUS_FLOW;
        uint8_t *out = NULL;
        if (s.type == GR_SECTION_TYPE_ACTIONS)
            out = (uint8_t *)(uintptr_t)r->actions;
        if (s.type == GR_SECTION_TYPE_IMAGE) {
            out = image;
            image += s.raw_bytes;
        }
        r->report.offset = i;
        if (!load_section(l, &s, out)) {
            r->report.offset = stream->status == GR_STATUS_OK ? i : stream->index;
            return stream->status == GR_STATUS_OK ? GR_STATUS_CODEC : stream->status;
        }
    }
    if (stream->index != l->header.chunk_count || stream->left || stream->at != stream->end)
        return GR_STATUS_FLOW;
    r->state += STEP_BODY;
    return GR_STATUS_OK;
}

static enum gr_status check_actions(struct gr_replayer *r)
{
    uint32_t jobs = 0;
    bool started = false;
    for (uint32_t i = 0; i < r->action_count; i++) {
        struct gr_action action;
        r->report.action = i;
        if (!gr_action_at(r, i, &action))
            return GR_STATUS_ACTION;
        r->report.op = action.op;
        r->report.offset = gr_action_names(&action);
        const enum gr_status status = gr_check_action(r, &action);
        if (status != GR_STATUS_OK)
            return status;
        if ((action.op == GR_OP_JOB && action.value != jobs++) ||
            (action.op == GR_OP_REPLAY_START && started))
            return GR_STATUS_ACTION;
        if (action.op == GR_OP_REPLAY_START) {
            started = true;
            r->replay_start = i;
        }
    }
    if (jobs != r->job_count)
        return GR_STATUS_MANIFEST;
    r->state += (uint32_t)STEP_ACTIONS;
    return GR_STATUS_OK;
}

static enum gr_status load(struct loader *l, uint64_t signed_bytes)
{
    const uint64_t start = gr_port_now_us();
    enum gr_status status = check_envelope(l, signed_bytes);
    if (status == GR_STATUS_OK)
        status = copy_head(l, signed_bytes);
    if (status == GR_STATUS_OK)
        status = check_signature(l);
    const uint64_t verified = gr_port_now_us();
    if (status == GR_STATUS_OK)
        status = check_sections(l);
    if (status == GR_STATUS_OK)
        status = check_manifest(l);
    if (status == GR_STATUS_OK)
        status = load_body(l);
    if (status == GR_STATUS_OK)
        status = check_actions(l->r);
    if (status == GR_STATUS_OK && l->r->state != GR_STATE_LOADED)
        status = GR_STATUS_FLOW;
    l->r->report.verify_us = verified - start;
    l->r->report.load_us = gr_port_now_us() - verified;
    return status;
}

enum gr_status gr_load(struct gr_replayer *r, const struct gr_memory *memory, const struct gr_source *source,
                       uint64_t signed_bytes, const struct gr_policy *policy)
{
    memset(r, 0, sizeof *r);
    r->report.phase = GR_PHASE_LOAD;
    if ((uintptr_t)memory->base % 8 || memory->phys % GR_PAGE_BYTES || memory->bytes % 8 ||
        memory->bytes > (uint64_t)1 << GR_PA_BITS ||
        memory->phys > ((uint64_t)1 << GR_PA_BITS) - memory->bytes)
        return r->report.status = GR_STATUS_MEMORY;
    struct loader l = {.r = r, .source = source, .policy = policy, .top = memory->base + memory->bytes};
    r->memory = *memory;
    r->report.status = load(&l, signed_bytes);
    r->high = l.top;
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
    const struct gr_report report = r->report;
    if (r->touched)
        gr_driver_reset(r);
    if (r->high) {
        gr_wipe(r->memory.base, r->low_bytes);
        gr_wipe(r->high, (uint64_t)(r->memory.base + r->memory.bytes - r->high));
    }
    gr_wipe(r, sizeof *r);
    r->report = report;
}
