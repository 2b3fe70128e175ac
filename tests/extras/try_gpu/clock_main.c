/* SPDX-License-Identifier: BSD-2-Clause */
/* clock.c with a firmware that answers as the arguments say: state when asked, state when set, Linux's
 * release. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "devmem.h"
#include "gramophone_gpu.h"

int __wrap_open(const char *path, int flags, ...);
int __wrap_ioctl(int file, unsigned long request, uint32_t *message);
int __wrap_uname(struct utsname *name);

static const char *asked, *set, *release;

int __wrap_open(const char *path, int flags, ...)
{
    (void)flags;
    printf("open %s\n", path);
    errno = strcmp(asked, "closed") ? ENOENT : EACCES;
    return strcmp(asked, "none") && strcmp(asked, "closed") ? 9 : -1;
}

int __wrap_ioctl(int file, unsigned long request, uint32_t *message)
{
    printf("%d %#lx: %u %#x %#x %u %u\n", file, request & 0xffff, message[0], message[1], message[2],
           message[5], message[6]);
    const char *answer = message[2] == 0x38001 ? set : asked;
    if (!strcmp(answer, "refused"))
        return -1;
    message[1] = 0x80000000;
    message[6] = (uint32_t)strtoul(answer, NULL, 10);
    return 0;
}

int __wrap_uname(struct utsname *name)
{
    snprintf(name->release, sizeof name->release, "%s", release);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    asked = argv[1], set = argv[2], release = argv[3];
    const bool good = gr_clock_check();
    printf("%s\n", good ? "on" : gramophone_gpu_error());
    return !good;
}
