/* SPDX-License-Identifier: BSD-2-Clause */
/* One access of the TMU's general memory access. Internal to the interpreter. Sources: see v3d_qpu_tmu.c. */
#ifndef GRAMOPHONE_V3D_QPU_TMU_H
#define GRAMOPHONE_V3D_QPU_TMU_H

#include "v3d_qpu_thread.h"

enum {
    TMU_TYPE_S8 = 0,
    TMU_TYPE_S16 = 1,
    TMU_TYPE_VEC2 = 2,
    TMU_TYPE_VEC3 = 3,
    TMU_TYPE_VEC4 = 4,
    TMU_TYPE_U8 = 5,
    TMU_TYPE_U16 = 6,
    TMU_TYPE_U32 = 7,
};

/* Operations that are not only atomic ones: a prefetch, if there are no data; a load or store. */
enum { QPU_TMU_ADD = 0, QPU_TMU_REGULAR = 15 };

enum { QPU_ALL_LANES = (1 << QPU_LANES) - 1 };

/* One memory access, decoded. */
struct qpu_access {
    /* The same for a whole gang. */
    unsigned site, type, operation, components;
    unsigned bytes;       /* of one component */
    unsigned words;       /* of data */
    unsigned entry, room; /* of the FIFO: the first for the results; how many there are */
    bool own;             /* QPU_TMU_OWN */
    bool wraps;           /* a vector's components stay within its 16 bytes */
    /* One thread's. */
    unsigned exist, lanes; /* bit i: lane i may take part; it does */
    qpu_u32 address;
    qpu_u32 offset; /* of the address from `base`; zero in lanes that take no part */
    uint8_t *base;  /* memory where nothing stands in the way of the access; NULL: see each lane */
};

static inline uint32_t qpu_component_address(const struct qpu_access *access, unsigned lane,
                                             unsigned component)
{
    uint32_t address = access->address[lane];

    return access->wraps ? (address & ~15u) | ((address + 4 * component) & 15) : address + 4 * component;
}

/* Note an access of words that do not wrap; only while an access map is kept. */
void qpu_tmu_note(struct qpu_memory *memory, const struct qpu_access *access, bool write);

/* Note what has been written, where the worker keeps that. */
void qpu_note_stored(struct qpu_worker *worker, const struct qpu_access *access); /* v3d_qpu_stale.c */

/* Words that threads write for themselves (v3d_qpu_own.c): by the worker's threads, which run one after
 * another but for barriers. NULL: out of memory. */
struct qpu_own *qpu_own_create(void);
void qpu_own_free(struct qpu_own *own);

/* Note what has been stored, where the worker keeps that. */
void qpu_own_stored(struct qpu_thread *thread, const struct qpu_access *access);

/* Whether a word that the thread is about to load is what it has itself stored, and nobody else. */
bool qpu_own_loads(struct qpu_thread *thread, uint32_t va);

/* Whether another thread has stored to a word afterwards: with other data, or another order, it might be
 * read.
 */
bool qpu_own_varies(const struct qpu_own *own);

/* Note where the results come from that are about to be put into the FIFO. */
void qpu_tmu_take(struct qpu_thread *thread, const struct qpu_access *access);

/* Stop the thread: there is no room for a result. Returns false. */
bool qpu_tmu_overflow(struct qpu_thread *thread, const struct qpu_uop *uop);

/* One thread's load: the results into the FIFO. Lanes that take no part get zero (on the device: unknown).
 * False: the thread has failed. */
bool qpu_tmu_fetch(struct qpu_thread *thread, const struct qpu_uop *uop,
                   const struct qpu_access *access); /* v3d_qpu_load.c */

/*
 * Loads of one word a lane that nobody watches, for the threads of a gang in turn. Returns for how many:
 * `gang`, or the number of the first for which more is to be said than this does, an error perhaps.
 */
unsigned qpu_tmu_fetch_plain(struct qpu_thread *thread, const struct qpu_uop *uop,
                             const struct qpu_access *access, bool exact); /* v3d_qpu_load.c */

#endif
