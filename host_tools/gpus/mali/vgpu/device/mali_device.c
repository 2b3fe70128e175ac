/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A virtual Mali (job manager generation): registers, reset, power, interrupts.
 *
 * Sequences and meanings: Linux 6.1 drivers/gpu/drm/panfrost (panfrost_gpu.c, panfrost_job.c, panfrost_mmu.c)
 * and the GPUReplay recordings, which show that powering the tiler powers the L2 cache it needs.
 */
#include "mali_device.h"

#include "mali_csf.h"

#include <stdlib.h>
#include <string.h>

#define FLUSH_ID_MASK 0x00ffffffu

uint64_t mali_due(struct mali_device *dev)
{
    uint64_t latency = dev->base.options.latency_ns;
    if (latency && dev->base.host.schedule)
        dev->base.host.schedule(dev->base.host.ctx, latency);
    return dev->base.now_ns + latency;
}

/* The first JS, AS or doorbell for an offset in any of them: they are described once. */
static uint32_t canonical(const struct mali_device *dev, uint32_t offset)
{
    if (!dev->chip->has_streams && offset >= MALI_JS && offset < MALI_JS + MALI_JS_COUNT * MALI_JS_BYTES)
        return MALI_JS + (offset - MALI_JS) % MALI_JS_BYTES;
    if (offset >= MALI_AS && offset < MALI_AS + MALI_AS_COUNT * MALI_AS_BYTES)
        return MALI_AS + (offset - MALI_AS) % MALI_AS_BYTES;
    if (offset >= MALI_G610_DOORBELL && offset < MALI_G610_WINDOW_BYTES)
        return MALI_G610_DOORBELL + (offset - MALI_G610_DOORBELL) % MALI_G610_DOORBELL_BYTES;
    return offset;
}

/* RAWSTAT, CLEAR, MASK and STATUS follow one another in all three blocks. */
static void update_lines(struct mali_device *dev)
{
    static const uint32_t blocks[MALI_LINES] = {JOB_IRQ_RAWSTAT, MMU_IRQ_RAWSTAT, GPU_IRQ_RAWSTAT};
    for (unsigned line = 0; line < MALI_LINES; line++) {
        uint32_t raw = *mali_reg(dev, blocks[line]), mask = *mali_reg(dev, blocks[line] + 8);
        *mali_reg(dev, blocks[line] + 12) = raw & mask;
        vgpu_set_level(&dev->base, line, raw & mask);
    }
}

void mali_raise(struct mali_device *dev, uint32_t rawstat, uint32_t bits)
{
    *mali_reg(dev, rawstat) |= bits;
    update_lines(dev);
}

static uint32_t flush_register(const struct mali_device *dev)
{
    return dev->chip->has_streams ? CSF_USER_LATEST_FLUSH : GPU_LATEST_FLUSH;
}

void mali_flushed(struct mali_device *dev)
{
    uint32_t *id = mali_reg(dev, flush_register(dev));
    *id = (*id + 1) & FLUSH_ID_MASK;
}

/* Registers to their reset values; what GPU_IRQ_RAWSTAT says and the flush id stay. */
static void reset(struct mali_device *dev)
{
    uint32_t raw = *mali_reg(dev, GPU_IRQ_RAWSTAT), flush = *mali_reg(dev, flush_register(dev));
    memset(dev->reg, 0, sizeof(dev->reg));
    for (size_t i = 0; i < dev->chip->register_count; i++)
        *mali_reg(dev, dev->chip->registers[i].offset) = dev->chip->registers[i].reset;
    for (size_t i = 0; i < dev->chip->reset_count; i++)
        *mali_reg(dev, dev->chip->resets[i].offset) = dev->chip->resets[i].value;
    *mali_reg(dev, GPU_IRQ_RAWSTAT) = raw;
    *mali_reg(dev, flush_register(dev)) = flush;
    for (unsigned kind = 0; kind < MALI_POWER_KINDS; kind++)
        dev->power[kind] = (struct mali_power){.present = *mali_reg(dev, GPU_SHADER_PRESENT_LO + 16 * kind)};
    memset(dev->space, 0, sizeof(dev->space));
    memset(dev->slot, 0, sizeof(dev->slot));
    if (dev->chip->has_streams)
        mali_csf_reset(dev);
    dev->clean_ns = 0;
    update_lines(dev);
}

static struct vgpu *create(void)
{
    struct mali_device *dev = calloc(1, sizeof(*dev));
    if (dev)
        pthread_mutex_init(&dev->lock, NULL);
    return (struct vgpu *)dev;
}

static void start(struct vgpu *gpu)
{
    struct mali_device *dev = mali_device_of(gpu);
    dev->chip = ((const struct mali_kind *)gpu->family)->chip;
    for (size_t i = 0; i < dev->chip->register_count; i++) {
        const struct vgpu_register *known = &dev->chip->registers[i];
        dev->known[known->offset / 4] = (uint16_t)(i + 1);
        if (known->offset == flush_register(dev))
            *mali_reg(dev, known->offset) = known->reset;
    }
    if (dev->chip->has_streams && !mali_csf_create(dev))
        vgpu_fail(gpu, "%s: out of memory", dev->chip->name);
    else
        reset(dev);
}

