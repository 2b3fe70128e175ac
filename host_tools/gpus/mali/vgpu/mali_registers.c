/* SPDX-License-Identifier: BSD-2-Clause */
/* Register table of a Mali G71: mali_register_map.h, generated from trace_format/gpus/mali_g71.toml. */
#include "mali_registers.h"

const struct vgpu_register mali_registers[] = {MALI_REGISTER_ROWS};
const size_t mali_register_count = sizeof(mali_registers) / sizeof(mali_registers[0]);
