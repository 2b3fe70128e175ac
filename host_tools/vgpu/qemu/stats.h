/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plugin's stats= file. */
#ifndef GRAMOPHONE_QEMU_STATS_H
#define GRAMOPHONE_QEMU_STATS_H

#include "vgpu.h"

struct stats_number {
    const char *name;
    uint64_t value;
};

/* Write the GPU's name, error and counters, and `count` further numbers, as one JSON object. False after a
 * message on standard error. */
bool stats_write(const char *path, const char *gpu_name, const vgpu *gpu, const struct stats_number *numbers,
                 size_t count);

#endif
