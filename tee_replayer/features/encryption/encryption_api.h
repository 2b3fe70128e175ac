/* SPDX-License-Identifier: BSD-2-Clause */
/* What a port gives a replayer that reads encrypted traces, and what that keeps of one. */
#ifndef GRAMOPHONE_ENCRYPTION_API_H
#define GRAMOPHONE_ENCRYPTION_API_H

#ifdef GRAMOPHONE_ENCRYPTION
/* The device's secret, from which its private key follows; a private key of P-256, the most significant byte
 * first, that it has in common with others. False: there is none. */
GR_API bool gr_port_secret(uint8_t secret[32]);
GR_API bool gr_port_fleet_key(uint8_t key[32]);

/* Key and first counter of an encrypted body: zero, unless pieces of it are still to be read. */
#define GR_ENCRYPTION_FIELDS                                                                                 \
    _Alignas(8) uint8_t body_key[32];                                                                        \
    bool is_encrypted;                                                                                       \
    uint64_t opens; /* what the head says of that, by code of its own: all bits, or none */

#else

#define GR_ENCRYPTION_FIELDS

#endif

#endif
