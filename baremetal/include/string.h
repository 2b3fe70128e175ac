/* SPDX-License-Identifier: BSD-2-Clause */
/* What the replayer and its crypto library need of <string.h>; memcpy, memmove and memset are in string.S. */
#ifndef GRAMOPHONE_STRING_H
#define GRAMOPHONE_STRING_H

#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);

#endif
