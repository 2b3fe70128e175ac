/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the replayer's core over hostile input, to be compiled with sanitizers.
 *
 *   replayer_fuzz traces KEY KEY_ID FILE   loads and replays each record of FILE
 *   replayer_fuzz lz4 FILE                 decodes each record: output size (u32), LZ4 data
 *
 * A record is its size (u32, little-endian) and its bytes. Each lies in an allocation of its own, so that any
 * access outside it is found; so do the carve-out and the output. Prints how many were accepted.
 */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CARVEOUT_BYTES = 1 << 18, CHUNK_BYTES = 64 };
#define CARVEOUT_PHYS 0x100000000u

static uint32_t read32(void *ctx, uint32_t offset)
{
    /* Identity of a V3D at 0xc and 0x14, of a Mali at 0 and 0x100; at 0x20 a Mali says that
     * its reset is done. */
    (void)ctx;
    switch (offset) {
    case 0x0: return 0x60a00002;
    case 0xc: return 0x124;
    case 0x14: return 0xe00;
    case 0x20: return 0x100;
    case 0x100: return 0xff;
    default: return 0;
    }
}

static void write32(void *ctx, uint32_t offset, uint32_t value)
{
    (void)ctx, (void)offset, (void)value;
}

static bool interrupt_level(void *ctx, unsigned line)
{
    (void)ctx, (void)line;
    return true;
}

static uint8_t *slurp(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(2);
    *bytes = (size_t)ftell(file);
    rewind(file);
    uint8_t *data = malloc(*bytes + 1);
    if (!data || fread(data, 1, *bytes, file) != *bytes)
        exit(2);
    fclose(file);
    return data;
}

static bool load_and_run(const uint8_t *data, size_t bytes, const uint8_t *key, const uint8_t *key_id)
{
    const struct gr_host_gpu gpu = {NULL, read32, write32, interrupt_level, NULL};
    uint8_t *carveout = malloc(CARVEOUT_BYTES);
    struct gr_host *host = gr_host_new(&gpu, carveout, CARVEOUT_PHYS, CARVEOUT_BYTES);
    const bool loaded = gr_host_load(host, data, bytes, key, key_id, 0) == (uint32_t)GR_STATUS_OK;
    if (loaded) {
        gr_host_run(host);
        gr_host_unload(host);
    }
    for (size_t i = 0; i < gr_host_report(host)->secure_bytes && loaded; i++)
        if (i < CARVEOUT_BYTES && carveout[i])
            abort();
    gr_host_free(host);
    free(carveout);
    return loaded;
}

static bool decode(const uint8_t *data, size_t bytes)
{
    if (bytes < 4)
        exit(2);
    uint32_t out_bytes;
    memcpy(&out_bytes, data, sizeof out_bytes);
    uint8_t *out = malloc(out_bytes);
    const bool good = gr_host_lz4(data + 4, bytes - 4, out, out_bytes, CHUNK_BYTES);
    free(out);
    return good;
}

int main(int argc, char **argv)
{
    size_t bytes, key_bytes, id_bytes;
    const bool traces = argc == 5 && !strcmp(argv[1], "traces");
    if (!traces && (argc != 3 || strcmp(argv[1], "lz4")))
        return 2;
    uint8_t *key = traces ? slurp(argv[2], &key_bytes) : NULL,
            *key_id = traces ? slurp(argv[3], &id_bytes) : NULL;
    uint8_t *all = slurp(argv[argc - 1], &bytes);
    unsigned records = 0, accepted = 0;
    for (size_t at = 0; at < bytes; records++) {
        uint32_t size;
        memcpy(&size, all + at, sizeof size);
        uint8_t *data = malloc(size);
        if (!data)
            return 2;
        memcpy(data, all + at + sizeof size, size);
        accepted += traces ? load_and_run(data, size, key, key_id) : decode(data, size);
        free(data);
        at += sizeof size + size;
    }
    printf("%u %u\n", records, accepted);
    free(all);
    free(key);
    free(key_id);
    return 0;
}
