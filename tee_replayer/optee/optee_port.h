/* The port for OP-TEE's core; its gr_port functions are those of replayer.h. */
#ifndef GRAMOPHONE_OPTEE_PORT_H
#define GRAMOPHONE_OPTEE_PORT_H

#include "replayer.h"

/* Find the mappings that the core made at boot, and make the GPU's interrupts the secure world's own. False
 * when a mapping is missing. */
bool gr_optee_start(struct gr_memory *carveout);

#endif
