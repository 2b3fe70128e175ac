/* SPDX-License-Identifier: BSD-2-Clause */
/* A virtual GPU that has registers and nothing else: what docs/PORTING.md asks of a
 * model, at its smallest. */
#include <stdlib.h>

#include "vgpu_device.h"

enum { WINDOW_BYTES = 0x4000, LINES = 3, GPU_ID = 0, IDENTITY = 0x60000000 };

struct dummy_device {
    struct vgpu base;
    uint32_t reg[WINDOW_BYTES / 4];
};

static struct vgpu *create(void)
{
    struct dummy_device *dev = calloc(1, sizeof(*dev));
    /* cppcheck-suppress memleak ; destroy frees it by its first member */
    return dev ? &dev->base : NULL;
}

static void start(struct vgpu *gpu)
{
    ((struct dummy_device *)gpu)->reg[GPU_ID] = IDENTITY;
}

static void destroy(struct vgpu *gpu)
{
    free(gpu);
}

static uint32_t read32(struct vgpu *gpu, uint32_t offset)
{
    return ((struct dummy_device *)gpu)->reg[offset / 4];
}

static void write32(struct vgpu *gpu, uint32_t offset, uint32_t value)
{
    vgpu_fail(gpu, "dummy1: write to 0x%04x of 0x%08x: not modelled", offset, value);
}

static void advance(struct vgpu *gpu)
{
    (void)gpu;
}

static void walk(struct vgpu *gpu, struct vgpu_run *run)
{
    (void)gpu, (void)run;
}

static const struct vgpu_family dummy1_family = {
    .name = "dummy1",
    .window_bytes = WINDOW_BYTES,
    .interrupt_lines = LINES,
    .create = create,
    .start = start,
    .destroy = destroy,
    .read32 = read32,
    .write32 = write32,
    .advance = advance,
    .walk = walk,
};
VGPU_FAMILIES(&dummy1_family);
