/* SPDX-License-Identifier: BSD-2-Clause */
/* The Mali G31: its table is mali_g31_register_map.h, generated from trace_format/gpus/mali_g31.toml.
 * That header has the same names as mali_register_map.h, so no other file includes it. */
#include "mali_chip.h"
#include "mali_g31_register_map.h"

static const struct vgpu_register registers[] = {MALI_REGISTER_ROWS};

const struct mali_chip mali_g31_chip = {
    .name = "mali_g31",
    .registers = registers,
    .register_count = sizeof(registers) / sizeof(registers[0]),
    .warp = 8,
};
