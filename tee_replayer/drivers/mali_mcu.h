/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The microcontroller of a Mali-G610, as its nano driver boots it and starts its only group. Order and
 * layout: Linux 6.12 drivers/gpu/drm/panthor (panthor_fw.h, panthor_fw.c, panthor_sched.c).
 */
#ifndef GRAMOPHONE_MALI_MCU_H
#define GRAMOPHONE_MALI_MCU_H

#include "crypto.h"
#include "gpu_firmware.h"
#include "mali.h"

enum {
    SPACE = 0,
    FIRMWARE = GR_ADDRESS_SPACES - 1,
    SOFT_RESET = 0x101, /* gpu.COMMAND: type and payload */
    HARD_RESET = 0x201,
    LOCK = 2, /* as.COMMAND */
    FLUSH_MEM = 5,
    WHOLE_SPACE = 0x3f, /* as.LOCKADDR: 2^64 bytes from 0 on */
    CONTROL_OFF = 0,    /* gpu.MCU_CONTROL */
    CONTROL_AUTO = 2,
    STATUS_OFF = 0, /* gpu.MCU_STATUS */
    STATUS_ON = 1,
    L2 = 1,          /* gpu.L2_PWRON, gpu.L2_READY */
    GPU_FAULTS = 3,  /* gpu.IRQ_RAWSTAT */
    SPACE_FAULT = 1, /* mmu.IRQ_RAWSTAT, of the first address space */
    GPU_REPORT_SHIFT = 8,
    JOB_LINE = 0,
    ANSWER_US = 1000000, /* as Linux waits for a boot; ten times what it gives a request */
    POLL_US = 1000,
    /* Pages of our own, by their number; then the sections. */
    RING_PAGE = 0,
    SYNC_PAGE = 1,
    INTERFACE_PAGES = 2,
    SUSPEND_AT = 4,
    SUSPEND_PAGES = 16, /* of each of two buffers */
    SECTIONS_AT = SUSPEND_AT + 2 * SUSPEND_PAGES,
    TABLES_OF_A_PIECE = ROOT_SHIFT / LEVEL_BITS,
    OWN_PIECES = 3, /* the ring with the word behind it, its interface, the buffers */
    /* Where the microcontroller has them, above its sections. */
    INTERFACE_VA = 0x10000000,
    SUSPEND_VA = 0x10100000,
    RING_OUTPUT = GR_PAGE_BYTES,
    /* Words of what is shared, in bytes. */
    VERSION = 0,
    GROUP_CONTROL = 0x1000,
    GROUP_SUSPEND = 0xc,
    GROUP_PROTECTED = 0x10,
    REQUEST = 0, /* of an input; of an output: what is acknowledged */
    IRQ_MASK = 4,
    BELL = 8,
    GLOBAL_REQUESTS = 0x40e, /* progress timer, cores, power-off timer, idle timer */
    GLOBAL_PROGRESS = 0x10,
    GLOBAL_POWER_OFF = 0x14,
    GLOBAL_CORES = 0x18,
    GLOBAL_IDLE = 0x80,
    GROUP_STATE = 7,
    GROUP_CORES = 0x20,
    GROUP_ENDPOINTS = 0x34,
    GROUP_BUFFERS = 0x40,
    GROUP_SPACE = 0x50,
    START = 1,
    ENDPOINT_REQUEST = 0x10,
    SYNC_EVENT = 1 << 28,
    STREAM_CONFIG = 4,
    STREAM_RING = 0x10,
    STREAM_INTERFACE = 0x30,
    STREAM_FAULT = 0x80,
    STREAM_FATAL = 0x84,
    OUR_BELL = 1 << 8, /* of a stream's configuration: doorbell 1 */
    TICKS_SHIFT = 10,  /* of timers */
    GROUP_IRQ = 1,     /* job.IRQ_RAWSTAT: the first group */
    GLOBAL_IRQ = 31,
    /* Instructions of streams. */
    OPCODE_SHIFT = 56,
    REGISTER_SHIFT = 48,
    INSTRUCTION_BYTES = 8,
    CALLING = 8, /* instructions that a call takes */
};
#define RING_VA (UINT64_C(1) << 47) /* of the trace's address space: what lies above is ours */
#define INSTRUCTION(op, to, low) ((uint64_t)(op) << 56 | (uint64_t)(to) << 48 | (low))
#define WAIT_ALL INSTRUCTION(3, 0, 0xff0000u)
#define CALL_92 INSTRUCTION(32, 0, UINT64_C(92) << 40 | UINT64_C(94) << 32)
#define SYNC_ADD_92 INSTRUCTION(51, 0, UINT64_C(92) << 40 | UINT64_C(94) << 32)

static uint64_t own_pages(void)
{
    return SECTIONS_AT + gr_gpu_firmware.pages;
}

