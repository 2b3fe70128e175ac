/* SPDX-License-Identifier: BSD-2-Clause */
/* A virtual V3D: registers. Sequences and meanings: Linux 6.1 and, for the V3D 7.1, 6.12
 * drivers/gpu/drm/v3d (v3d_gem.c, v3d_mmu.c, v3d_irq.c). */
#include "v3d_device.h"

#include <stdlib.h>
#include <string.h>

#include "v3d_translate.h"

static void set_reset_values(struct v3d_device *dev, uint32_t first, uint32_t end)
{
    const struct v3d_chip *chip = dev->chip;
    for (size_t i = 0; i < chip->register_count; i++)
        if (chip->registers[i].offset >= first && chip->registers[i].offset < end)
            *v3d_reg(dev, chip->registers[i].offset) = chip->registers[i].reset;
}

void v3d_reset(struct v3d_device *dev)
{
    set_reset_values(dev, V3D_HUB, V3D_BRIDGE);
    dev->pending_count = 0;
    memset(dev->busy, 0, sizeof(dev->busy));
    dev->mmuc_flush_ns = dev->tlb_clear_ns = dev->l2t_ns = 0;
    dev->mmuc_clean = dev->mmu_stale = true;
    v3d_update_interrupt(dev);
}

void v3d_update_interrupt(struct v3d_device *dev)
{
    bool core = *v3d_reg(dev, CORE_INT_STS) & ~*v3d_reg(dev, CORE_INT_MSK_STS);
    bool hub = *v3d_reg(dev, HUB_INT_STS) & ~*v3d_reg(dev, HUB_INT_MSK_STS);
    if (dev->chip->interrupt_lines == 1) {
        vgpu_set_level(&dev->base, 0, core || hub);
    } else {
        vgpu_set_level(&dev->base, 0, hub);
        vgpu_set_level(&dev->base, 1, core);
    }
}

static struct vgpu *create(void)
{
    struct v3d_device *dev = calloc(1, sizeof(*dev));
    if (dev && !v3d_mmu_init(&dev->mmu, &dev->base)) {
        v3d_mmu_free(&dev->mmu);
        free(dev);
        return NULL;
    }
    return dev ? &dev->base : NULL;
}

static void start(struct vgpu *gpu)
{
    struct v3d_device *dev = v3d_device_of(gpu);
    dev->chip = ((const struct v3d_kind *)gpu->family)->chip;
    dev->has_board = gpu->family->window_bytes > V3D_WINDOW_BYTES;
    dev->mmu.track = gpu->options.track_access;
    for (size_t i = 0; i < dev->chip->register_count; i++)
        dev->known[dev->chip->registers[i].offset / 4] = (uint16_t)(i + 1);
    set_reset_values(dev, V3D_BRIDGE, V3D_BOARD_WINDOW_BYTES);
    v3d_reset(dev);
}

static void destroy(struct vgpu *gpu)
{
    struct v3d_device *dev = v3d_device_of(gpu);
    v3d_mmu_free(&dev->mmu);
    free(dev);
}

static const struct vgpu_register *known_register(const struct v3d_device *dev, uint32_t offset)
{
    return dev->known[offset / 4] ? &dev->chip->registers[dev->known[offset / 4] - 1] : NULL;
}

static void fail_access(struct v3d_device *dev, const char *what, uint32_t offset, const char *why)
{
    const struct vgpu_register *known = known_register(dev, offset);
    const struct vgpu_block *block = v3d_block(dev->chip, offset);
    vgpu_fail(&dev->base, "%s: %s %s 0x%04x%s%s%s: %s", dev->chip->name, what, block->name,
              offset - block->offset, known ? " (" : "", known ? known->name : "", known ? ")" : "", why);
}

/* The description of a register that may be accessed so now, or NULL after failing. */
static const struct vgpu_register *find(struct v3d_device *dev, uint32_t offset, uint8_t access)
{
    const char *what = access == VGPU_READ ? "read of" : "write to";
    const struct vgpu_register *known = known_register(dev, offset);
    if (!known) {
        fail_access(dev, what, offset, "unknown register");
        return NULL;
    }
    if (!(known->access & access)) {
        bool is_tfu = strncmp(known->name, "hub.TFU_", 8) == 0;
        fail_access(dev, what, offset,
                    is_tfu                ? "the texture formatting unit (TFU) is not modelled"
                    : !known->access      ? "the register is not modelled"
                    : access == VGPU_READ ? "the register is write-only"
                                          : "the register is read-only");
        return NULL;
    }
    if (offset < V3D_BRIDGE && *v3d_reg(dev, BRIDGE_SW_INIT_1) & BRIDGE_SW_INIT_1_V3D_CLK_108) {
        fail_access(dev, what, offset, "the GPU is held in reset by the bridge (SW_INIT_1)");
        return NULL;
    }
    if (dev->has_board && offset < V3D_WINDOW_BYTES && !dev->chip->board_is_on(dev, offset))
        return NULL;
    return known;
}

