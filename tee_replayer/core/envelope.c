/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether a signed trace is one that this device's key, or its trust policy, says is signed. */
#include "load.h"

static enum gr_status copy_head(struct loader *l)
{
    /* clang-format off */
    static const uint8_t expected_start[GR_HEADER_AT_TRACE_BYTES] = {
        0x89, 'G', 'T', 'R', '\r', '\n', 0x1a, '\n', /* GR_HEADER_MAGIC */
        GR_VERSION_MAJOR, 0, GR_VERSION_MINOR, 0,
        GR_HEADER_BYTES, 0, 0, 0,
    };
    /* clang-format on */
    const uint8_t *header = gr_aligned(l->start + HEADER_AT);
    if (!gr_is_same(header, expected_start, sizeof expected_start))
        return GR_STATUS_HEADER;
    const uint32_t chunk_bytes = gr_load32(header + GR_HEADER_AT_CHUNK_BYTES),
                   flags = gr_load16(header + GR_HEADER_AT_FLAGS);
    l->head_bytes = gr_load32(header + GR_HEADER_AT_HEAD_BYTES);
    l->section_count = gr_load16(header + GR_HEADER_AT_SECTION_COUNT);
    if (GR_HEAD_FLAGS)
        l->flags = flags & GR_HEAD_FLAGS;
    l->stream.chunk_bytes = chunk_bytes;
    l->stream.left = l->trace_bytes - l->head_bytes;
    if (l->head_bytes > GR_MAX_HEAD_BYTES || l->head_bytes > l->trace_bytes || l->head_bytes % GR_ALIGNMENT ||
        chunk_bytes < GR_MIN_CHUNK_BYTES || chunk_bytes > GR_MAX_CHUNK_BYTES ||
        chunk_bytes & (chunk_bytes - 1) || l->section_count <= SECTIONS_IN_HEAD(l) ||
        l->section_count > GR_MAX_SECTIONS || flags & ~(GR_HEADER_FLAG_RAW | GR_HEAD_FLAGS) ||
        (flags & GR_HEADER_FLAG_RAW && flags & (GR_STREAMING_FLAG | GR_NETWORKS_FLAG)) ||
        gr_load64(header + GR_HEADER_AT_TRACE_BYTES) != l->trace_bytes ||
        gr_load32(header + GR_HEADER_AT_CHUNK_COUNT) != (l->stream.left + chunk_bytes - 1) / chunk_bytes ||
        !gr_is_zero(header + GR_HEADER_AT_RESERVED, GR_HEADER_BYTES - GR_HEADER_AT_RESERVED) ||
        GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES > l->head_bytes)
        return GR_STATUS_HEADER;
    uint8_t *memory = gr_take_memory(l, BEFORE_HEAD_BYTES + l->head_bytes);
    if (!memory)
        return GR_STATUS_MEMORY;
    l->head = memory + BEFORE_HEAD_BYTES;
    memcpy(l->head, header, GR_HEADER_BYTES);
    if (!l->stream.source->read(l->stream.source->ctx, TRACE_START(l) + GR_HEADER_BYTES,
                                l->head + GR_HEADER_BYTES, l->head_bytes - GR_HEADER_BYTES))
        return GR_STATUS_READ;
    l->state ^= STEP_HEADER;
    return GR_STATUS_OK;
}

enum gr_status gr_check_envelope(struct loader *l)
{
    enum gr_status status = gr_copy_envelope(l);
    if (status == GR_STATUS_OK)
        status = copy_head(l);
    if (status == GR_STATUS_OK)
        status = gr_judge(l);
    return status;
}
