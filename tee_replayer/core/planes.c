/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoder of byte planes, a codec of the trace format: each of a section's planes is stored, or coded with a
 * canonical Huffman code. There is none of this in a replayer without them. */
#include "internal.h"

#ifdef GRAMOPHONE_PLANES

enum {
    BYTE_VALUES = 256,
    SEQUENCES = 1 << GR_MAX_CODE_BITS, /* of bits, as long as the longest code */
    NIBBLES = 16,                      /* an entry's low one is a length, the rest is the value */
    WINDOW_BITS = 32,
};

/* Zero after the end, or when the stream has failed: what that decodes to is not used. */
static uint32_t take_byte(struct gr_stream *s)
{
    if (s->at == s->stop && gr_stream_ready(s) == 0)
        return 0;
    return *s->at++;
}

/* A length for each value of a byte, 0 where it does not occur. Greater nibbles are runs of those. */
static bool take_lengths(struct gr_stream *s, uint8_t *lengths)
{
    uint32_t value = 0, byte = 0;
    bool is_high = false;
    while (value < BYTE_VALUES) {
        byte = is_high ? byte / NIBBLES : take_byte(s);
        is_high = !is_high;
        const uint32_t nibble = byte % NIBBLES, is_run = nibble > GR_MAX_CODE_BITS;
        uint32_t run = is_run ? 1u << (nibble - GR_MAX_CODE_BITS) : 1;
        if (run > BYTE_VALUES - value)
            return false;
        for (; run; run--)
            lengths[value++] = is_run ? 0 : (uint8_t)nibble;
    }
    return !is_high || byte / NIBBLES == 0;
}

/* For each sequence of bits, the value whose code it begins with, and how long that is. False, and no table,
 * unless each sequence begins with one code. */
static bool make_table(uint16_t *table, const uint8_t *lengths)
{
    uint32_t next[GR_MAX_CODE_BITS + 1] = {0}, at = 0;
    for (uint32_t value = 0; value < BYTE_VALUES; value++)
        next[lengths[value]] += (uint32_t)SEQUENCES >> lengths[value];
    next[0] = 0;
    for (uint32_t length = 1; length <= GR_MAX_CODE_BITS; length++) {
        const uint32_t share = next[length];
        next[length] = at;
        at += share;
    }
    if (at != SEQUENCES)
        return false;
    for (uint32_t value = 0; value < BYTE_VALUES; value++) {
        const uint32_t length = lengths[value];
        /* The remainder is for a fault that lets a wrong sum pass. */
        for (uint32_t n = length ? (uint32_t)SEQUENCES >> length : 0; n; n--)
            table[next[length]++ % SEQUENCES] = (uint16_t)(value * NIBBLES + length);
    }
    return true;
}

/* `count` values of a plane, whose codes are the next `bytes`. The stream's status says whether they are. */
static void take_codes(struct gr_stream *s, const uint16_t *table, uint32_t bytes, uint8_t *out,
                       uint64_t count)
{
    uint32_t window = 0, have = 0; /* the next bits, the first the highest, and how many of them are there */
    for (uint64_t i = 0; i < count; i++) {
        while (have < GR_MAX_CODE_BITS && bytes) {
            if (s->at == s->stop && gr_stream_ready(s) == 0)
                return;
            have += 8;
            window |= (uint32_t)*s->at++ << (WINDOW_BITS - have);
            bytes--;
        }
        const uint32_t entry = table[window / ((uint32_t)1 << (WINDOW_BITS - GR_MAX_CODE_BITS))];
        const uint32_t length = entry % NIBBLES;
        if (length > have) {
            s->status = GR_STATUS_CODEC;
            return;
        }
        out[i * GR_PLANES] = (uint8_t)(entry / NIBBLES);
        window <<= length;
        have -= length;
    }
    if (bytes || have >= 8 || window)
        s->status = GR_STATUS_CODEC;
}

/* `count` values of a plane, as they are. */
static void take_values(struct gr_stream *s, uint8_t *out, uint64_t count)
{
    for (uint64_t done = 0; done < count;) {
        const uint64_t ready = gr_stream_ready(s), n = ready < count - done ? ready : count - done;
        if (n == 0)
            return;
        /* The compiler cannot know that the output does not hold s->at. */
        const uint8_t *const from = s->at;
        for (uint64_t i = 0; i < n; i++)
            out[(done + i) * GR_PLANES] = from[i];
        done += n;
        s->at += n;
    }
}

void gr_planes_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes)
{
    uint8_t lengths[BYTE_VALUES];
    uint16_t table[SEQUENCES];
    for (uint32_t plane = 0; plane < GR_PLANES; plane++) {
        const uint64_t count = (out_bytes + GR_PLANES - 1 - plane) / GR_PLANES;
        uint32_t bytes = 0;
        for (uint32_t i = 0; i < GR_PLANE_SIZE_BYTES; i++)
            bytes |= take_byte(s) << 8 * i;
        /* A plane without values begins where the output ends, or behind it. */
        uint8_t *const first = count ? out + plane : out;
        if (bytes == 0)
            take_values(s, first, count);
        else if (take_lengths(s, lengths) && make_table(table, lengths))
            take_codes(s, table, bytes, first, count);
        else if (s->status == GR_STATUS_OK)
            s->status = GR_STATUS_CODEC;
        if (s->status != GR_STATUS_OK)
            return;
    }
    if (s->section || s->at != s->stop)
        s->status = GR_STATUS_CODEC;
}

#endif /* GRAMOPHONE_PLANES */