static uint32_t read32(struct vgpu *gpu, uint32_t offset)
{
    struct v3d_device *dev = v3d_device_of(gpu);
    if (!find(dev, offset, VGPU_READ))
        return 0;
    uint32_t value = *v3d_reg(dev, offset);
    if (offset == HUB_MMUC_CONTROL && gpu->now_ns < dev->mmuc_flush_ns)
        value |= HUB_MMUC_CONTROL_FLUSHING;
    if (offset == HUB_MMU_CTL && gpu->now_ns < dev->tlb_clear_ns)
        value |= HUB_MMU_CTL_TLB_CLEARING;
    if (offset == CORE_CTL_L2TCACTL && gpu->now_ns >= dev->l2t_ns)
        value &= ~(CORE_CTL_L2TCACTL_TMUWCF | CORE_CTL_L2TCACTL_L2TFLS);
    return value;
}

static void write_mmu_cache_control(struct v3d_device *dev, uint32_t value)
{
    if (value & HUB_MMUC_CONTROL_FLUSH) {
        dev->mmuc_flush_ns = dev->base.now_ns + dev->base.options.latency_ns;
        dev->mmuc_clean = true;
    }
    *v3d_reg(dev, HUB_MMUC_CONTROL) = value & HUB_MMUC_CONTROL_ENABLE;
}

static void write_mmu_control(struct v3d_device *dev, uint32_t value)
{
    uint32_t old = *v3d_reg(dev, HUB_MMU_CTL);
    if (value & HUB_MMU_CTL_TLB_CLEAR) {
        dev->tlb_clear_ns = dev->base.now_ns + dev->base.options.latency_ns;
        /* What the MMU cache still holds would come back into the TLB. */
        if (dev->mmuc_clean || !(*v3d_reg(dev, HUB_MMUC_CONTROL) & HUB_MMUC_CONTROL_ENABLE))
            dev->mmu_stale = true;
    }
    /* Violation bits are cleared by writing one. */
    *v3d_reg(dev, HUB_MMU_CTL) =
        (value & ~(HUB_MMU_CTL_TLB_CLEAR | HUB_MMU_CTL_TLB_CLEARING | MMU_VIOLATIONS)) |
        (old & MMU_VIOLATIONS & ~value);
}

static void write_l2t_control(struct v3d_device *dev, uint32_t value)
{
    uint32_t mode = (value & CORE_CTL_L2TCACTL_FLM) >> 1;
    if (mode != L2T_FLUSH && mode != L2T_CLEAN) {
        vgpu_fail(&dev->base, "%s: write to core0 0x0030 (L2TCACTL) of 0x%08x: L2T mode %u is not modelled",
                  dev->chip->name, value, mode);
        return;
    }
    dev->l2t_ns = dev->base.now_ns + dev->base.options.latency_ns;
    *v3d_reg(dev, CORE_CTL_L2TCACTL) = value;
}

static void write_bridge_reset(struct v3d_device *dev, uint32_t value)
{
    uint32_t *init = v3d_reg(dev, BRIDGE_SW_INIT_1);
    if (value & ~*init & BRIDGE_SW_INIT_1_V3D_CLK_108) {
        v3d_reset(dev);
        dev->base.counters.resets++;
    }
    *init = value;
}

static void write_queued_config(struct v3d_device *dev, uint32_t offset, uint32_t value)
{
    if (*v3d_reg(dev, CORE_CSD_STATUS) & CORE_CSD_STATUS_HAVE_QUEUED) {
        fail_access(dev, "write to", offset, "a dispatch is queued already; it would be overwritten");
        return;
    }
    *v3d_reg(dev, offset) = value;
    if (offset == dev->chip->queued_config)
        v3d_csd_submit(dev);
}

