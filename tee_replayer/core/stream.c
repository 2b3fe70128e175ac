/* The body of a trace as a stream of bytes that were copied and hashed before anyone sees them. */
#include "crypto.h"
#include "internal.h"

/* Compare without leaving early; the caller asks twice. */
static bool same_hash(const uint8_t *a, const uint8_t *b)
{
    volatile uint32_t differing = 0;
    for (uint32_t i = 0; i < 32; i++)
        differing |= (uint32_t)(a[i] ^ b[i]);
    return differing == 0;
}

static enum gr_status next_chunk(struct gr_stream *s)
{
    const uint32_t bytes = s->left < s->chunk_bytes ? (uint32_t)s->left : s->chunk_bytes;
    if (bytes == 0)
        return GR_STATUS_SECTIONS;
    if (!s->source->read(s->source->ctx, s->offset, s->chunk, bytes))
        return GR_STATUS_READ;
    struct gr_sha256 hash;
    uint8_t digest[32];
    gr_sha256_init(&hash);
    gr_sha256_update(&hash, s->chunk, bytes);
    gr_sha256_final(&hash, digest);
    if (!same_hash(digest, s->hashes) || !same_hash(s->hashes, digest))
        return GR_STATUS_CHUNK;
    s->offset += bytes;
    s->left -= bytes;
    s->hashes += 32;
    s->index++;
    s->at = s->chunk;
    s->end = s->chunk + bytes;
    return GR_STATUS_OK;
}

uint32_t gr_stream_take(struct gr_stream *s, uint64_t want, const uint8_t **data)
{
    if (s->at == s->end) {
        if (s->status == GR_STATUS_OK)
            s->status = next_chunk(s);
        if (s->status != GR_STATUS_OK)
            return 0;
    }
    const uint64_t have = (uint64_t)(s->end - s->at);
    const uint64_t bytes = want < have ? want : have;
    *data = s->at;
    s->at += bytes;
    return (uint32_t)bytes;
}