static void destroy(struct vgpu *gpu)
{
    struct mali_device *dev = mali_device_of(gpu);
    mali_touched_clear(&dev->touched);
    pthread_mutex_destroy(&dev->lock);
    free(dev->csf);
    free(dev);
}

static void memory_changed(struct vgpu *gpu)
{
    memset(mali_device_of(gpu)->range, 0, sizeof(mali_device_of(gpu)->range));
}

static const struct vgpu_register *find(struct mali_device *dev, uint32_t offset, uint8_t access)
{
    const char *what = access == VGPU_READ ? "read of" : "write to";
    uint32_t place = canonical(dev, offset);
    uint16_t index = place < MALI_REGISTER_BYTES ? dev->known[place / 4] : 0;
    if (!index) {
        vgpu_fail(&dev->base, "%s: %s 0x%04x: unknown register", dev->chip->name, what, offset);
        return NULL;
    }
    const struct vgpu_register *known = &dev->chip->registers[index - 1];
    if (!(known->access & access)) {
        vgpu_fail(&dev->base, "%s: %s 0x%04x (%s): the register is %s", dev->chip->name, what, offset,
                  known->name,
                  !known->access        ? "not modelled"
                  : access == VGPU_READ ? "write-only"
                                        : "read-only");
        return NULL;
    }
    return known;
}

/* Of power there are rows of registers: of the shader, the tiler and the L2 cache, 16 bytes each,
 * low and high word. */
static bool is_power(uint32_t offset, uint32_t block)
{
    return offset >= block && offset < block + 16 * MALI_POWER_KINDS;
}

static uint32_t read32(struct vgpu *gpu, uint32_t offset)
{
    struct mali_device *dev = mali_device_of(gpu);
    if (!find(dev, offset, VGPU_READ))
        return 0;
    /* All cores are in the low words: there are at most 32. */
    if (is_power(offset, GPU_SHADER_READY_LO) && offset % 8 == 0)
        return dev->power[(offset - GPU_SHADER_READY_LO) / 16].ready;
    if (is_power(offset, GPU_SHADER_PWRTRANS_LO) && offset % 8 == 0) {
        const struct mali_power *power = &dev->power[(offset - GPU_SHADER_PWRTRANS_LO) / 16];
        return power->on | power->off;
    }
    if (canonical(dev, offset) == MALI_AS + AS_STATUS)
        return gpu->now_ns < dev->space[(offset - MALI_AS) / MALI_AS_BYTES].busy_ns;
    return *mali_reg(dev, offset);
}

static void power_advance(struct mali_device *dev)
{
    bool changed = false, waiting = false;
    for (unsigned kind = 0; kind < MALI_POWER_KINDS; kind++) {
        struct mali_power *power = &dev->power[kind];
        if (!(power->on | power->off))
            continue;
        if (dev->base.now_ns < power->due_ns) {
            waiting = true;
            continue;
        }
        power->ready = (power->ready | power->on) & ~power->off;
        power->on = power->off = 0;
        changed = true;
    }
    if (changed)
        mali_raise(dev, GPU_IRQ_RAWSTAT,
                   GPU_IRQ_RAWSTAT_POWER_CHANGED_SINGLE | (waiting ? 0 : GPU_IRQ_RAWSTAT_POWER_CHANGED_ALL));
}

static void power_change(struct mali_device *dev, unsigned kind, uint32_t cores, bool on)
{
    struct mali_power *power = &dev->power[kind];
    cores &= power->present;
    if (on && cores && kind != MALI_L2)
        power_change(dev, MALI_L2, UINT32_MAX, true);
    cores &= on ? ~power->ready : power->ready;
    if (!cores)
        return;
    power->on = on ? power->on | cores : power->on & ~cores;
    power->off = on ? power->off & ~cores : power->off | cores;
    power->due_ns = mali_due(dev);
}

static void command(struct mali_device *dev, uint32_t value)
{
    switch (dev->chip->has_streams ? mali_csf_command(value) : value) {
    case GPU_CMD_NOP: return;
    case GPU_CMD_SOFT_RESET:
    case GPU_CMD_HARD_RESET:
        reset(dev);
        dev->base.counters.resets++;
        dev->reset_ns = mali_due(dev) + 1;
        return;
    case GPU_CMD_CLEAN:
    case GPU_CMD_CLEAN_INV:
        mali_flushed(dev);
        dev->clean_ns = mali_due(dev) + 1;
        return;
    default:
        vgpu_fail(&dev->base, "%s: write to 0x%04x (gpu.COMMAND) of 0x%08x: command is not modelled",
                  dev->chip->name, GPU_COMMAND, value);
    }
}

