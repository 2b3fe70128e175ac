/* SPDX-License-Identifier: BSD-2-Clause */
/* The body of a trace as a stream of bytes that were copied and hashed before anyone sees them. */
#include "crypto.h"
#include "internal.h"

/* Without an early exit, and so that two calls remain two comparisons. Of no bytes the answer is no: a call
 * whose size was lost to a fault must not pass for a comparison. */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    volatile uint32_t differing = bytes == 0;
    while (bytes--)
        differing |= (uint32_t)(a[bytes] ^ b[bytes]);
    return differing == 0;
}

/* Whether s, of the signature (r, s), is at most half of the group's order (SEC 2, 2.4.2): (r, n - s) is as
 * good, and a trace has one signed file. */
bool gr_is_low(const uint8_t s[32])
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

/* Zero if two hashes are the same: gr_is_same in another form, so that no one instruction decides both. */
GR_INLINE uint64_t hash_difference(const uint8_t *a, const uint8_t *b)
{
    a = gr_aligned(a);
    b = gr_aligned(b);
    return (gr_load64(a) ^ gr_load64(b)) | (gr_load64(a + 8) ^ gr_load64(b + 8)) |
           (gr_load64(a + 16) ^ gr_load64(b + 16)) | (gr_load64(a + 24) ^ gr_load64(b + 24));
}

static enum gr_status next_chunk(struct gr_stream *s)
{
    const uint32_t bytes = s->left < s->chunk_bytes ? (uint32_t)s->left : s->chunk_bytes;
    /* Cleared: what the previous chunk's left there is not this one's. */
    _Alignas(8) uint8_t digest[32];
    gr_wipe(digest, sizeof digest);
    if (bytes == 0)
        return GR_STATUS_SIZE; /* the sections are longer than the body */
    if (!s->source->read(s->source->ctx, s->offset, s->chunk, bytes))
        return GR_STATUS_READ;
    if (!gr_sha256(s->chunk, bytes, digest))
        return GR_STATUS_MEMORY;
    if (gr_port_now_us() >= s->deadline_us)
        return GR_STATUS_BUDGET;
    if (!gr_is_same(digest, s->hashes, sizeof digest))
        return GR_STATUS_CHUNK;
    s->differing |= hash_difference(digest, s->hashes) | GR_IS_HASHED(s);
    gr_decrypt(s, bytes);
    s->offset += bytes;
    s->left -= bytes;
    s->hashes += sizeof digest;
    s->index++;
    s->at = s->stop = s->chunk;
    s->end = s->chunk + bytes;
    return GR_STATUS_OK;
}

uint64_t gr_stream_ready(struct gr_stream *s)
{
    if (s->at == s->stop && s->status == GR_STATUS_OK) {
        if (s->section == 0)
            s->status = GR_STATUS_CODEC; /* it should have been longer */
        else if (s->at == s->end)
            s->status = next_chunk(s);
        if (s->status != GR_STATUS_OK)
            return 0;
        const uint64_t have = (uint64_t)(s->end - s->at), n = have < s->section ? have : s->section;
        s->stop = s->at + n;
        s->section -= n;
    }
    return (uint64_t)(s->stop - s->at);
}

void gr_stream_take(struct gr_stream *s, uint8_t *out, uint64_t bytes)
{
    while (bytes) {
        const uint64_t ready = gr_stream_ready(s), n = ready < bytes ? ready : bytes;
        if (n == 0)
            return;
        if (out) {
            memcpy(out, s->at, n);
            out += n;
        }
        s->at += n;
        bytes -= n;
    }
}
