/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated machine's normal world, for host_tools/runners/optee/bare_metal.py. */
#ifndef GRAMOPHONE_NORMAL_WORLD_H
#define GRAMOPHONE_NORMAL_WORLD_H

#include "gramophone_normal_world.h"

#define NORMAL_WORLD_MAILBOX UINT64_C(0x48000000)

/* The program; returns the exit status. */
int normal_world(void);
int normal_world_exception(uint64_t address, uint64_t syndrome);

#endif
