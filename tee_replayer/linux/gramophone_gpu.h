/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Replays in a process of Linux: the replayer of this folder, with the GPU's registers and interrupt and the
 * carve-out through UIO (Linux Documentation/driver-api/uio-howto.rst).
 *
 *     gramophone_gpu_open, gramophone_gpu_load,
 *     then as often as wanted { gramophone_gpu_bind for each slot, gramophone_gpu_run }, gramophone_gpu_close
 *
 * A process has one GPU, and the functions belong to one thread at a time. Functions that return an int give
 * a value of enum gramophone_gpu_result, and gramophone_gpu_error says in words what went wrong.
 */
#ifndef GRAMOPHONE_GPU_H
#define GRAMOPHONE_GPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum gramophone_gpu_result {
    GRAMOPHONE_GPU_OK = 0,
    GRAMOPHONE_GPU_REFUSED = 1, /* by the replayer: gramophone_gpu_report has its status */
    GRAMOPHONE_GPU_FAILED = 2,  /* something is missing, busy, or not allowed */
};

struct gramophone_gpu_slot {
    char name[33];
    uint8_t kind; /* 1 input, 2 output, 3 parameter, as in the trace */
    uint8_t dtype;
    uint8_t rank;
    bool bound; /* the trace holds a value */
    uint32_t dims[6];
    uint64_t bytes; /* of dense data */
};

/* What the last load or run reported; times in microseconds. */
struct gramophone_gpu_report {
    uint32_t status, phase, action, op, offset, expected, seen, retries, jobs;
    uint64_t actions, secure_bytes, verify_us, load_us, replay_us;
};

/* Have the kernel's driver give up the GPU, and UIO take it and the carve-out; and the way back. For root.
 * Nobody may have the GPU open meanwhile. Given back, it is reset, and the carve-out wiped. `driver` takes
 * the name of the driver that had the GPU, or has it now. */
int gramophone_gpu_take(char driver[64]);
int gramophone_gpu_give_back(char driver[64]);

/* Open the GPU for this process alone. */
int gramophone_gpu_open(void);

/* Verify a signed trace with the key that this build was generated for, and load it: from memory, or from a
 * file, which a thread of the library's reads. A build with the feature `streaming` reads it again in each
 * run: the memory stays as it is, and the file open, until the next load or gramophone_gpu_close. A run that
 * finds another byte, or a file that ends before or gives no answer in 5 seconds, is refused. */
int gramophone_gpu_load(const void *trace, size_t bytes);
int gramophone_gpu_load_file(const char *path);

uint32_t gramophone_gpu_slot_count(void);
bool gramophone_gpu_slot(uint32_t slot, struct gramophone_gpu_slot *info);

/* Bind dense data in C order to a slot, for all following runs; NULL with 0 bytes unbinds. */
int gramophone_gpu_bind(uint32_t slot, void *data, size_t bytes);

/* Replay once. */
int gramophone_gpu_run(void);

/* Networks of a joint trace ('gramophone sharing join'); of another trace, and where this build takes none
 * (feature 'networks'), there are none to name. The one that was chosen is what
 * gramophone_gpu_run replays; after loading it is the first. */
struct gramophone_gpu_network {
    char name[33];
    uint32_t first_slot, slot_count;
    uint32_t predicted_us, longest_job_us, period_us, priority; /* as the trace says; 0: not known */
};
bool gramophone_gpu_network(uint32_t network, struct gramophone_gpu_network *info);
int gramophone_gpu_choose(uint32_t network);

/* Where this build has a queue (feature 'schedule'), instead of gramophone_gpu_run: ask for a
 * replay of a network within so many microseconds (UINT64_MAX: whenever there is time), with what is bound to
 * its slots then; they stay as they are until it is over. Then call _step until nothing waits: each is one
 * piece, of what is due first. `over` takes the number of the request that is over by it, or 0; the result is
 * that of its replay. A request can be taken back. */
int gramophone_gpu_submit(uint32_t network, uint64_t within_us, uint32_t *id);
int gramophone_gpu_step(uint32_t *over);
uint32_t gramophone_gpu_waiting(void);
int gramophone_gpu_withdraw(uint32_t id);

void gramophone_gpu_report(struct gramophone_gpu_report *report);

/* Unload: the GPU is reset, the memory wiped; the GPU is free for other processes. */
void gramophone_gpu_close(void);

/* What went wrong last; never NULL. */
const char *gramophone_gpu_error(void);

#ifdef __cplusplus
}
#endif

#endif
