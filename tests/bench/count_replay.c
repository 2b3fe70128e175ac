/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A load and three replays of a signed trace on the virtual GPU, for callgrind: it dumps its counts after the
 * load, after the first replay and after each of the others.
 *
 *   count_replay GPU SIGNED KEY KEY_ID CARVEOUT_BYTES SLOT:BYTES...    (each slot named is bound to zeros)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <valgrind/callgrind.h>

#include "host.h"
#include "vgpu.h"

enum { PHYS = 0x40000000 };

static uint8_t *carveout;
static uint64_t carveout_bytes;

static uint8_t *slurp(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        exit(2);
    const long size = ftell(file);
    uint8_t *data = malloc((size_t)size + 1);
    rewind(file);
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
        exit(2);
    fclose(file);
    *bytes = (size_t)size;
    return data;
}

static uint8_t *memory(void *ctx, uint64_t pa, uint64_t *len)
{
    (void)ctx;
    if (pa < PHYS || pa - PHYS >= carveout_bytes)
        return NULL;
    *len = carveout_bytes - (pa - PHYS);
    return carveout + (pa - PHYS);
}

static uint32_t read32(void *ctx, uint32_t offset)
{
    return vgpu_read32(ctx, offset);
}

static void write32(void *ctx, uint32_t offset, uint32_t value)
{
    vgpu_write32(ctx, offset, value);
}

static bool level(void *ctx, unsigned line)
{
    return vgpu_interrupt_level(ctx, line);
}

static void must(uint32_t status, const char *what, const vgpu *gpu)
{
    if (status == (uint32_t)GR_STATUS_OK)
        return;
    fprintf(stderr, "%s: status %08x, %s\n", what, status, vgpu_error(gpu) ? vgpu_error(gpu) : "");
    exit(1);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    size_t bytes, key_bytes, id_bytes;
    uint8_t *file = slurp(argv[2], &bytes), *key = slurp(argv[3], &key_bytes),
            *id = slurp(argv[4], &id_bytes);
    carveout_bytes = strtoull(argv[5], NULL, 0);
    carveout = mmap(NULL, carveout_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    const struct vgpu_host machine = {.memory = memory};
    const struct vgpu_options options = {.threads = 1};
    const char *error = NULL;
    vgpu *gpu = vgpu_create(argv[1], &machine, &options, &error);
    const struct gr_host_gpu port = {gpu, read32, write32, level, NULL};
    struct gr_host *host = gr_host_new(&port, carveout, PHYS, carveout_bytes);
    if (carveout == MAP_FAILED || !gpu || !host)
        return 2;
    CALLGRIND_ZERO_STATS;
    must(gr_host_load(host, file, bytes, key, id, 0), "load", gpu);
    CALLGRIND_DUMP_STATS_AT("load");
    for (int i = 6; i < argc; i++) {
        char *end;
        const uint32_t slot = (uint32_t)strtoul(argv[i], &end, 10);
        const uint64_t size = strtoull(end + 1, NULL, 10);
        must(gr_host_bind(host, slot, calloc(1, size), size), "bind", gpu);
    }
    static const char *const names[] = {"first", "second", "third"};
    for (int i = 0; i < 3; i++) {
        CALLGRIND_ZERO_STATS;
        must(gr_host_run(host), names[i], gpu);
        CALLGRIND_DUMP_STATS_AT(names[i]);
    }
    printf("%u\n", gr_host_report(host)->jobs);
    return 0;
}
