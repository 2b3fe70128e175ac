/* SPDX-License-Identifier: BSD-2-Clause */
/* The pseudo-TA as one file for the compiler: what is called once becomes part of its caller, which saves
 * hundreds of bytes. */
#define GR_API static
#define GR_SCRATCH static
#include "replayer.h"
#ifdef GRAMOPHONE_OPERATORS
#ifndef CFG_WITH_VFP
#error operators compute in floating point: build OP-TEE with CFG_WITH_VFP=y
#endif
#include <kernel/thread.h>

/* The registers of floating point are the normal world's until the core has kept them. It masks interrupts
 * for the normal world until it has them back: for as long as an operator runs. */
#define GR_WITH_FLOATS(work)                                                                                 \
    do {                                                                                                     \
        const uint32_t masked = thread_kernel_enable_vfp();                                                  \
        work;                                                                                                \
        thread_kernel_disable_vfp(masked);                                                                   \
    } while (0)
#endif
#include "replayer.c"

/* BearSSL has functions of these names, and OP-TEE's headers, which operators need before, have macros. */
#pragma push_macro("MIN")
#pragma push_macro("MAX")
#undef MIN
#undef MAX
#include "crypto.c"
#pragma pop_macro("MIN")
#pragma pop_macro("MAX")
#include "optee_crypto.c"
#include "optee_port.c"

#include "gramophone_pta.c"
