/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verify and load: copy a part of the signed trace into secure memory, check it there, then use it.
 *
 * All rules of the format are checked, but for these, which only name something: the trace's id, the encoding
 * of texts, and what lies in optional sections. The signer's program checks them, and the signature covers
 * them.
 */
#include "load.h"
#include "driver.h"
#include "gr_target.h"

/* Sections that are only read as they are. */
#define IS_STORED(l, i) ((i) == MANIFEST || ((i) >= CHUNKS && (i) < SECTIONS_IN_HEAD(l)))

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

/* Whether a section of this type, with these flags, may follow `i` others, the one before with the flags
 * `before`. The order: the head's three, those that flags bring, ACTIONS, IMAGE sections, optional ones. */
static bool is_in_order(const struct loader *l, uint32_t i, uint32_t type, uint32_t flags, uint32_t before)
{
    const uint32_t more = SECTIONS_IN_HEAD(l) - HEAD_SECTIONS;
    if (i - HEAD_SECTIONS < more || (GR_HEAD_FLAGS && type - GR_SECTION_TYPE_ENCRYPTION < 3))
        return i == SECTION_OF(l, type) && i != SECTION_OF(l, type - 1) && !flags;
    i -= i > HEAD_SECTIONS ? more : 0;
    static const uint8_t first[] = {GR_SECTION_TYPE_MANIFEST, GR_SECTION_TYPE_SLOTS, GR_SECTION_TYPE_CHUNKS,
                                    GR_SECTION_TYPE_ACTIONS};
    const bool is_required = type - GR_SECTION_TYPE_MANIFEST <= 2 ||
                             type - GR_SECTION_TYPE_ACTIONS <= GR_LAST_OF_BODY - GR_SECTION_TYPE_ACTIONS;
    if (flags != (is_required ? 0 : GR_SECTION_FLAG_OPTIONAL) || flags < before)
        return false;
    return i < sizeof first ? type == first[i] : !is_required || type > GR_SECTION_TYPE_ACTIONS;
}

