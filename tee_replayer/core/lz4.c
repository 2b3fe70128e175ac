/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoder of an LZ4 block (format: lz4_Block_format.md of the LZ4 project, 2022). The output
 * is its own window. */
#include "internal.h"

enum { MIN_MATCH = 4, LONG = 15 };

/* Zero after the end, or when the stream has failed: what that decodes to is not used. `ready` is what
 * gr_stream_ready gave, without what was taken since. */
static uint32_t next_byte(struct gr_stream *s, uint32_t *ready)
{
    if (*ready == 0)
        *ready = gr_stream_ready(s);
    if (*ready == 0)
        return 0;
    --*ready;
    s->section--;
    return *s->at++;
}

/* A length that begins in a token: if it does not fit there, bytes are added to it, up to the first
 * that is not 255. */
static uint64_t take_length(struct gr_stream *s, uint32_t *ready, uint64_t length)
{
    uint32_t more = length == LONG ? 255 : 0;
    while (more == 255) {
        more = next_byte(s, ready);
        length += more;
    }
    return length;
}

void gr_lz4_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes)
{
    uint64_t left = out_bytes;
    uint32_t ready = 0;
    for (;;) {
        const uint32_t token = next_byte(s, &ready);
        uint64_t length = take_length(s, &ready, token >> 4);
        if (length > left)
            break;
        left -= length;
        while (length) {
            if (ready == 0)
                ready = gr_stream_ready(s);
            const uint32_t n = ready < length ? ready : (uint32_t)length;
            if (n == 0)
                return;
            memcpy(out, s->at, n);
            s->at += n;
            s->section -= n;
            ready -= n;
            out += n;
            length -= n;
        }
        if (left == 0) { /* the last sequence has no match */
            if (s->section)
                break;
            return;
        }
        uint64_t distance = next_byte(s, &ready);
        distance |= (uint64_t)next_byte(s, &ready) << 8;
        length = MIN_MATCH + take_length(s, &ready, token & LONG);
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
