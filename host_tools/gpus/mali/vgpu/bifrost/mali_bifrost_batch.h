/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of threads, and what runs them. Sources: see mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_BATCH_H
#define GRAMOPHONE_MALI_BIFROST_BATCH_H

#include "mali_bifrost.h"
#include "meter.h"
#include "workers.h"

/* Clauses that a batch may run before it counts as hung. A chain has a limit too (mali_jobs.c), but only here
 * is it known where threads hang. */
enum { BIFROST_BATCH_LIMIT = 1 << 24 };
enum { BIFROST_TLB = 256 };

/* Pages that a worker used recently; an entry is only made once the MMU has granted the access. */
struct bifrost_tlb {
    uint64_t page[BIFROST_TLB]; /* number + 1; 0: empty */
    uint8_t *host[BIFROST_TLB];
    uint8_t *flags[BIFROST_TLB]; /* the access map's; NULL: none is kept */
};

/* Why a batch came to no end. */
struct bifrost_failure {
    uint32_t status;         /* exception of the job */
    struct mali_fault fault; /* of the MMU, where text is empty */
    char text[288];          /* what is not modelled or wrong, and where */
};

struct bifrost_worker {
    const struct mali_memory *memory;
    struct vgpu_budget *chain; /* clauses that its chain may run */
    const struct bifrost_program *program;
    const struct bifrost_environment *environment;
    struct bifrost_tlb readable, writable;
    uint64_t slots, bytes_read, bytes_written;
    struct vgpu_meter *meter; /* counts what takes time, of warps of so many lanes; or NULL */
    unsigned warp;
    struct bifrost_failure failure;
};

enum bifrost_state { BATCH_AT_BARRIER, BATCH_ENDED, BATCH_FAILED };

struct bifrost_batch {
    bifrost_vector *slot; /* SLOT_CONSTANTS + constants of the program */
    bifrost_vector mask;  /* all bits set: the lane is active; only if not all are */
    int32_t pc[BIFROST_LANES];
    int32_t at; /* pc of all lanes that are alive, while `together` */
    bool together;
    uint64_t alive, waiting; /* bit i: lane i has not ended; is at a barrier */
    uint64_t clauses, limit; /* that were run, that may be */
    uint8_t *stored; /* of each word of the lanes' storage: the lane has stored to it; NULL: not noted */
    struct bifrost_worker *worker;
};

/* Memory for a program's batches; NULL: there is none. Freed with bifrost_batch_free. */
struct bifrost_batch *bifrost_batch_create(struct bifrost_worker *worker);
void bifrost_batch_free(struct bifrost_batch *batch);
/* Run until all threads have ended, or those that have not are at a barrier, which they then leave. */
enum bifrost_state bifrost_batch_run(struct bifrost_batch *batch);

/* Stop with an error that names the clause; false. */
__attribute__((format(printf, 4, 5))) bool bifrost_fail(struct bifrost_worker *worker,
                                                        const struct bifrost_code *code, uint32_t status,
                                                        const char *format, ...);
/* The load, store or atomic operation of a clause, for the lanes in `active`. False: it failed.
 * mali_bifrost_memory.c */
bool bifrost_message(struct bifrost_batch *batch, const struct bifrost_code *code, uint64_t active);

/* Host address of bytes in one page, which are accessed now, or NULL after noting the fault. */
uint8_t *bifrost_host(struct bifrost_worker *worker, uint64_t va, uint32_t bytes, bool write);
/* An atomic operation of lanes on words at addresses that are multiples of 4. False: it failed.
 * mali_bifrost_atomic.c */
bool bifrost_atomic(struct bifrost_batch *batch, const struct bifrost_code *code, const uint64_t *va,
                    uint64_t lanes);

/* mali_bifrost_flow.c. Of a watched program: note that threads start, that lanes run a clause, and where they
 * access memory. */
void bifrost_watch_start(struct bifrost_batch *batch);
void bifrost_watch_access(struct bifrost_batch *batch, const struct bifrost_code *code, const uint64_t *va,
                          uint64_t lanes);
/* Size of a batch's `stored`; 0: none is kept. */
size_t bifrost_watched_bytes(const struct bifrost_worker *worker);

#endif
