/* SPDX-License-Identifier: BSD-2-Clause */
/* The register map of the Malis, and how they differ: from headers that are generated from their profiles,
 * trace_format/gpus/mali_g71.toml and those like it. */
#include "mali_chip.h"
#include "mali_g31_register_map.h"
#include "mali_g52r1_register_map.h"
#include "mali_g72_register_map.h"
#include "mali_register_map.h"

#define ID_OF_ARCHITECTURE_6_0 0x60000002u /* Mesa knows no other of its family */

const struct vgpu_register mali_registers[] = {MALI_REGISTER_ROWS};
const size_t mali_register_count = sizeof(mali_registers) / sizeof(mali_registers[0]);

static const struct vgpu_reset arch60[] = {{GPU_ID, ID_OF_ARCHITECTURE_6_0}};
static const struct vgpu_reset g72[] = {MALI_G72_RESET_ROWS};
static const struct vgpu_reset g52r1[] = {MALI_G52R1_RESET_ROWS};
static const struct vgpu_reset g31[] = {MALI_G31_RESET_ROWS};

#define JOB_MANAGER                                                                                          \
    .registers = mali_registers, .register_count = sizeof(mali_registers) / sizeof(mali_registers[0]),       \
    .workgroup = 384
#define RESETS(rows) .resets = (rows), .reset_count = sizeof(rows) / sizeof((rows)[0])

const struct mali_chip mali_g71_chip = {.name = "mali_g71", .warp = 4, JOB_MANAGER};
const struct mali_chip mali_g71_arch60_chip = {.name = "mali_g71", .warp = 4, JOB_MANAGER, RESETS(arch60)};
const struct mali_chip mali_g72_chip = {.name = "mali_g72", .warp = 4, JOB_MANAGER, RESETS(g72)};
const struct mali_chip mali_g52r1_chip = {.name = "mali_g52r1", .warp = 8, JOB_MANAGER, RESETS(g52r1)};
const struct mali_chip mali_g31_chip = {.name = "mali_g31", .warp = 8, JOB_MANAGER, RESETS(g31)};
