/* SPDX-License-Identifier: BSD-2-Clause */
/* The port: the GPU and the carve-out as UIO devices. */
#ifndef GRAMOPHONE_UIO_H
#define GRAMOPHONE_UIO_H

#include "sysfs.h"

/* Names of the UIO devices, "uio0"; false, with a message, when there are none. */
bool gr_uio_find(char gpu[64], char carveout[64]);

/* Open the GPU and map its registers; for one process at a time. */
bool gr_uio_open(void);

/* Physical address and size of the carve-out; map the first `bytes` of it in place of what was mapped. */
void gr_uio_carveout(uint64_t *physical, uint64_t *bytes);
uint8_t *gr_uio_map_carveout(uint64_t bytes);

void gr_uio_close(void);

/* Whether nobody has the GPU open, and whether UIO has it; offer it and the carve-out to the kernel's
 * drivers. */
bool gr_may_give_back(bool *is_taken);
bool gr_give_back(char driver[64]);

#endif
