/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The plugin's progress= file: how many jobs have ended, for who waits. */
#ifndef GRAMOPHONE_QEMU_PROGRESS_H
#define GRAMOPHONE_QEMU_PROGRESS_H

#include "vgpu.h"

/* Write the number as 8 bytes, the lowest first, where it has changed. NULL: nowhere. A file that cannot be
 * written is no reason to stop. */
void progress_tell(const char *path, const vgpu *gpu);

#endif
