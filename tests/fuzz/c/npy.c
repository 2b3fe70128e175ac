/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: tensors in .npy files as the Linux port reads and writes them (tee_replayer/linux/npy.c). An
 * input is a slot's type, rank and dimensions, how many replays, then a file. A file that is read for a slot
 * is the file that is written for it; every other one is refused and says why.
 */
#include "npy.h"
#include "sysfs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SETUP_BYTES = 8, MOST = 1 << 12, DTYPES = 9 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static _Noreturn void found(const char *promise)
{
    fprintf(stderr, "FINDING: %s\n", promise);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t sizes[DTYPES] = {1, 4, 2, 4, 4, 2, 2, 1, 1};
    struct gramophone_gpu_slot slot = {.name = "slot"};
    if (size < SETUP_BYTES)
        return 0;
    slot.dtype = data[0] % DTYPES;
    slot.rank = data[1] % 7;
    slot.bytes = sizes[slot.dtype];
    for (unsigned i = 0; i < slot.rank; i++)
        slot.bytes *= slot.dims[i] = data[2 + i] % 5 + 1;
    const uint32_t replays = data[SETUP_BYTES - 1] % 4;
    const size_t bytes = (size_t)slot.bytes * (replays ? replays : 1);
    if (bytes > MOST)
        return 0;
    char path[64], out[80];
    const int file = memfd_create("npy", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    snprintf(out, sizeof out, "/dev/shm/gramophone-npy-%d", (int)getpid());
    if (file < 0 || write(file, data + SETUP_BYTES, size - SETUP_BYTES) != (ssize_t)(size - SETUP_BYTES))
        found("a file can be made");
    uint8_t *tensor = malloc(bytes), *again = malloc(bytes); /* no byte more, so that it shows */
    if (!tensor || !again)
        abort();
    memset(again, 0, bytes);
    gr_fail("%s", ""); /* forget the last message */
    const bool good = gr_npy_read(path, &slot, replays, tensor);
    if (good == (*gramophone_gpu_error() != '\0'))
        found("a file is read, or it is said why not");
    if (good) {
        if (!gr_npy_write(out, &slot, replays, tensor) || !gr_npy_read(out, &slot, replays, again))
            found("what was read can be written and read again");
        if (memcmp(tensor, again, bytes))
            found("it is the same tensor");
        unlink(out);
    }
    free(tensor);
    free(again);
    close(file);
    return 0;
}