static uint64_t tables_end(const struct gr_replayer *r)
{
    return GR_DRIVER_END(r) - own_pages() * GR_PAGE_BYTES;
}

uint64_t gr_driver_bytes(const struct gr_replayer *r)
{
    return table_bytes(r) +
           (own_pages() + (gr_gpu_firmware.sections + OWN_PIECES) * TABLES_OF_A_PIECE) * GR_PAGE_BYTES;
}

static uint8_t *own_page(const struct gr_replayer *r, uint32_t number)
{
    return r->memory.base + tables_end(r) + (uint64_t)number * GR_PAGE_BYTES;
}

/* A word that the microcontroller also has: of the shared section, by its place there. */
static volatile uint32_t *shared(const struct gr_replayer *r, uint32_t at)
{
    return (volatile uint32_t *)(void *)(own_page(r, SECTIONS_AT + gr_gpu_firmware.shared_page) + at);
}

static volatile uint64_t *own64(const struct gr_replayer *r, uint32_t page, uint32_t at)
{
    return (volatile uint64_t *)(void *)(own_page(r, page) + at);
}

static void set64(const struct gr_replayer *r, uint32_t at, uint64_t value)
{
    *shared(r, at) = (uint32_t)value;
    *shared(r, at + 4) = (uint32_t)(value >> 32);
}

/* The GPU's number of an address space: the next one. */
static uint32_t hardware(uint32_t space)
{
    return (space + 1) % GR_ADDRESS_SPACES;
}

static void set_table(const struct gr_replayer *r, uint32_t space)
{
    point_space(hardware(space), table_phys(r, space));
    gr_port_write32(GR_AS0_COMMAND + hardware(space) * SPACE_BYTES, UPDATE);
}

/* Map pages of our own, which lie one after the other. */
static enum gr_status map_own(struct gr_replayer *r, uint32_t space, uint64_t va, uint32_t page,
                              uint32_t pages, uint32_t flags)
{
    const uint64_t first = va / GR_PAGE_BYTES;
    const struct gr_action a = {
        .arg = (uint16_t)(space | first >> 32 << 4),
        .flags = (uint8_t)flags,
        .value = pages,
        .a = (uint32_t)first,
        .b = (uint32_t)((tables_end(r) + (uint64_t)page * GR_PAGE_BYTES) / GR_PAGE_BYTES),
    };
    return map_pages(r, &a);
}

/* Put the sections where the microcontroller looks for them, as they are in the file. */
static enum gr_status lay_out(struct gr_replayer *r)
{
    const struct gr_gpu_firmware *firmware = &gr_gpu_firmware;
    const uint32_t both = GR_MAP_GPU_MEM_READ | GR_MAP_GPU_MEM_WRITE;
    gr_wipe(own_page(r, 0), own_pages() * GR_PAGE_BYTES);
    enum gr_status status = map_own(r, SPACE, RING_VA, RING_PAGE, 2, both);
    if (status == GR_STATUS_OK)
        status = map_own(r, FIRMWARE, INTERFACE_VA, INTERFACE_PAGES, 2, both);
    if (status == GR_STATUS_OK)
        status = map_own(r, FIRMWARE, SUSPEND_VA, SUSPEND_AT, 2 * SUSPEND_PAGES, both);
    uint32_t page = SECTIONS_AT;
    for (uint32_t i = 0; i < firmware->sections && status == GR_STATUS_OK; i++) {
        const struct gr_gpu_section *s = &firmware->section[i];
        memcpy(own_page(r, page), firmware->file + s->at, s->from_file);
        status = map_own(r, FIRMWARE, s->va, page, s->bytes / GR_PAGE_BYTES, s->flags);
        page += s->bytes / GR_PAGE_BYTES;
    }
    return status;
}

/* Wait until a word has a value under a mask, at most so long; what the microcontroller tells is taken. */
static bool answers(volatile const uint32_t *word, uint32_t mask, uint32_t value, uint64_t us)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        const bool is_late = gr_port_now_us() - start >= us;
        if ((*word & mask) == value)
            return true;
        if (is_late)
            return false;
        gr_port_wait_irq(JOB_LINE, POLL_US);
        gr_port_write32(GR_JOB_IRQ_CLEAR, gr_port_read32(GR_JOB_IRQ_RAWSTAT));
    }
}

/* The same of a register. */
static bool register_is(uint32_t offset, uint32_t mask, uint32_t value)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        const bool is_late = gr_port_now_us() - start >= ANSWER_US;
        if ((gr_port_read32(offset) & mask) == value)
            return true;
        if (is_late)
            return false;
    }
}

static void ring(void)
{
    gr_port_write32(GR_DOORBELL0_RING, 1);
}

