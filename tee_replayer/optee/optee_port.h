/* SPDX-License-Identifier: BSD-2-Clause */
/* The port for OP-TEE's core; its gr_port functions are those of replayer.h. */
#ifndef GRAMOPHONE_OPTEE_PORT_H
#define GRAMOPHONE_OPTEE_PORT_H

#include "replayer.h"

enum { SHARED_GPU = GR_FIREWALL_BASE != 0 };

/* Find the mappings that the core made at boot. False when one is missing. */
GR_API bool gr_optee_find(struct gr_memory *carveout);

/* Give the GPU to the secure world: the board's firewall where it has one, and the interrupts. */
GR_API void gr_optee_take(void);

/* Give it to the normal world. */
GR_API void gr_optee_give_back(void);

#ifdef GRAMOPHONE_SECRET
/* The device's secret, of the hardware unique key. False: there is none. */
GR_API bool gr_optee_secret(uint8_t secret[32]);
#endif

#endif
