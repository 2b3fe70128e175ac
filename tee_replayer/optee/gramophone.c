/* SPDX-License-Identifier: BSD-2-Clause */
/* The pseudo-TA as one file for the compiler: what is called once becomes part of its caller, which saves
 * hundreds of bytes. */
#define GR_API static
#define GR_SCRATCH static
#include "replayer.c"

#include "crypto.c"
#include "optee_crypto.c"
#include "optee_port.c"

#include "gramophone_pta.c"
