/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registers of Malis of the job manager generation: all have the places that the G71's table has, which is
 * generated from trace_format/gpus/mali_g71.toml. That names the sources: Linux 6.1
 * drivers/gpu/drm/panfrost/panfrost_regs.h and the GPUReplay recordings. Commands and exceptions:
 * panfrost_regs.h and panfrost_device.h there.
 */
#ifndef GRAMOPHONE_MALI_REGISTERS_H
#define GRAMOPHONE_MALI_REGISTERS_H

#include <stddef.h>
#include <stdint.h>

#include "mali_register_map.h"
#include "vgpu_register.h"

enum { JS_NEXT = JS_HEAD_NEXT_LO }; /* what the slot takes over when it starts: as JS_HEAD_LO to JS_CONFIG */

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

/* Exceptions, in JS_STATUS, job headers and AS_FAULTSTATUS (panfrost_device.h). */
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

#endif
