/* SPDX-License-Identifier: BSD-2-Clause */
/* The pseudo-TA as one file for the compiler: what is called once becomes part of its caller, which saves
 * hundreds of bytes. */
#define GR_API static
#define GR_SCRATCH static
#include "replayer.c"

#ifdef GRAMOPHONE_LOG
#include "inner.h"
/* Of BearSSL. Where its points are known, it needs no table of the generator's multiples. */
static inline __attribute__((always_inline)) uint32_t api_muladd(unsigned char *a, const unsigned char *b,
                                                                 size_t bytes, const unsigned char *x,
                                                                 size_t x_bytes, const unsigned char *y,
                                                                 size_t y_bytes, int curve);
#include "crypto.c"
#else
#include "optee_crypto.c"
#endif
#include "optee_port.c"

#include "gramophone_pta.c"
