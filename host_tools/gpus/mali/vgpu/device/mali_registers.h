/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registers of Malis of the job manager generation: all have the places that the G71's table has, which is
 * generated from trace_format/gpus/mali_g71.toml. That names the sources: Linux 6.1
 * drivers/gpu/drm/panfrost/panfrost_regs.h and the GPUReplay recordings. Commands: panfrost_regs.h there.
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

#endif
