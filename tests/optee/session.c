/* SPDX-License-Identifier: BSD-2-Clause */
/* Holds a session with the pseudo-TA: session STEP NET.sgtr goes as far as STEP ("open", "load", or "run",
 * which replays without end), prints "ready" (after its first replay, if it runs), and waits to be killed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gramophone_tee.h"

static void check(const char *what, uint32_t result)
{
    if (result) {
        fprintf(stderr, "%s: %s (%#x)\n", what, gramophone_tee_text(result), (unsigned)result);
        exit(1);
    }
}

static size_t read_all(const char *path, void **data)
{
    FILE *file = fopen(path, "rb");
    long bytes = -1;
    if (file && !fseek(file, 0, SEEK_END) && (bytes = ftell(file)) >= 0) {
        rewind(file);
        *data = malloc((size_t)bytes);
    }
    if (bytes < 0 || !*data || fread(*data, 1, (size_t)bytes, file) != (size_t)bytes) {
        perror(path);
        exit(1);
    }
    fclose(file);
    return (size_t)bytes;
}

int main(int argc, char **argv)
{
    struct gramophone_tee *tee = NULL;
    void *trace = NULL;
    if (argc != 3)
        return 2;
    const size_t bytes = read_all(argv[2], &trace);
    check("open", gramophone_tee_open(&tee, GRAMOPHONE_TEE_VIA_PTA, GRAMOPHONE_TEE_LOGIN_PUBLIC, 0, NULL));
    if (strcmp(argv[1], "open"))
        check("load", gramophone_tee_load(tee, trace, bytes, NULL));
    const int runs = !strcmp(argv[1], "run");
    if (runs)
        check("run", gramophone_tee_run(tee, NULL));
    puts("ready");
    fflush(stdout);
    while (runs)
        check("run", gramophone_tee_run(tee, NULL));
    pause();
    return 1;
}
