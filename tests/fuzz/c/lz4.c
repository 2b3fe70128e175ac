/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: the LZ4 decoder and the stream that feeds it, over chunks that are hashed.
 *
 * An input: size of the output (u16), size of a chunk (u8), which chunk has a wrong hash (u8, 0: none), what
 * fails to be read (u8, 0: nothing), then the block. The output must be what
 * a decoder of the target's own makes of the block, and only if that makes something.
 */
#include "crypto.h"
#include "internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETUP_BYTES = 5, MOST_OUT = 1 << 16, RED = 0xc3 };

static const uint8_t *block;
static size_t block_bytes;
static uint32_t reads, fails_at;
static uint64_t clock_us;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
bool gr_fuzz_hash_fails(void);

bool gr_fuzz_hash_fails(void)
{
    return false;
}

uint64_t gr_port_now_us(void)
{
    return clock_us++;
}

void gr_wipe(void *to, uint64_t bytes)
{
    memset(to, 0, bytes);
}

static bool read_block(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    if (++reads == fails_at || offset > block_bytes || bytes > block_bytes - offset)
        return false;
    memcpy(to, block + offset, bytes);
    return true;
}

static _Noreturn void found(const char *promise)
{
    fprintf(stderr, "FINDING: %s\n", promise);
    abort();
}

/* Another decoder, byte by byte: true when the block decodes to exactly `out_bytes`; *used: bytes of it. */
static bool expect(const uint8_t *block, size_t block_bytes, uint8_t *out, size_t out_bytes, size_t *used)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t hashes[1 << 16][32], expected[MOST_OUT];
    if (size < SETUP_BYTES || size - SETUP_BYTES > sizeof hashes / sizeof *hashes)
        return 0;
    const size_t out_bytes = data[0] | (size_t)data[1] << 8;
    const uint32_t chunk_bytes = 1 + data[2], bad = data[3];
    block = data + SETUP_BYTES;
    block_bytes = size - SETUP_BYTES;
    reads = 0;
    fails_at = data[4];
    const size_t chunks = (block_bytes + chunk_bytes - 1) / chunk_bytes;
    for (size_t i = 0; i < chunks; i++) {
        const size_t at = i * chunk_bytes,
                     bytes = block_bytes - at < chunk_bytes ? block_bytes - at : chunk_bytes;
        (void)gr_sha256(block + at, bytes, hashes[i]);
        hashes[i][bad % 32] ^= bad == i + 1;
    }
    uint8_t *out = malloc(out_bytes + 1), *chunk = malloc(chunk_bytes);
    if (!out || !chunk)
        found("there is memory");
    out[out_bytes] = RED;
    const struct gr_source source = {read_block, NULL};
    struct gr_stream stream = {.source = &source,
                               .left = block_bytes,
                               .deadline_us = UINT64_MAX,
                               .section = block_bytes,
                               .hashes = hashes[0],
                               .chunk = chunk,
                               .chunk_bytes = chunk_bytes,
                               .status = GR_STATUS_OK};
    gr_lz4_decode(&stream, out, out_bytes);
    size_t used = 0;
    const bool decodes = expect(block, block_bytes, expected, out_bytes, &used) && used == block_bytes;
    const size_t needed = (used + chunk_bytes - 1) / chunk_bytes;
    const bool damaged = (bad && bad <= needed) || (fails_at && fails_at <= needed);
    if ((stream.status == GR_STATUS_OK) != (decodes && !damaged))
        found("what is a block and undamaged is decoded, and nothing else");
    if (stream.status == GR_STATUS_OK && memcmp(out, expected, out_bytes))
        found("it is decoded to what it says");
    if (out[out_bytes] != RED || reads > chunks + 1)
        found("no more is written than there is room for, and no more read than there is");
    free(out);
    free(chunk);
    return 0;
}
