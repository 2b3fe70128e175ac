/* SPDX-License-Identifier: BSD-2-Clause */
/* An encoder of LZ4 blocks, simple and not good. */
#include "core.h"

void put(uint8_t *at, uint64_t value, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* An LZ4 block: literals, with a match wherever four bytes and more repeat the byte before. */
size_t pack(uint8_t *out, const uint8_t *in, size_t bytes)
{
    size_t at = 0, to = 0;
    while (at < bytes || bytes == 0) {
        size_t literals = at, run = 0;
        for (; literals < bytes; literals++) {
            run = 0;
            while (literals > at && literals + run < bytes && in[literals + run] == in[literals - 1])
                run++;
            if (run >= 8)
                break;
        }
        const size_t length = literals - at, match = run >= 8 ? run : 0;
        uint8_t *token = &out[to++];
        *token = (uint8_t)((length < 15 ? length : 15) << 4);
        for (size_t left = length - 15; length >= 15; left -= 255) {
            out[to++] = (uint8_t)(left < 255 ? left : 255);
            if (left < 255)
                break;
        }
        memcpy(out + to, in + at, length);
        to += length;
        at = literals + match;
        if (match) {
            put(out + to, 1, 2);
            to += 2;
            *token |= (uint8_t)(match - 4 < 15 ? match - 4 : 15);
            for (size_t left = match - 4 - 15; match - 4 >= 15; left -= 255) {
                out[to++] = (uint8_t)(left < 255 ? left : 255);
                if (left < 255)
                    break;
            }
            if (at == bytes)
                out[to++] = 0; /* the last sequence has no match */
        }
        if (at >= bytes)
            break;
    }
    return to;
}
