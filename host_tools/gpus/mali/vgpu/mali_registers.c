/* SPDX-License-Identifier: BSD-2-Clause */
/* The Mali G71: its table is mali_register_map.h, generated from trace_format/gpus/mali_g71.toml. */
#include "mali_chip.h"
#include "mali_register_map.h"

static const struct vgpu_register registers[] = {MALI_REGISTER_ROWS};

const struct mali_chip mali_g71_chip = {
    .name = "mali_g71",
    .registers = registers,
    .register_count = sizeof(registers) / sizeof(registers[0]),
    .warp = 4,
};
