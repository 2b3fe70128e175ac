/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoder of an LZ4 block (format: lz4_Block_format.md of the LZ4 project, 2022). The output
 * is its own window. */
#include "internal.h"

enum { MIN_MATCH = 4, LONG = 15 };

/* Zero after the end, or when the stream has failed: what that decodes to is not used. */
static uint32_t next_byte(struct gr_stream *s)
{
    if (s->at == s->stop && gr_stream_ready(s) == 0)
        return 0;
    return *s->at++;
}

/* A length that begins in a token: if it does not fit there, bytes are added to it, up to the first
 * that is not 255. */
static uint64_t take_length(struct gr_stream *s, uint64_t length)
{
    uint32_t more;
    if (length < LONG)
        return length;
    do {
        more = next_byte(s);
        length += more;
    } while (more == 255);
    return length;
}

void gr_lz4_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes)
{
    uint64_t left = out_bytes;
    for (;;) {
        const uint32_t token = next_byte(s);
        uint64_t length = take_length(s, token >> 4);
        if (length > left)
            break;
        left -= length;
        gr_stream_take(s, out, length);
        if (s->status != GR_STATUS_OK)
            return;
        out += length;
        if (left == 0) { /* the last sequence has no match */
            if (s->section || s->at != s->stop)
                break;
            return;
        }
        uint64_t distance = next_byte(s);
        distance |= (uint64_t)next_byte(s) << 8;
        length = MIN_MATCH + take_length(s, token & LONG);
        if (distance - 1 >= out_bytes - left || length > left)
            break;
        left -= length;
        /* What the match overlaps exists once it has been copied: each piece can be longer
         * than the one before. */
        while (length) {
            const uint64_t n = distance < length ? distance : length;
            memcpy(out, out - distance, n);
            out += n;
            length -= n;
            distance += n;
        }
    }
    if (s->status == GR_STATUS_OK)
        s->status = GR_STATUS_CODEC;
}
