/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that appears under its name only when it is complete: written as path.part, then renamed. */
#ifndef GRAMOPHONE_OUTPUT_FILE_H
#define GRAMOPHONE_OUTPUT_FILE_H

#include <stdbool.h>
#include <stdio.h>

struct output_file {
    FILE *file;
    char *path, *part;
};

/* False with errno set when the file cannot be created. */
bool output_open(struct output_file *out, const char *path);
/* Finish the file; unless `good`, remove what has been written. False with errno set when it
 * could not be finished. */
bool output_close(struct output_file *out, bool good);

#endif