static void advance(struct vgpu *gpu)
{
    struct mali_device *dev = mali_device_of(gpu);
    if (dev->reset_ns && gpu->now_ns + 1 >= dev->reset_ns) {
        dev->reset_ns = 0;
        mali_raise(dev, GPU_IRQ_RAWSTAT, GPU_IRQ_RAWSTAT_RESET_COMPLETED);
    }
    if (dev->clean_ns && gpu->now_ns + 1 >= dev->clean_ns) {
        dev->clean_ns = 0;
        mali_raise(dev, GPU_IRQ_RAWSTAT, GPU_IRQ_RAWSTAT_CLEAN_CACHES_COMPLETED);
    }
    power_advance(dev);
    if (dev->chip->has_streams)
        mali_csf_advance(dev);
    else
        mali_jobs_advance(dev);
}

static void write_register(struct mali_device *dev, uint32_t offset, uint32_t value)
{
    if (is_power(offset, GPU_SHADER_PWRON_LO) || is_power(offset, GPU_SHADER_PWROFF_LO)) {
        bool on = is_power(offset, GPU_SHADER_PWRON_LO);
        if (offset % 8 == 0)
            power_change(dev, (offset - (on ? GPU_SHADER_PWRON_LO : GPU_SHADER_PWROFF_LO)) / 16, value, on);
        return;
    }
    if (offset >= MALI_AS && offset < MALI_AS + MALI_AS_COUNT * MALI_AS_BYTES) {
        *mali_reg(dev, offset) = value;
        mali_space_write(dev, (offset - MALI_AS) / MALI_AS_BYTES, (offset - MALI_AS) % MALI_AS_BYTES, value);
        return;
    }
    if (dev->chip->has_streams && mali_csf_write(dev, offset, value))
        return;
    if (!dev->chip->has_streams && offset >= MALI_JS && offset < MALI_JS + MALI_JS_COUNT * MALI_JS_BYTES) {
        mali_slot_write(dev, (offset - MALI_JS) / MALI_JS_BYTES, (offset - MALI_JS) % MALI_JS_BYTES, value);
        return;
    }
    switch (offset) {
    case GPU_COMMAND: command(dev, value); return;
    case JOB_IRQ_CLEAR: mali_job_irq_clear(dev, value); break;
    case GPU_IRQ_CLEAR: *mali_reg(dev, GPU_IRQ_RAWSTAT) &= ~value; break;
    case MMU_IRQ_CLEAR: *mali_reg(dev, MMU_IRQ_RAWSTAT) &= ~value; break;
    default: *mali_reg(dev, offset) = value;
    }
    update_lines(dev);
}

static void write32(struct vgpu *gpu, uint32_t offset, uint32_t value)
{
    struct mali_device *dev = mali_device_of(gpu);
    const struct vgpu_register *known = find(dev, offset, VGPU_WRITE);
    if (!known)
        return;
    if (value & ~known->bits) {
        vgpu_fail(gpu, "%s: write to 0x%04x (%s) of 0x%08x: reserved or not modelled bits 0x%08x",
                  mali_device_of(gpu)->chip->name, offset, known->name, value, value & ~known->bits);
        return;
    }
    write_register(dev, offset, value);
    if (gpu->error[0])
        return;
    advance(gpu); /* what takes no time is done now */
}

#define KIND(kind_name, of_chip, shaders) KIND_OF(kind_name, of_chip, shaders, MALI_WINDOW_BYTES)
#define KIND_OF(kind_name, of_chip, shaders, window)                                                         \
    {                                                                                                        \
        .family = {.name = kind_name,                                                                        \
                   .window_bytes = (window),                                                                 \
                   .interrupt_lines = MALI_LINES,                                                            \
                   .executes_shaders = shaders,                                                              \
                   .reads_shaders = shaders,                                                                 \
                   .create = create,                                                                         \
                   .start = start,                                                                           \
                   .destroy = destroy,                                                                       \
                   .read32 = read32,                                                                         \
                   .write32 = write32,                                                                       \
                   .advance = advance,                                                                       \
                   .memory_changed = memory_changed,                                                         \
                   .walk = mali_mmu_walk},                                                                   \
        .chip = &(of_chip),                                                                                  \
    }

static const struct mali_kind g71 = KIND("mali_g71", mali_g71_chip, true);
static const struct mali_kind g71_registers = KIND("mali_g71-noshaders", mali_g71_chip, false);
static const struct mali_kind g71_arch60 = KIND("mali_g71-arch60", mali_g71_arch60_chip, true);
static const struct mali_kind g72 = KIND("mali_g72", mali_g72_chip, true);
static const struct mali_kind g52r1 = KIND("mali_g52r1", mali_g52r1_chip, true);
static const struct mali_kind g31 = KIND("mali_g31", mali_g31_chip, true);
static const struct mali_kind g610 = KIND_OF("mali_g610", mali_g610_chip, true, MALI_G610_WINDOW_BYTES);
VGPU_FAMILIES(&g71.family, &g71_registers.family, &g71_arch60.family, &g72.family, &g52r1.family, &g31.family,
              &g610.family);
