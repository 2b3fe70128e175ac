/* SPDX-License-Identifier: BSD-2-Clause */
/* What differs between the Malis that there are models of. Sources: their profiles; size of warps:
 * Mesa 25.0.7 src/panfrost/util/pan_ir.h (subgroups of architectures 6 and 7). */
#ifndef GRAMOPHONE_MALI_CHIP_H
#define GRAMOPHONE_MALI_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "vgpu_register.h"

struct mali_chip {
    const char *name; /* in messages: that of its profile */
    const struct vgpu_register *registers;
    size_t register_count;
    const struct vgpu_reset *resets; /* in place of what the register map has */
    size_t reset_count;
    unsigned warp;      /* threads of one */
    unsigned workgroup; /* threads that one may have */
    bool has_streams;   /* a microcontroller takes jobs from command streams; there are no job slots */
};

extern const struct vgpu_register mali_registers[];
extern const size_t mali_register_count;
extern const struct mali_chip mali_g31_chip, mali_g52r1_chip, mali_g71_chip, mali_g71_arch60_chip,
    mali_g72_chip, mali_g610_chip;

#endif
