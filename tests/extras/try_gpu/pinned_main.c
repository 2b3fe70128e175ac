/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pinned.c on this machine, with a kernel whose pages have argv[1] bytes: pagemap and io_uring are made up.
 * When memory is pinned, each page gets its number; its frame follows from that number wherever the page is
 * moved to. Three quarters of the frames follow one another, then there is a gap. Prints what was found, and
 * what a page that moves gives.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "devmem.h"
#include "gramophone_gpu.h"

enum { PAGEMAP = 1000, RING = 1001, FIRST = 0x1000, GAP = 100, STEP = 5 };

static uint64_t page_bytes, pages;

long __real_sysconf(int name);
long __wrap_sysconf(int name)
{
    return name == _SC_PAGESIZE ? (long)page_bytes : __real_sysconf(name);
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    return strcmp(path, "/proc/self/pagemap") ? __real_open(path, flags) : PAGEMAP;
}

/* A mapping begins where one of its pages may. */
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int file, off_t offset)
{
    uint8_t *const found = __real_mmap(at, bytes + page_bytes, protection, flags, file, offset);
    return found == MAP_FAILED ? found : found + (-(uintptr_t)found & (page_bytes - 1));
}

static uint64_t frame_of(uint64_t number)
{
    const uint64_t place = number * STEP % pages;
    return FIRST + place + (place >= pages / 4 * 3 ? GAP : 0);
}

ssize_t __wrap_pread(int file, void *to, size_t bytes, off_t offset)
{
    if (file != PAGEMAP)
        return -1;
    for (size_t i = 0; i < bytes / 8; i++) {
        const uint64_t page = (uint64_t)offset / 8 + i;
        ((uint64_t *)to)[i] = UINT64_C(1) << 63 | frame_of(*(uint64_t *)(page * page_bytes));
    }
    return (ssize_t)bytes;
}

long __wrap_syscall(long number, ...)
{
    if (number != SYS_io_uring_register)
        return RING;
    va_list arguments;
    va_start(arguments, number);
    (void)va_arg(arguments, int);
    (void)va_arg(arguments, int);
    const struct iovec *const buffer = va_arg(arguments, const struct iovec *);
    va_end(arguments);
    pages = buffer->iov_len / page_bytes;
    for (uint64_t i = 0; i < pages; i++)
        *(uint64_t *)((uint8_t *)buffer->iov_base + i * page_bytes) = i;
    return 0;
}

int main(int count, char **words)
{
    struct gr_pinned pinned = {0};
    page_bytes = count > 1 ? strtoull(words[1], NULL, 10) : 0;
    if (!gr_pinned_open(&pinned))
        return printf("%s\n", gramophone_gpu_error()), 1;
    printf("%" PRIu64 " pages from frame %#" PRIx64 " of %" PRIu64 "\n", pinned.bytes / page_bytes,
           pinned.physical / page_bytes, pages);
    const bool stays = gr_pinned_check(&pinned);
    *(uint64_t *)(pinned.memory + 7 * page_bytes) += 1;
    printf("%d %d %s\n", stays, gr_pinned_check(&pinned), gramophone_gpu_error());
    return 0;
}
