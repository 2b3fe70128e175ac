/* SPDX-License-Identifier: BSD-2-Clause */
/* What differs between V3D chips to those who use their registers. Sources: see v3d_registers.h. */
#ifndef GRAMOPHONE_V3D_CHIP_H
#define GRAMOPHONE_V3D_CHIP_H

#include <stddef.h>
#include <stdint.h>

#include "v3d_version.h"
#include "vgpu_register.h"

struct v3d_chip {
    enum v3d_version version;
    const char *name; /* in messages: that of its profile */
    const struct vgpu_register *registers;
    size_t register_count;
    const struct vgpu_block *blocks; /* by offset */
    size_t block_count;
    uint32_t queued_config, current_config; /* the first of the words that describe a dispatch */
    uint32_t config_words;
    uint32_t compute_done;    /* bit of CORE_INT_STS */
    unsigned interrupt_lines; /* one for all, or the hub's and the core's */
};

extern const struct v3d_chip v3d42_chip, v3d71_chip;

/* The block that a window offset is in. */
const struct vgpu_block *v3d_block(const struct v3d_chip *chip, uint32_t offset);

#endif
