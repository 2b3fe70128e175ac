/* SPDX-License-Identifier: BSD-2-Clause */
#include "output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char suffix[] = ".part";

static void forget(struct output_file *out)
{
    free(out->path);
    free(out->part);
    *out = (struct output_file){0};
}

bool output_open(struct output_file *out, const char *path)
{
    size_t length = strlen(path);
    out->file = NULL;
    out->path = malloc(length + 1);
    out->part = malloc(length + sizeof(suffix));
    if (out->path && out->part) {
        memcpy(out->path, path, length + 1);
        memcpy(out->part, path, length);
        memcpy(out->part + length, suffix, sizeof(suffix));
        out->file = fopen(out->part, "wb");
    }
    if (out->file)
        return true;
    int error = errno;
    forget(out);
    errno = error;
    return false;
}

bool output_close(struct output_file *out, bool good)
{
    good = fclose(out->file) == 0 && good;
    good = good && rename(out->part, out->path) == 0;
    int error = errno;
    if (!good)
        remove(out->part);
    forget(out);
    errno = error;
    return good;
}
