/*
 * Registers of a Mali G71 (job manager generation): offsets in the window, bits, and what may be done to
 * them.
 *
 * Names, offsets and bits: Linux 6.1 drivers/gpu/drm/panfrost/panfrost_regs.h; COHERENCY_ENABLE, JS_FEATURES
 * and the values read: the GPUReplay recordings. The blocks JS and AS repeat; their offsets are those of the
 * first.
 */
#ifndef GRAMOPHONE_MALI_REGISTERS_H
#define GRAMOPHONE_MALI_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

enum {
    MALI_WINDOW_BYTES = 0x4000,
    MALI_JS = 0x1800,
    MALI_JS_BYTES = 0x80,
    MALI_SLOTS = 3,
    MALI_AS = 0x2400,
    MALI_AS_BYTES = 0x40,
    MALI_SPACES = 8,
};

enum {
    GPU_ID = 0x0000,
    GPU_IRQ_RAWSTAT = 0x0020, /* RAWSTAT, CLEAR, MASK, STATUS follow one another in all three blocks */
    GPU_IRQ_CLEAR = 0x0024,
    GPU_IRQ_MASK = 0x0028,
    GPU_IRQ_STATUS = 0x002c,
    GPU_COMMAND = 0x0030,
    GPU_STATUS = 0x0034,
    GPU_LATEST_FLUSH = 0x0038,
    GPU_PRESENT = 0x0100, /* from here on: shader, tiler and L2, 16 bytes each, low and high word */
    GPU_READY = 0x0140,
    GPU_PWRON = 0x0180,
    GPU_PWROFF = 0x01c0,
    GPU_PWRTRANS = 0x0200,
    GPU_PWRACTIVE = 0x0240,
    GPU_POWER_END = 0x0270,
    JOB_IRQ_RAWSTAT = 0x1000,
    JOB_IRQ_CLEAR = 0x1004,
    JOB_IRQ_MASK = 0x1008,
    JOB_IRQ_STATUS = 0x100c,
    JOB_JS_STATE = 0x1010,
    JS_HEAD = 0x00, /* in a slot; _NEXT is what the slot takes over when it starts */
    JS_TAIL = 0x08,
    JS_AFFINITY = 0x10,
    JS_CONFIG = 0x18,
    JS_COMMAND = 0x20,
    JS_STATUS = 0x24,
    JS_NEXT = 0x40,
    JS_COMMAND_NEXT = 0x60,
    JS_FLUSH_ID_NEXT = 0x70,
    MMU_IRQ_RAWSTAT = 0x2000,
    MMU_IRQ_CLEAR = 0x2004,
    MMU_IRQ_MASK = 0x2008,
    MMU_IRQ_STATUS = 0x200c,
    AS_TRANSTAB = 0x00, /* in an address space */
    AS_MEMATTR = 0x08,
    AS_COMMAND = 0x18,
    AS_FAULTSTATUS = 0x1c,
    AS_FAULTADDRESS = 0x20,
    AS_STATUS = 0x28,
    AS_TRANSCFG = 0x30,
};

/* GPU_IRQ */
#define GPU_IRQ_RESET_COMPLETED (1u << 8)
#define GPU_IRQ_POWER_CHANGED_SINGLE (1u << 9)
#define GPU_IRQ_POWER_CHANGED_ALL (1u << 10)
#define GPU_IRQ_CLEAN_CACHES_COMPLETED (1u << 17)

enum {
    GPU_CMD_NOP = 0,
    GPU_CMD_SOFT_RESET = 1,
    GPU_CMD_HARD_RESET = 2,
    GPU_CMD_CLEAN = 7,
    GPU_CMD_CLEAN_INV = 8
};
enum {
    JS_CMD_NOP,
    JS_CMD_START,
    JS_CMD_SOFT_STOP,
    JS_CMD_HARD_STOP,
    JS_CMD_SOFT_STOP_0,
    JS_CMD_HARD_STOP_0,
    JS_CMD_SOFT_STOP_1,
    JS_CMD_HARD_STOP_1
};
enum { AS_CMD_NOP, AS_CMD_UPDATE, AS_CMD_LOCK, AS_CMD_UNLOCK, AS_CMD_FLUSH_PT, AS_CMD_FLUSH_MEM };

/* JS_CONFIG */
#define JS_CONFIG_AS 0xfu
#define JS_CONFIG_START_FLUSH (3u << 8)
#define JS_CONFIG_JOB_CHAIN (1u << 11)
#define JS_CONFIG_END_FLUSH (3u << 12)
#define JS_CONFIG_FLUSH_REDUCTION (1u << 14)
#define JS_CONFIG_NO_WRITE_BACK (1u << 15)

/* Exceptions, in JS_STATUS, job headers and AS_FAULTSTATUS (panfrost_device.h). */
enum {
    MALI_DONE = 0x01,
    MALI_TERMINATED = 0x04,
    MALI_ACTIVE = 0x08,
    MALI_JOB_POWER_FAULT = 0x41,
    MALI_JOB_READ_FAULT = 0x42,
    MALI_JOB_WRITE_FAULT = 0x43,
    MALI_JOB_AFFINITY_FAULT = 0x44,
    MALI_TRANSLATION_FAULT = 0xc0, /* these: plus the level */
    MALI_PERMISSION_FAULT = 0xc8,
    MALI_TABLE_BUS_FAULT = 0xd0,
    MALI_ACCESS_FLAG_FAULT = 0xd8,
    MALI_ADDRESS_IN_FAULT = 0xe0,
    MALI_ADDRESS_OUT_FAULT = 0xe4,
};

enum mali_access { MALI_READ = 1, MALI_WRITE = 2 };

struct mali_register {
    const char *name;
    uint32_t offset;
    uint32_t reset;
    uint32_t writable; /* bits that may be set in a write */
    uint8_t access;
};

extern const struct mali_register mali_registers[];
extern const size_t mali_register_count;

#endif
