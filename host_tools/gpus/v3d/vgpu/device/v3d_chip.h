/* SPDX-License-Identifier: BSD-2-Clause */
/* What differs between V3D chips to those who use their registers. Sources: see v3d_registers.h. */
#ifndef GRAMOPHONE_V3D_CHIP_H
#define GRAMOPHONE_V3D_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "v3d_version.h"
#include "vgpu_register.h"

struct v3d_device;

/* Places of the V3D 7.1 behind its window, which v3d71_registers.c compares with its profile's. */
enum { V3D71_BOARD_WINDOW_BYTES = 0x10000, V3D_SMS_REE_CS = 0xc000, V3D_SMS_TEE_CS = 0xc400 };

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
    /* The blocks of its board, behind the window: a write; may the GPU's own registers be reached? If not,
     * the GPU has failed. */
    void (*board_write)(struct v3d_device *dev, const struct vgpu_register *known, uint32_t value);
    bool (*board_is_on)(struct v3d_device *dev, uint32_t offset);
};

extern const struct v3d_chip v3d42_chip, v3d71_chip;

/* v3d_power.c: of a Raspberry Pi 4; v3d_sms.c: of a Raspberry Pi 5. */
void v3d_power_write(struct v3d_device *dev, const struct vgpu_register *known, uint32_t value);
bool v3d_power_is_on(struct v3d_device *dev, uint32_t offset);
void v3d_sms_write(struct v3d_device *dev, const struct vgpu_register *known, uint32_t value);
bool v3d_sms_is_on(struct v3d_device *dev, uint32_t offset);
void v3d_sms_advance(struct v3d_device *dev);

/* The block that a window offset is in. */
const struct vgpu_block *v3d_block(const struct v3d_chip *chip, uint32_t offset);

#endif
