/* SPDX-License-Identifier: BSD-2-Clause */
/* Compute jobs of a Mali. Sources: see mali_dispatch.c. */
#ifndef GRAMOPHONE_MALI_COMPUTE_H
#define GRAMOPHONE_MALI_COMPUTE_H

#include "mali_device.h"

struct mali_dispatch;
/* Read all that a dispatch takes from memory; dev, space, memory, va and from are set. 0, or the exception.
 */
typedef uint32_t mali_dispatch_reader(struct mali_dispatch *d);

/* Run the compute job at va, which `read` reads; `from`: for it. 0, or the exception that ends the chain:
 * after a fault of the MMU, which has been reported, or with an error of the GPU. */
uint32_t mali_compute(struct mali_device *dev, unsigned space, uint64_t va, mali_dispatch_reader *read,
                      const void *from);

#endif
