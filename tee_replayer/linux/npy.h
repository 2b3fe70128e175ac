/* SPDX-License-Identifier: BSD-2-Clause */
/* Tensors of slots as .npy files (numpy.lib.format). */
#ifndef GRAMOPHONE_NPY_H
#define GRAMOPHONE_NPY_H

#include "gramophone_gpu.h"

/* Read the file's tensor into `data`, which has the slot's size; false, with a message, when it is not of the
 * slot's type and shape, or cannot be read. With `replays`, which is 0 otherwise, those of that many replays,
 * along a first dimension. */
bool gr_npy_read(const char *path, const struct gramophone_gpu_slot *slot, uint32_t replays, void *data);

/* Write one, or those of `replays`; the file is there whole or not at all. */
bool gr_npy_write(const char *path, const struct gramophone_gpu_slot *slot, uint32_t replays,
                  const void *data);

#endif
