/* SPDX-License-Identifier: BSD-2-Clause */
/* Register table of the V3D 4.2: v3d_register_map.h, generated from trace_format/gpus/v3d42.toml. */
#include "v3d_registers.h"

const struct vgpu_register v3d_registers[] = {V3D_REGISTER_ROWS};
const size_t v3d_register_count = sizeof(v3d_registers) / sizeof(v3d_registers[0]);

const struct vgpu_block *v3d_block(uint32_t offset)
{
    static const struct vgpu_block blocks[] = {V3D_BLOCK_ROWS};
    size_t i = sizeof(blocks) / sizeof(blocks[0]) - 1;
    while (i > 0 && offset < blocks[i].offset)
        i--;
    return &blocks[i];
}
