/* SPDX-License-Identifier: BSD-2-Clause */
/* Fuzz target codec.c for LZ4 blocks. */
#include "codec.h"

void fuzz_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes)
{
    gr_lz4_decode(s, out, out_bytes);
}

/* Byte by byte. */
bool fuzz_expect(const uint8_t *block, size_t block_bytes, uint8_t *out, size_t out_bytes, size_t *used)
{
    size_t at = 0, to = 0;
    for (;;) {
        if (at == block_bytes)
            return false;
        const uint8_t token = block[at++];
        size_t lengths[2] = {token >> 4, token & 15};
        for (int part = 0; part < 2; part++) {
            size_t distance = 0;
            if (part == 1) {
                if (to == out_bytes) {
                    *used = at;
                    return true;
                }
                if (block_bytes - at < 2)
                    return false;
                distance = block[at] | (size_t)block[at + 1] << 8;
                at += 2;
            }
            if (lengths[part] == 15) {
                uint8_t more;
                do {
                    if (at == block_bytes)
                        return false;
                    more = block[at++];
                    lengths[part] += more;
                } while (more == 255);
            }
            const size_t length = lengths[part] + (part ? 4 : 0);
            if (length > out_bytes - to || (part && (distance == 0 || distance > to)))
                return false;
            for (size_t i = 0; i < length; i++, to++) {
                if (part)
                    out[to] = out[to - distance];
                else if (at == block_bytes)
                    return false;
                else
                    out[to] = block[at++];
            }
        }
    }
}
