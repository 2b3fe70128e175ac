/* SPDX-License-Identifier: BSD-2-Clause */
/* Compute jobs of a Mali. Sources: see mali_dispatch.c. */
#ifndef GRAMOPHONE_MALI_COMPUTE_H
#define GRAMOPHONE_MALI_COMPUTE_H

#include "mali_device.h"

/* Run the compute job at va. 0, or the exception that ends the chain: after a fault of the MMU, which has
 * been reported, or with an error of the GPU. */
uint32_t mali_compute(struct mali_device *dev, unsigned space, uint64_t va);

#endif
