/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the loader asks the rollback store, and a replay that went well tells it. */
#ifndef GRAMOPHONE_STORE_H
#define GRAMOPHONE_STORE_H

#ifdef GRAMOPHONE_STORE

/* Zero if no higher version is kept: gr_store_check in another form, in the upper half. */
#define GR_STORE_BREACH(name, version)                                                                       \
    ((uint64_t)((uint32_t)gr_store_check(name, version) ^ (uint32_t)GR_STATUS_OK) << 32)

#else

#define gr_store_open() true
#define gr_store_check(name, version) GR_STATUS_OK
#define gr_store_keep(r) GR_STATUS_OK
#define GR_STORE_BREACH(name, version) UINT64_C(0)

#endif

#endif
