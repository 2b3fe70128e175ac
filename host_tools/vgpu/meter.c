/* SPDX-License-Identifier: BSD-2-Clause */
/* See meter.h. */
#include "meter.h"

#include <stdlib.h>

enum { LINE_SHIFT = 6, WAYS = 4, MAX_LINES = 128 };

static bool create_cache(struct vgpu_cache *cache, uint64_t bytes)
{
    cache->sets = (bytes >> LINE_SHIFT) / WAYS;
    cache->line = calloc(cache->sets * WAYS, sizeof(*cache->line));
    return cache->line;
}

struct vgpu_meter *vgpu_meter_create(uint64_t first_bytes, uint64_t second_bytes)
{
    struct vgpu_meter *meter = calloc(1, sizeof(*meter));

    if (!meter)
        return NULL;
    if (create_cache(&meter->first, first_bytes) && create_cache(&meter->second, second_bytes))
        return meter;
    vgpu_meter_free(meter);
    return NULL;
}

void vgpu_meter_free(struct vgpu_meter *meter)
{
    if (meter) {
        free(meter->first.line);
        free(meter->second.line);
    }
    free(meter);
}

/* Whether the cache has the line; from now on it does. */
static bool cache_has(struct vgpu_cache *cache, uint64_t line)
{
    uint64_t *set = cache->line + line % cache->sets * WAYS, moved = line + 1;

    for (unsigned way = 0; way < WAYS; way++) {
        uint64_t kept = set[way];

        set[way] = moved;
        if (kept == line + 1)
            return true;
        moved = kept;
    }
    return false;
}

static void touch(struct vgpu_meter *meter, uint64_t line, bool write)
{
    if (write) {
        meter->row.stored_misses += !cache_has(&meter->second, line);
    } else if (!cache_has(&meter->first, line)) {
        meter->row.first_misses++;
        meter->row.second_misses += !cache_has(&meter->second, line);
    }
}

/* Number of the lines with one more, which may be among them. */
static unsigned add_line(uint64_t *lines, unsigned count, uint64_t line)
{
    for (unsigned i = count; i-- > 0;)
        if (lines[i] == line)
            return count;
    lines[count] = line;
    return count + 1;
}

void vgpu_meter_access(struct vgpu_meter *meter, const uint64_t *va, uint64_t lanes, unsigned bytes,
                       bool write)
{
    uint64_t lines[MAX_LINES];
    unsigned count = 0;

    for (uint64_t left = lanes; left; left &= left - 1) {
        uint64_t at = va[__builtin_ctzll(left)];

        count = add_line(lines, count, at >> LINE_SHIFT);
        count = add_line(lines, count, (at + bytes - 1) >> LINE_SHIFT);
    }
    for (unsigned i = 0; i < count; i++)
        touch(meter, lines[i], write);
    *(write ? &meter->row.stored_lines : &meter->row.loaded_lines) += count;
}
