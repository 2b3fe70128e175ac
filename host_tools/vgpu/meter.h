/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a compute dispatch does that takes time (vgpu_options.meter): accesses to memory by lines of 64 bytes,
 * and which of them caches would have.
 *
 * The caches are models: sets of four lines, the least recently used one goes; a load fills both, a store
 * goes through the first one to the second. Both are empty when a dispatch starts, since traces flush between
 * jobs. Who keeps a meter runs a dispatch with one worker, so that the order of accesses is always the same.
 */
#ifndef GRAMOPHONE_METER_H
#define GRAMOPHONE_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "vgpu.h"

struct vgpu_cache {
    uint64_t sets;  /* a power of two; of four lines each */
    uint64_t *line; /* number + 1, the most recently used of a set first; 0: empty */
};

struct vgpu_meter {
    struct vgpu_dispatch row;
    struct vgpu_cache first, second;
};

/* A meter with empty caches of so many bytes (powers of two, at least 256). NULL: the host's memory is
 * exhausted. Freed with vgpu_meter_free. */
struct vgpu_meter *vgpu_meter_create(uint64_t first_bytes, uint64_t second_bytes);
void vgpu_meter_free(struct vgpu_meter *meter);

/* The lines of one access: bytes `va` to `va + bytes - 1` (1 to 16 of them) of each lane in `lanes`. */
void vgpu_meter_access(struct vgpu_meter *meter, const uint64_t *va, uint64_t lanes, unsigned bytes,
                       bool write);

#endif