static void write_interrupt(struct v3d_device *dev, uint32_t offset, uint32_t value)
{
    uint32_t base = offset < V3D_CORE ? V3D_HUB : V3D_CORE;
    uint32_t *status = v3d_reg(dev, base + HUB_INT_STS), *mask = v3d_reg(dev, base + HUB_INT_MSK_STS);
    switch (offset - base) {
    case HUB_INT_SET: *status |= value; break;
    case HUB_INT_CLR: *status &= ~value; break;
    case HUB_INT_MSK_SET: *mask |= value; break;
    case HUB_INT_MSK_CLR: *mask &= ~value; break;
    }
    v3d_update_interrupt(dev);
}

static void write32(struct vgpu *gpu, uint32_t offset, uint32_t value)
{
    struct v3d_device *dev = v3d_device_of(gpu);
    const struct vgpu_register *known = find(dev, offset, VGPU_WRITE);
    if (!known)
        return;
    if (value & ~known->bits) {
        const struct vgpu_block *block = v3d_block(dev->chip, offset);
        vgpu_fail(gpu, "%s: write to %s 0x%04x (%s) of 0x%08x: reserved or not modelled bits 0x%08x",
                  dev->chip->name, block->name, offset - block->offset, known->name, value,
                  value & ~known->bits);
        return;
    }
    switch (offset) {
    case HUB_INT_SET:
    case HUB_INT_CLR:
    case HUB_INT_MSK_SET:
    case HUB_INT_MSK_CLR:
    case CORE_INT_SET:
    case CORE_INT_CLR:
    case CORE_INT_MSK_SET:
    case CORE_INT_MSK_CLR: write_interrupt(dev, offset, value); return;
    case HUB_MMUC_CONTROL: write_mmu_cache_control(dev, value); return;
    case HUB_MMU_CTL: write_mmu_control(dev, value); return;
    case HUB_MMU_ADDR_CAP: dev->mmu_stale = true; break; /* a comparator, not cached */
    case CORE_CTL_SLCACTL:
        return; /* invalidates the slices' caches, which the model does not have; reads as zero */
    case CORE_CTL_L2TCACTL: write_l2t_control(dev, value); return;
    case BRIDGE_SW_INIT_1: write_bridge_reset(dev, value); return;
    case CORE_CLE_CT0QEA:
    case CORE_CLE_CT1QEA:
        *v3d_reg(dev, offset) = value;
        v3d_list_submit(dev, offset == CORE_CLE_CT0QEA ? VGPU_JOB_BIN : VGPU_JOB_RENDER);
        return;
    }
    if (offset - dev->chip->queued_config < 4 * dev->chip->config_words)
        write_queued_config(dev, offset, value);
    else if (offset >= V3D_WINDOW_BYTES)
        dev->chip->board_write(dev, known, value);
    else
        *v3d_reg(dev, offset) = value;
}

static void advance(struct vgpu *gpu)
{
    v3d_jobs_advance(v3d_device_of(gpu));
    v3d_sms_advance(v3d_device_of(gpu));
}

static void memory_changed(struct vgpu *gpu)
{
    v3d_mmu_memory_changed(&v3d_device_of(gpu)->mmu);
}

static void walk(struct vgpu *gpu, struct vgpu_run *run)
{
    v3d_mmu_walk(&v3d_device_of(gpu)->mmu, run);
}

#define KIND(kind_name, bytes, of_chip, lines)                                                               \
    {                                                                                                        \
        .family = {.name = kind_name,                                                                        \
                   .window_bytes = bytes,                                                                    \
                   .interrupt_lines = lines,                                                                 \
                   .executes_shaders = true,                                                                 \
                   .follows_data = true,                                                                     \
                   .reads_shaders = true,                                                                    \
                   .create = create,                                                                         \
                   .start = start,                                                                           \
                   .destroy = destroy,                                                                       \
                   .read32 = read32,                                                                         \
                   .write32 = write32,                                                                       \
                   .advance = advance,                                                                       \
                   .memory_changed = memory_changed,                                                         \
                   .walk = walk},                                                                            \
        .chip = &(of_chip),                                                                                  \
    }

static const struct v3d_kind v3d42 = KIND("v3d42", V3D_WINDOW_BYTES, v3d42_chip, 1);
static const struct v3d_kind v3d42_pi4 = KIND("v3d42-pi4", V3D_BOARD_WINDOW_BYTES, v3d42_chip, 1);
static const struct v3d_kind v3d71 = KIND("v3d71", V3D_WINDOW_BYTES, v3d71_chip, 2);
static const struct v3d_kind v3d71_pi5 = KIND("v3d71-pi5", V3D71_BOARD_WINDOW_BYTES, v3d71_chip, 2);
VGPU_FAMILIES(&v3d42.family, &v3d42_pi4.family, &v3d71.family, &v3d71_pi5.family);