/* The section table: sections in their order, without gaps or overlaps. */
static enum gr_status check_sections(struct loader *l)
{
    uint64_t at = GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES;
    uint32_t before = 0, notes = 0;
    for (uint32_t i = 0; i < l->section_count; i++) {
        const uint8_t *s = gr_aligned(section_at(l, i));
        /* With the reserved bytes behind it, which are zero. */
        const uint32_t codec = gr_load32(s + GR_SECTION_AT_CODEC);
        const uint32_t type = gr_load16(s + GR_SECTION_AT_TYPE), flags = gr_load16(s + GR_SECTION_AT_FLAGS);
        const uint64_t stored = gr_load64(s + GR_SECTION_AT_STORED_BYTES),
                       raw = gr_load64(s + GR_SECTION_AT_RAW_BYTES);
        l->r->report.offset = i;
        if (gr_load64(s + GR_SECTION_AT_OFFSET) != at || stored > l->trace_bytes - at ||
            raw > (uint64_t)1 << 32 ||
            (codec == GR_CODEC_STORED ? raw != stored : codec != GR_CODEC_LZ4 || IS_STORED(l, i)) ||
            !is_in_order(l, i, type, flags, before) || !gr_takes_section(l, i, s))
            return GR_STATUS_SECTIONS;
        before = flags;
        notes += type == GR_SECTION_TYPE_NOTES;
        if (type == GR_SECTION_TYPE_IMAGE)
            l->image_bytes += raw;
        const uint64_t end = at + stored;
        at = (end + GR_ALIGNMENT - 1) & ~(uint64_t)(GR_ALIGNMENT - 1);
        if (at > (i < SECTIONS_IN_HEAD(l) ? l->head_bytes : l->trace_bytes) ||
            (i < SECTIONS_IN_HEAD(l) && !gr_is_zero(l->head + end, (uint32_t)(at - end))))
            return GR_STATUS_SECTIONS;
    }
    /* The body begins where the head ends, so the first chunk begins there too; each chunk has its hash. */
    if (at != l->trace_bytes || notes > 1 || section_bytes(l, SLOTS) % GR_SLOT_BYTES ||
        section_bytes(l, ACTIONS(l)) % GR_ACTION_BYTES ||
        gr_load64(gr_aligned(section_at(l, ACTIONS(l))) + GR_SECTION_AT_OFFSET) != l->head_bytes ||
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

/* The next section of the stream, decoded to `out`, or skipped. */
static void take_section(struct loader *l, uint32_t index, uint8_t *out)
{
    struct gr_stream *s = &l->stream;
    s->section = stored_bytes(l, index);
    s->stop = s->at;
    if (out && gr_aligned(section_at(l, index))[GR_SECTION_AT_CODEC] == GR_CODEC_LZ4)
        gr_lz4_decode(s, out, section_bytes(l, index));
    else
        gr_stream_take(s, out, s->section);
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
        (uint64_t)fresh32(m + GR_MANIFEST_AT_SECURITY_VERSION) - (uint32_t)~gr_port_lowest_inverted();
    return (older | GR_STORE_BREACH(m + GR_MANIFEST_AT_NAME, fresh32(m + GR_MANIFEST_AT_SECURITY_VERSION))) >>
               32 |
           (fresh32(m + GR_MANIFEST_AT_GPU) ^ GR_TARGET_GPU) |
           (fresh64(m + GR_MANIFEST_AT_PROFILE_ID) ^ GR_PROFILE_ID) |
           (fresh32(m + GR_MANIFEST_AT_GPU_ID) ^ GR_ID_VALUE) |
           (fresh32(m + GR_MANIFEST_AT_GPU_ID_MASK) ^ GR_ID_MASK) |
           (fresh32(m + GR_MANIFEST_AT_ACTION_COUNT) ^ fresh32(&r->action_count)) |
           (fresh32(m + GR_MANIFEST_AT_SLOT_COUNT) ^ fresh32(&r->slot_count)) |
           (image_bytes ^ fresh64(&l->image_bytes)) | (r->image_end - image_bytes) / GR_PAGE_BYTES |
           r->image_end % GR_PAGE_BYTES;
}

/* Where actions, slots and chunk go in the carve-out; the slots. */
static enum gr_status take_slots(struct loader *l)
{
    struct gr_replayer *r = l->r;
    const uint64_t action_bytes = (uint64_t)r->action_count * GR_ACTION_BYTES;
    const uint32_t slot_bytes = r->slot_count * GR_SLOT_BYTES;
    uint8_t *memory = gr_take_memory(l, action_bytes + slot_bytes + l->stream.chunk_bytes);
    if (!memory || r->carveout_bytes > (uint64_t)(memory - r->memory.base))
        return GR_STATUS_MEMORY;
    r->low_bytes = r->carveout_bytes;
    r->actions = memory;
    memory += action_bytes;
    r->slots = memory;
    l->stream.chunk = memory + slot_bytes;
    /* The section lies in the head, and is as good as a chunk that is there. */
    l->stream.at = section_data(l, SLOTS);
    l->stream.end = l->stream.at + stored_bytes(l, SLOTS);
    l->stream.status = GR_STATUS_OK;
    take_section(l, SLOTS, memory);
    for (uint32_t i = 0; i < r->slot_count && l->stream.status == GR_STATUS_OK; i++) {
        r->report.offset = i;
        if (!gr_slot_is_valid(r, i))
            return GR_STATUS_SLOTS;
    }
    return l->stream.status;
}

/* The manifest, the slots, and what features read of the head. */
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
    enum gr_status status =
        gr_store_check(m + GR_MANIFEST_AT_NAME, gr_load32(m + GR_MANIFEST_AT_SECURITY_VERSION));
    if (status != GR_STATUS_OK)
        return status;
    r->manifest = m;
    r->carveout_bytes = gr_load64(m + GR_MANIFEST_AT_CARVEOUT_BYTES);
    r->image_bytes = l->image_bytes;
    r->va_bytes = gr_load64(m + GR_MANIFEST_AT_VA_BYTES);
    r->time_budget_us = gr_load64(m + GR_MANIFEST_AT_TIME_BUDGET_US);
    r->retry_limit = gr_load32(m + GR_MANIFEST_AT_RETRY_LIMIT);
    r->action_count = (uint32_t)(section_bytes(l, ACTIONS(l)) / GR_ACTION_BYTES);
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
    status = take_slots(l);
    if (status == GR_STATUS_OK)
        status = gr_check_weights(l);
    if (status == GR_STATUS_OK)
        status = gr_take_pieces(l, OF_HEAD(l, GR_SECTION_TYPE_PIECES));
    if (status == GR_STATUS_OK)
        status = gr_take_networks(l, OF_HEAD(l, GR_SECTION_TYPE_NETWORKS));
    if (status != GR_STATUS_OK)
        return status;
    l->state ^= STEP_MANIFEST;
    return check_identity(l, m);
}

static enum gr_status load_body(struct loader *l)
{
    struct gr_replayer *r = l->r;
    struct gr_stream *stream = &l->stream;
    uint8_t *image = r->memory.base;
    stream->offset = TRACE_START(l) + (uint64_t)l->head_bytes;
    gr_keep_body(l);
    gr_wipe(image, GR_READ_ONLY_END(r)); /* the prologue wipes what lies after it */
    for (uint32_t i = SECTIONS_IN_HEAD(l); i < GR_LOADED_SECTIONS(l); i++) {
        const uint8_t *s = gr_aligned(section_at(l, i));
        const uint32_t type = gr_load16(s + GR_SECTION_AT_TYPE);
        uint8_t *out = NULL; /* optional sections are skipped */
        if (i == ACTIONS(l))
            out = (uint8_t *)(uintptr_t)r->actions;
        if (type == GR_SECTION_TYPE_IMAGE) {
            out = image;
            image += section_bytes(l, i);
        }
        take_section(l, i, out);
        _Alignas(8) uint8_t padding[GR_ALIGNMENT] = {0};
        stream->section = -stored_bytes(l, i) % GR_ALIGNMENT;
        gr_stream_take(stream, padding, stream->section);
        if (gr_load64(gr_aligned(padding)) && stream->status == GR_STATUS_OK)
            stream->status = GR_STATUS_SECTIONS;
        r->report.offset = stream->index;
        if (stream->status != GR_STATUS_OK)
            return stream->status;
    }
    if (gr_lacks_body(l))
        return GR_STATUS_FLOW;
    l->state ^= gr_undecrypted(l);
    l->state ^= STEP_BODY ^ (uint32_t)(stream->differing | stream->differing >> 32);
    return GR_STATUS_OK;
}

/* Check the actions of the network that is chosen, of which the first job has the number *jobs. */
static enum gr_status check_network(struct gr_replayer *r, uint32_t *jobs, uint64_t *low_bytes)
{
    uint32_t starts = 0;
    for (uint32_t i = GR_FIRST_ACTION(r); i < GR_END_ACTION(r); i++) {
        struct gr_action action;
        enum gr_status status = gr_fetch_action(r, i, &action);
        if (status == GR_STATUS_OK && action.op == GR_OP_JOB && action.value != (*jobs)++)
            status = GR_STATUS_ACTION;
        if (status == GR_STATUS_OK && action.op == GR_OP_REPLAY_START)
            status = gr_check_start(r, i, starts++);
        if (status != GR_STATUS_OK)
            return status;
    }
    return gr_check_end(r, starts, low_bytes);
}

static enum gr_status check_actions(struct loader *l)
{
    struct gr_replayer *r = l->r;
    uint64_t low_bytes = r->low_bytes;
    uint32_t jobs = 0;
    for (uint32_t number = 0; number < GR_COUNT(r); number++) {
        GR_CHOOSE(r, number);
        const enum gr_status status = check_network(r, &jobs, &low_bytes);
        if (status != GR_STATUS_OK)
            return status;
    }
    GR_CHOOSE(r, 0u);
    if (jobs != gr_load32(gr_aligned(r->manifest) + GR_MANIFEST_AT_JOB_COUNT))
        return GR_STATUS_MANIFEST;
    if (low_bytes > (uint64_t)(r->high - r->memory.base) ||
        (GR_CACHED_BYTES && low_bytes > r->memory.bytes - GR_CACHED_BYTES))
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
    enum gr_status status = gr_store_open() ? gr_check_envelope(l) : GR_STATUS_STORE;
    const uint64_t verified = gr_port_now_us();
    if (status == GR_STATUS_OK)
        status = check_sections(l);
    if (status == GR_STATUS_OK)
        GR_TELL(l->r, gr_log_trace(l->r->log, l->head, l->head_bytes, section_data(l, MANIFEST)));
    if (status == GR_STATUS_OK)
        status = check_manifest(l);
    if (status == GR_STATUS_OK)
        status = gr_open_body(l, OF_HEAD(l, GR_SECTION_TYPE_ENCRYPTION));
    if (status == GR_STATUS_OK)
        status = load_body(l);
    gr_close_body(l);
    if (status == GR_STATUS_OK)
        status = check_actions(l);
    const uint64_t loaded = gr_port_now_us();
    if (status == GR_STATUS_OK)
        status = gr_check_signature_again(l);
    if (status == GR_STATUS_OK) {
        const uint64_t differing = differences(l) | gr_network_differences(l->r) |
                                   gr_piece_differences(l, OF_HEAD(l, GR_SECTION_TYPE_PIECES));
        l->state ^= (uint32_t)(differing | differing >> 32) |
                    ((gr_port_read32(GR_ID_OFFSET) ^ GR_ID_VALUE) & GR_ID_MASK);
    }
    if (status == GR_STATUS_OK && l->state != GR_STATE_LOADED)
        status = GR_STATUS_FLOW;
    l->r->state = l->state;
    l->r->report.load_us = loaded - verified;
    l->r->report.verify_us = gr_port_now_us() - start - l->r->report.load_us;
    return status;
}

GR_NOINLINE enum gr_status gr_load(struct gr_replayer *r, const struct gr_memory *memory,
                                   const struct gr_source *source, uint64_t signed_bytes,
                                   const struct gr_policy *policy)
{
    memset(r, 0, sizeof *r);
    GR_TELL_BEGIN(r, policy);
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
    l.stream.source = source;
    l.policy = policy;
    l.trace_bytes = signed_bytes - BEFORE_TRACE;
    r->report.status = load(&l);
    if (r->report.status != GR_STATUS_OK)
        gr_unload(r);
    return r->report.status;
}

void gr_unload(struct gr_replayer *r)
{
    if (r->touched)
        gr_driver_reset(r);
    gr_wipe(r->memory.base, r->low_bytes);
    gr_wipe(r->high, (uint64_t)(r->memory.base + r->memory.bytes - r->high));
    gr_wipe(&r->memory, sizeof *r - offsetof(struct gr_replayer, memory));
}
