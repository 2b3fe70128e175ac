/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A virtual Mali: its state, and what its parts offer one another.
 * Sources: see mali_device.c.
 */
#ifndef GRAMOPHONE_MALI_DEVICE_H
#define GRAMOPHONE_MALI_DEVICE_H

#include <pthread.h>

#include "mali_chip.h"
#include "mali_memory.h"
#include "mali_registers.h"
#include "mali_touched.h"
#include "vgpu_device.h"
#include "workers.h"

enum { MALI_LINE_JOB, MALI_LINE_MMU, MALI_LINE_GPU, MALI_LINES };
enum { MALI_SHADER, MALI_TILER, MALI_L2, MALI_POWER_KINDS };

struct mali_power {
    uint32_t present, ready;
    uint32_t on, off; /* cores in transition */
    uint64_t due_ns;
};

/* How an address space translates, as of its last update. */
enum mali_mode { MALI_UNMAPPED, MALI_IDENTITY, MALI_LPAE, MALI_AARCH64 };

struct mali_space {
    enum mali_mode mode;
    uint64_t table;
    uint64_t busy_ns; /* when its command is done */
};

struct mali_slot {
    bool active, queued; /* runs a chain; has another one waiting in its _NEXT registers */
    bool hangs;
    uint32_t status; /* how the chain will have ended */
    uint64_t due_ns;
};

/* Physical memory that the owner has shown. */
struct mali_range {
    uint64_t pa, bytes;
    uint8_t *host;
};

enum { MALI_RANGES = 8 };
enum { MALI_REGISTER_BYTES = 0x80004 }; /* of the window: where registers lie that have a value */

struct mali_device {
    struct vgpu base;
    const struct mali_chip *chip;
    uint32_t reg[MALI_REGISTER_BYTES / 4];
    uint16_t known[MALI_REGISTER_BYTES /
                   4]; /* index in the chip's registers + 1, for the first JS, AS and doorbell */
    struct mali_power power[MALI_POWER_KINDS];
    struct mali_space space[MALI_AS_COUNT];
    struct mali_slot slot[MALI_JS_COUNT];
    struct mali_csf *csf;        /* of a chip that has streams */
    uint64_t reset_ns, clean_ns; /* when a command of the GPU is done; 0: none is at work */
    uint32_t chains_started;
    struct vgpu_budget chain; /* clauses that the latest chain translated and ran */
    unsigned latest_space;    /* of the latest chain */
    struct mali_touched touched;
    struct mali_range range[MALI_RANGES];
    unsigned ranges;      /* that were found; the latest ones are kept */
    pthread_mutex_t lock; /* of translation: workers of a compute job translate, too */
};

/* A GPU of this family: the chip is the one of the profile that its name starts with. */
struct mali_kind {
    struct vgpu_family family; /* first */
    const struct mali_chip *chip;
};

static inline struct mali_device *mali_device_of(struct vgpu *gpu)
{
    return (struct mali_device *)gpu;
}

static inline uint32_t *mali_reg(struct mali_device *dev, uint32_t offset)
{
    return &dev->reg[offset / 4];
}

/* A pair of registers, low word first. */
static inline uint64_t mali_reg64(struct mali_device *dev, uint32_t offset)
{
    return *mali_reg(dev, offset) | (uint64_t)*mali_reg(dev, offset + 4) << 32;
}

/* mali_device.c */
/* When what begins now will be done; the owner is asked to call again then. */
uint64_t mali_due(struct mali_device *dev);
void mali_raise(struct mali_device *dev, uint32_t rawstat, uint32_t bits);
/* The caches were cleaned and invalidated: the flush id counts on. */
void mali_flushed(struct mali_device *dev);

/* mali_jobs.c */
void mali_slot_write(struct mali_device *dev, unsigned slot, uint32_t in_slot, uint32_t value);
void mali_jobs_advance(struct mali_device *dev);
void mali_job_irq_clear(struct mali_device *dev, uint32_t bits);

/* mali_mmu.c */
void mali_space_write(struct mali_device *dev, unsigned space, uint32_t in_space, uint32_t value);
/* Copy bytes that the GPU reads or writes at a virtual address. False: a fault, which has been reported in
 * the address space's registers. */
bool mali_read(struct mali_device *dev, unsigned space, uint64_t va, void *data, uint32_t bytes);
/* The same of bytes that do not decide what the job does. */
bool mali_read_data(struct mali_device *dev, unsigned space, uint64_t va, void *data, uint32_t bytes);
bool mali_write(struct mali_device *dev, unsigned space, uint64_t va, const void *data, uint32_t bytes);
/* An address space as shaders see it; good for as long as the device. */
struct mali_memory mali_memory_of(struct mali_device *dev, unsigned space);
/* Report a fault in the address space's registers. */
void mali_report(struct mali_device *dev, unsigned space, const struct mali_fault *fault);
/* Report a translation fault that nothing caused (options.fault_job). */
void mali_mmu_inject_fault(struct mali_device *dev, unsigned space, uint64_t va);
void mali_mmu_walk(struct vgpu *gpu, struct vgpu_run *run);

#endif
