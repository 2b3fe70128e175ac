/* SPDX-License-Identifier: BSD-2-Clause */
/* The V3D 4.2: its tables are v3d_register_map.h, generated from trace_format/gpus/v3d42.toml. */
#include "v3d_registers.h"

static const struct vgpu_register registers[] = {V3D_REGISTER_ROWS};
static const struct vgpu_block blocks[] = {V3D_BLOCK_ROWS};

const struct v3d_chip v3d42_chip = {
    .version = V3D_42,
    .name = "v3d42",
    .registers = registers,
    .register_count = sizeof(registers) / sizeof(registers[0]),
    .blocks = blocks,
    .block_count = sizeof(blocks) / sizeof(blocks[0]),
    .queued_config = CORE_CSD_QUEUED_CFG0,
    .current_config = CORE_CSD_CURRENT_CFG0,
    .config_words = 7,
    .compute_done = CORE_INT_STS_CSDDONE,
    .interrupt_lines = 1,
    .board_write = v3d_power_write,
    .board_is_on = v3d_power_is_on,
};

const struct vgpu_block *v3d_block(const struct v3d_chip *chip, uint32_t offset)
{
    size_t i = chip->block_count - 1;
    while (i > 0 && offset < chip->blocks[i].offset)
        i--;
    return &chip->blocks[i];
}
