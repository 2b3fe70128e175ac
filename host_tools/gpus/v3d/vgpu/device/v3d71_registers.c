/* SPDX-License-Identifier: BSD-2-Clause */
/* The V3D 7.1: its tables are v3d71_register_map.h, generated from trace_format/gpus/v3d71.toml. That header
 * has the same names as v3d_register_map.h, so no other file includes it. */
#include "v3d71_register_map.h"
#include "v3d_chip.h"

static const struct vgpu_register registers[] = {V3D_REGISTER_ROWS};
static const struct vgpu_block blocks[] = {V3D_BLOCK_ROWS};

/* What v3d_chip.h says of the profile's places. */
_Static_assert((int)V3D71_BOARD_WINDOW_BYTES == (int)V3D_BOARD_WINDOW_BYTES, "the window");
_Static_assert((int)V3D_SMS_REE_CS == (int)SMS_REE_CS && (int)V3D_SMS_TEE_CS == (int)SMS_TEE_CS, "sms");

const struct v3d_chip v3d71_chip = {
    .version = V3D_71,
    .name = "v3d71",
    .registers = registers,
    .register_count = sizeof(registers) / sizeof(registers[0]),
    .blocks = blocks,
    .block_count = sizeof(blocks) / sizeof(blocks[0]),
    .queued_config = CORE_CSD_QUEUED_CFG0,
    .current_config = CORE_CSD_CURRENT_CFG0,
    .config_words = 8,
    .compute_done = CORE_INT_STS_CSDDONE,
    .interrupt_lines = 2,
    .board_write = v3d_sms_write,
    .board_is_on = v3d_sms_is_on,
};
