/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of OP-TEE without an operating system: sessions and commands over OP-TEE's SMC interface, in the 2
 * MiB of memory that the core reserves for sharing (CFG_CORE_RESERVED_SHM). One call at a time.
 */
#ifndef GRAMOPHONE_TEE_CLIENT_H
#define GRAMOPHONE_TEE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tee_kind {
    TEE_NONE = 0,
    TEE_VALUE_IN = 1,
    TEE_VALUE_OUT = 2,
    TEE_MEMREF_IN = 9,
    TEE_MEMREF_OUT = 10,
    TEE_PAGES_IN = 0x209
};

struct tee_param {
    uint64_t kind; /* enum tee_kind */
    uint64_t a, b; /* value; memref: address in the shared memory, bytes; pages: what tee_pages gave, bytes */
};

enum { TEE_PARAMS = 4, TEE_CHUNK_BYTES = 1 << 20 };

/* The call itself did not get through. Not a TEE_Result: no part of the TEE gave it. */
#define TEE_CALL_FAILED 0xfffffffeu

/* Find the shared memory. False when there is no OP-TEE with such memory. */
bool tee_start(void);

/* TEE_CHUNK_BYTES of shared memory, for memrefs. */
void *tee_chunk(void);

/* Share other memory, page by page (dynamic shared memory); 0: there is no room for the list of its pages. */
uint64_t tee_pages(const void *memory, uint64_t bytes);

/* Each returns a TEE_Result. */
uint32_t tee_open(const uint8_t uuid[16], uint32_t *session);
uint32_t tee_invoke(uint32_t session, uint32_t command, struct tee_param params[TEE_PARAMS]);
uint32_t tee_close(uint32_t session);

/* Who gave the last TEE_Result: 3 the TEE, 4 the TA (TEEC_ORIGIN). */
uint32_t tee_origin(void);

#endif