/* Cores, and no timer that would end a job: the replayer has its own. */
static bool configure(const struct gr_replayer *r)
{
    const struct gr_gpu_firmware *f = &gr_gpu_firmware;
    const uint32_t in = f->global_input, wanted = ~*shared(r, f->global_output + REQUEST) & GLOBAL_REQUESTS;
    *shared(r, in + GLOBAL_PROGRESS) = UINT32_MAX >> TICKS_SHIFT;
    *shared(r, in + GLOBAL_POWER_OFF) = UINT32_MAX >> TICKS_SHIFT;
    *shared(r, in + GLOBAL_IDLE) = UINT32_MAX >> TICKS_SHIFT;
    set64(r, in + GLOBAL_CORES, gr_port_read32(GR_GPU_SHADER_PRESENT_LO));
    *shared(r, in + IRQ_MASK) = GLOBAL_REQUESTS;
    *shared(r, in + REQUEST) = wanted;
    ring();
    return answers(shared(r, f->global_output + REQUEST), GLOBAL_REQUESTS, wanted, ANSWER_US);
}

/* The first group with its first stream, in the trace's address space. */
static bool start_group(const struct gr_replayer *r)
{
    const struct gr_gpu_firmware *f = &gr_gpu_firmware;
    const uint32_t group = f->group_input, stream = f->stream_input;
    const uint32_t cores = gr_port_read32(GR_GPU_SHADER_PRESENT_LO);
    uint32_t endpoints = 0;
    for (uint32_t i = 0; i < 32; i++)
        endpoints += cores >> i & 1;
    *shared(r, stream + STREAM_CONFIG) = OUR_BELL;
    set64(r, stream + STREAM_RING, RING_VA);
    set64(r, stream + STREAM_RING + 8, GR_PAGE_BYTES);
    set64(r, stream + STREAM_INTERFACE, INTERFACE_VA);
    set64(r, stream + STREAM_INTERFACE + 8, INTERFACE_VA + RING_OUTPUT);
    *shared(r, stream + REQUEST) = START;
    set64(r, group + GROUP_CORES, cores);
    set64(r, group + GROUP_CORES + 8, cores);
    *shared(r, group + GROUP_ENDPOINTS) = endpoints;
    set64(r, group + GROUP_BUFFERS, SUSPEND_VA);
    set64(r, group + GROUP_BUFFERS + 8, SUSPEND_VA + SUSPEND_PAGES * GR_PAGE_BYTES);
    *shared(r, group + GROUP_SPACE) = hardware(SPACE);
    *shared(r, group + IRQ_MASK) = UINT32_MAX;
    *shared(r, group + BELL) = 1; /* the stream */
    *shared(r, group + REQUEST) = START | ENDPOINT_REQUEST;
    *shared(r, f->global_input + BELL) = 1; /* the group */
    ring();
    return answers(shared(r, f->group_output + REQUEST), GROUP_STATE, START, ANSWER_US);
}

/* Whether what the firmware says of itself is what its file does. */
static bool is_as_expected(const struct gr_replayer *r)
{
    const uint32_t most = SUSPEND_PAGES * GR_PAGE_BYTES;
    return *shared(r, VERSION) && *shared(r, GROUP_CONTROL + GROUP_SUSPEND) <= most &&
           *shared(r, GROUP_CONTROL + GROUP_PROTECTED) <= most;
}

/* After a reset: nobody else's firmware runs, and none has run since. */
static enum gr_status boot(struct gr_replayer *r)
{
    const struct gr_gpu_firmware *firmware = &gr_gpu_firmware;
    uint8_t digest[32];
    if (gr_port_read32(GR_GPU_MCU_STATUS) != STATUS_OFF ||
        !gr_sha256(firmware->file, firmware->bytes, digest) ||
        !gr_is_same(digest, firmware->sha256, sizeof digest))
        return GR_STATUS_FIRMWARE;
    const enum gr_status status = lay_out(r);
    if (status != GR_STATUS_OK)
        return status;
    set_table(r, FIRMWARE);
    set_table(r, SPACE);
    gr_port_write32(GR_GPU_L2_PWRON_LO, L2);
    gr_port_write32(GR_JOB_IRQ_MASK, UINT32_MAX);
    if (!register_is(GR_GPU_L2_READY_LO, L2, L2))
        return GR_STATUS_FIRMWARE;
    gr_port_write32(GR_GPU_MCU_CONTROL, CONTROL_AUTO);
    if (!register_is(GR_JOB_IRQ_RAWSTAT, 1u << GLOBAL_IRQ, 1u << GLOBAL_IRQ) ||
        gr_port_read32(GR_GPU_MCU_STATUS) != STATUS_ON)
        return GR_STATUS_FIRMWARE;
    gr_port_write32(GR_JOB_IRQ_CLEAR, UINT32_MAX);
    return is_as_expected(r) && configure(r) && start_group(r) ? GR_STATUS_OK : GR_STATUS_FIRMWARE;
}

#endif
