/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory as the shader engine of a Mali sees it: one address space, whoever translates. The device's MMU is
 * behind it (device/mali_mmu.c). Source of the exceptions: Linux 6.1
 * drivers/gpu/drm/panfrost/panfrost_device.h.
 */
#ifndef GRAMOPHONE_MALI_MEMORY_H
#define GRAMOPHONE_MALI_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "access_map.h"

/* Exceptions, in JS_STATUS, job headers and AS_FAULTSTATUS. */
enum {
    MALI_DONE = 0x01,
    MALI_TERMINATED = 0x04,
    MALI_ACTIVE = 0x08,
    MALI_JOB_CONFIG_FAULT = 0x40,
    MALI_JOB_POWER_FAULT = 0x41,
    MALI_JOB_READ_FAULT = 0x42,
    MALI_JOB_WRITE_FAULT = 0x43,
    MALI_JOB_AFFINITY_FAULT = 0x44,
    MALI_INSTR_INVALID_PC = 0x50,
    MALI_INSTR_INVALID_ENC = 0x51,
    MALI_INSTR_OPERAND_FAULT = 0x53,
    MALI_INSTR_TLS_FAULT = 0x54,
    MALI_INSTR_BARRIER_FAULT = 0x55,
    MALI_INSTR_ALIGN_FAULT = 0x56,
    MALI_TRANSLATION_FAULT = 0xc0, /* these: plus the level */
    MALI_PERMISSION_FAULT = 0xc8,
    MALI_TABLE_BUS_FAULT = 0xd0,
    MALI_ACCESS_FLAG_FAULT = 0xd8,
    MALI_ADDRESS_IN_FAULT = 0xe0,
    MALI_ADDRESS_OUT_FAULT = 0xe4,
};

enum mali_access { MALI_EXECUTE = 1, MALI_READ = 2, MALI_WRITE = 3 }; /* AS_FAULTSTATUS 9:8 */

/* An access that is not granted. */
struct mali_fault {
    uint64_t va;
    uint32_t exception;
    enum mali_access access;
};

struct mali_memory {
    /* Host address of `bytes` bytes at a virtual address, all in one page; any thread may ask. To note what
     * is accessed, in *flags, is the caller's; NULL there: no access map is kept. NULL: *fault says why,
     * which is not reported yet. */
    uint8_t *(*host)(const struct mali_memory *memory, uint64_t va, uint32_t bytes, enum mali_access access,
                     struct mali_fault *fault, uint8_t **flags);
    bool tracks;    /* an access map is kept */
    unsigned space; /* number of the address space */
    void *owner;    /* of whom `host` is */
};

/* The same for what decides what a job does, as code and descriptors; it is noted. */
static inline uint8_t *mali_command(const struct mali_memory *memory, uint64_t va, uint32_t bytes,
                                    enum mali_access access, struct mali_fault *fault)
{
    uint8_t *flags = NULL, *at = memory->host(memory, va, bytes, access, fault, &flags);

    if (flags && access == MALI_WRITE)
        access_map_mark(flags, bytes, true);
    else if (flags)
        access_map_mark_command(flags, bytes);
    return at;
}

#endif
