/* SPDX-License-Identifier: BSD-2-Clause */
/* Tensors of slots as .npy files (numpy.lib.format). */
#ifndef GRAMOPHONE_NPY_H
#define GRAMOPHONE_NPY_H

#include "gramophone_gpu.h"

/* Read the file's tensor into `data`, which has the slot's size; false, with a message, when it is not of the
 * slot's type and shape, or cannot be read. */
bool gr_npy_read(const char *path, const struct gramophone_gpu_slot *slot, void *data);

/* Write one; the file is there whole or not at all. */
bool gr_npy_write(const char *path, const struct gramophone_gpu_slot *slot, const void *data);

#endif
