/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzz target codec.c for byte planes. */
#include "codec.h"

enum { VALUES = 256 };

void fuzz_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes)
{
    gr_planes_decode(s, out, out_bytes);
}

/* Nibbles of lengths; how many bytes they take, 0: they are none. */
static size_t read_lengths(const uint8_t *at, size_t bytes, uint32_t *lengths)
{
    size_t value = 0, nibbles = 0;
    while (value < VALUES && nibbles < 2 * bytes) {
        const uint32_t nibble = at[nibbles / 2] >> 4 * (nibbles % 2) & 15;
        const size_t run = nibble > GR_MAX_CODE_BITS ? (size_t)1 << (nibble - GR_MAX_CODE_BITS) : 1;
        for (size_t i = 0; i < run; i++, value++)
            if (value < VALUES)
                lengths[value] = nibble > GR_MAX_CODE_BITS ? 0 : nibble;
        nibbles++;
    }
    if (value != VALUES || (nibbles % 2 && at[nibbles / 2] >> 4))
        return 0;
    return (nibbles + 1) / 2;
}

/* The code of a value: counted from the first one of its length. False: it has none. */
static bool code_of(const uint32_t *lengths, size_t value, uint32_t *code)
{
    uint32_t next = 0;
    for (uint32_t length = 1; length <= lengths[value]; length++, next <<= 1)
        for (size_t other = 0; other < VALUES; other++) {
            if (length == lengths[value] && other == value) {
                *code = next;
                return true;
            }
            next += lengths[other] == length;
        }
    return false;
}

/* Bit by bit, comparing with all codes. */
static bool read_codes(const uint8_t *at, size_t bytes, const uint32_t *lengths, uint8_t *out,
                       size_t out_bytes)
{
    uint32_t codes[VALUES], sum = 0;
    bool has[VALUES];
    for (size_t value = 0; value < VALUES; value++) {
        has[value] = code_of(lengths, value, &codes[value]);
        sum += has[value] ? (uint32_t)1 << (GR_MAX_CODE_BITS - lengths[value]) : 0;
    }
    if (sum != (uint32_t)1 << GR_MAX_CODE_BITS)
        return false;
    size_t bit = 0;
    for (size_t to = 0; to < out_bytes; to += GR_PLANES) {
        uint32_t code = 0, length = 0;
        bool known = false;
        while (!known) {
            if (bit == 8 * bytes)
                return false;
            code = code << 1 | (at[bit / 8] >> (7 - bit % 8) & 1);
            bit++;
            length++;
            for (size_t value = 0; value < VALUES && !known; value++) {
                known = has[value] && lengths[value] == length && codes[value] == code;
                if (known)
                    out[to] = (uint8_t)value;
            }
        }
    }
    if (8 * bytes - bit >= 8)
        return false;
    for (; bit < 8 * bytes; bit++)
        if (at[bit / 8] >> (7 - bit % 8) & 1)
            return false;
    return true;
}

bool fuzz_expect(const uint8_t *block, size_t block_bytes, uint8_t *out, size_t out_bytes, size_t *used)
{
    size_t at = 0;
    for (size_t plane = 0; plane < GR_PLANES; plane++) {
        const size_t ends = out_bytes > plane ? out_bytes - plane : 0,
                     count = (ends + GR_PLANES - 1) / GR_PLANES;
        if (block_bytes - at < 4)
            return false;
        const size_t bytes = gr_load32(block + at);
        at += 4;
        if (bytes == 0) {
            if (block_bytes - at < count)
                return false;
            for (size_t i = 0; i < count; i++)
                out[plane + i * GR_PLANES] = block[at + i];
            at += count;
            continue;
        }
        uint32_t lengths[VALUES];
        const size_t described = read_lengths(block + at, block_bytes - at, lengths);
        if (described == 0 || block_bytes - at - described < bytes)
            return false;
        at += described;
        if (!read_codes(block + at, bytes, lengths, out + (count ? plane : 0), ends))
            return false;
        at += bytes;
    }
    *used = at;
    return true;
}
