/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs to record share: they read files, and what fails ends them with a line on standard error and
 * exit status 2. */
#ifndef GRAMOPHONE_TESTS_PROGRAM_H
#define GRAMOPHONE_TESTS_PROGRAM_H

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((noreturn, format(printf, 1, 2))) static inline void fail(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(2);
}

/* The content of a file, with a zero after it. */
static inline char *content(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        fail("%s: cannot be read", path);
    *bytes = (size_t)ftell(file);
    rewind(file);
    char *data = calloc(1, *bytes + 1);
    if (!data || fread(data, 1, *bytes, file) != *bytes)
        fail("%s: cannot be read", path);
    fclose(file);
    return data;
}

#endif
