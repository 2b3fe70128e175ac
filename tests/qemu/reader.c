/* SPDX-License-Identifier: BSD-2-Clause */
/* A file that misbehaves, in place of pread (LD_PRELOAD): after so many calls (AFTER) it does what MODE says.
 * Without MODE the number of calls goes to standard error. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned calls;

ssize_t pread(int file, void *to, size_t bytes, off_t offset)
{
    ssize_t (*real)(int, void *, size_t, off_t);
    *(void **)&real = dlsym(RTLD_NEXT, "pread");
    const char *mode = getenv("MODE"), *after = getenv("AFTER");
    const ssize_t count = real(file, to, bytes, offset);
    if (++calls <= (after ? strtoul(after, NULL, 10) : 0) || !mode)
        return count;
    if (!strcmp(mode, "changed"))
        ((unsigned char *)to)[count / 2] ^= 1;
    if (!strcmp(mode, "parts") && count > 1)
        return count / 2;
    if (!strcmp(mode, "slow"))
        usleep(20000);
    while (!strcmp(mode, "never"))
        pause();
    errno = EIO;
    return !strcmp(mode, "short") ? 0 : !strcmp(mode, "failing") ? -1 : count;
}

__attribute__((destructor)) static void tell(void)
{
    if (!getenv("MODE"))
        fprintf(stderr, "%u\n", calls);
}
