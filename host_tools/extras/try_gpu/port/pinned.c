/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Physically contiguous memory of a process: the longest run among huge pages, or else among pages, put in
 * order. io_uring's registered buffers pin it, because locked pages still move (compaction, khugepaged), and
 * the GPU would then reach somebody else's. Facts: Linux 6.12 io_uring/rsrc.c (FOLL_LONGTERM),
 * Documentation/admin-guide/mm/ pagemap.rst, hugetlbpage.rst.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "devmem.h"

enum {
    MOST = 128 << 20,
    PAGES = MOST / 4096, /* at most: a kernel's may be larger */
    LEAST = 16 << 20,
    TRIES = 1000,
    ASKED = 8, /* for huge pages, at most */
    REGISTER_BUFFERS = 0,
    POPULATE_WRITE = 23
};
#define PRESENT (UINT64_C(1) << 63)
#define FRAME ((UINT64_C(1) << 55) - 1)
#define PAGEMAP "/proc/self/pagemap"
#define COMPACT "/proc/sys/vm/compact_memory" /* put free memory together */

struct unit {
    uint64_t frame, number; /* of its first page; in the mapping */
};

/* The kinds of huge pages that are tried: how the kernel calls them. Kernels with pages of 4 and of 16 KiB
 * have both. */
struct kind {
    const char *name; /* NULL: the kernel's own pages */
    int shift;
};
static const struct kind kinds[] = {{"32768kB", 25}, {"2048kB", 21}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Bytes of the kernel's own pages: 4096, or 16384 with Raspberry Pi's kernel for its Pi 5. */
static size_t own_page(void)
{
    static size_t bytes;
    return bytes ? bytes : (bytes = (size_t)sysconf(_SC_PAGESIZE));
}

/* Read the frame numbers of pages; false with errno when not all could be read. */
static bool read_frames(int file, const void *memory, uint64_t *frames, size_t count)
{
    const size_t bytes = count * sizeof *frames;
    errno = 0;
    return pread(file, frames, bytes, (off_t)((uintptr_t)memory / own_page() * sizeof *frames)) ==
           (ssize_t)bytes;
}

/* The frame of each page. The kernel takes a page out of the page table for a moment when it tries to move
 * it, also one that is pinned and stays: then the page is asked for again. */
static bool find_frames(const uint8_t *memory, uint64_t *frames, size_t count)
{
    const struct timespec moment = {0, 1000000};
    const int file = open(PAGEMAP, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return gr_fail("memory: " PAGEMAP ": %s: expected a kernel with PROC_PAGE_MONITOR", strerror(errno));
    bool good = read_frames(file, memory, frames, count);
    for (size_t i = 0; good && i < count; i++)
        for (int tries = 0; good && !(frames[i] & PRESENT); tries++) {
            nanosleep(&moment, NULL);
            (void)*(const volatile uint8_t *)(memory + i * own_page());
            good = tries < TRIES && read_frames(file, memory + i * own_page(), &frames[i], 1);
        }
    close(file);
    for (size_t i = 0; good && i < count; i++)
        if (!(frames[i] &= FRAME))
            return gr_fail("memory: " PAGEMAP
                           ": expected frame numbers, found none: they are hidden from this process "
                           "(a container, or no CAP_SYS_ADMIN)");
    return good || gr_fail("memory: " PAGEMAP ": expected pages that are present, found others: %s",
                           errno ? strerror(errno) : "they are moved all the time");
}

static bool pin(struct gr_pinned *pinned, void *memory, size_t bytes)
{
    uint8_t parameters[120] = {0}; /* struct io_uring_params */
    const struct iovec buffer = {memory, bytes};
    pinned->ring = (int)syscall(SYS_io_uring_setup, 1, parameters);
    if (pinned->ring < 0)
        return gr_fail("memory: io_uring, which pins it: %s: expected a kernel with IO_URING, and "
                       "kernel.io_uring_disabled = 0 (sysctl)",
                       strerror(errno));
    return syscall(SYS_io_uring_register, pinned->ring, REGISTER_BUFFERS, &buffer, 1) == 0 ||
           gr_fail("memory: pinning %zu KiB by io_uring: %s", bytes >> 10, strerror(errno));
}

/* The kernel's number of huge pages of a kind; 0: it has no such kind. */
static size_t huge_pages(const char path[GR_PATH])
{
    char text[32];
    return gr_read_text(path, text, sizeof text) > 0 ? strtoul(text, NULL, 10) : 0;
}

static bool set_huge_pages(const char path[GR_PATH], size_t count)
{
    char text[32];
    snprintf(text, sizeof text, "%zu", count);
    return gr_write_text(path, text);
}

/* Have the kernel make huge pages besides those that there are; how many it made. What is in their way for a
 * moment (a page that is written to disk, or moved) is not when it is asked again with free memory put
 * together. */
static size_t make_huge_pages(const char path[GR_PATH], size_t before, size_t wanted)
{
    size_t made = 0;
    for (unsigned asked = 0; asked < ASKED && made < wanted; asked++) {
        if (asked)
            (void)gr_write_text(COMPACT, "1");
        if (!set_huge_pages(path, before + wanted))
            return 0;
        const size_t now = huge_pages(path);
        made = now > before ? now - before : 0;
    }
    return made;
}

static uint8_t *map(const struct kind *kind, size_t bytes)
{
    const int huge = kind->name ? MAP_HUGETLB | kind->shift << 26 /* MAP_HUGE_SHIFT */ : 0;
    void *const found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | huge, -1, 0);
    if (found == MAP_FAILED)
        return NULL;
    madvise(found, bytes, MADV_NOHUGEPAGE); /* nobody joins pages that lie apart */
    if (!madvise(found, bytes, POPULATE_WRITE))
        return found;
    if (errno == EINVAL) /* before Linux 5.14 */
        return memset(found, 0, bytes);
    munmap(found, bytes);
    return NULL;
}

/* As many pages of a kind as there are, up to MOST bytes; NULL: fewer than LEAST. The kernel makes huge pages
 * for it, besides those that there are. */
static uint8_t *map_most(const struct kind *kind, size_t *bytes)
{
    char path[GR_PATH];
    size_t before = 0;
    *bytes = MOST;
    if (kind->name) {
        gr_path(path, "/sys/kernel/mm/hugepages/hugepages-%s/nr_hugepages", kind->name);
        before = huge_pages(path);
        *bytes = make_huge_pages(path, before, MOST >> kind->shift) << kind->shift;
    } else
        (void)gr_write_text(COMPACT, "1");
    const size_t page = (size_t)1 << kind->shift, step = page > LEAST ? page : LEAST;
    uint8_t *memory = NULL;
    while (*bytes >= LEAST && !(memory = map(kind, *bytes)))
        *bytes -= *bytes < step ? *bytes : step;
    if (kind->name)
        set_huge_pages(path, before); /* pages in use stay until they are free */
    return memory;
}

static int by_frame(const void *a, const void *b)
{
    const struct unit *one = a, *other = b;
    return (one->frame > other->frame) - (one->frame < other->frame);
}

/* The longest run of units whose frames follow one another; where it begins, in the order of frames. */
static size_t longest_run(const struct unit *units, size_t count, uint64_t pages, size_t *length)
{
    size_t best = 0;
    *length = 0;
    for (size_t from = 0, to = 1; to <= count; to++)
        if (to == count || units[to].frame != units[to - 1].frame + pages) {
            if (to - from > *length) {
                best = from;
                *length = to - from;
            }
            from = to;
        }
    return best;
}

/* Move units into one range of addresses, in the order of their frames. */
static uint8_t *in_order(uint8_t *all, const struct unit *units, size_t count, int shift)
{
    const size_t size = (size_t)1 << shift;
    uint8_t *const room = mmap(NULL, (count + 1) * size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return NULL;
    uint8_t *const memory = room + (-(uintptr_t)room & (size - 1));
    for (size_t i = 0; i < count; i++)
        if (mremap(all + (units[i].number << shift), size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                   memory + i * size) == MAP_FAILED)
            return NULL;
    return memory;
}

/* The longest run of one kind of pages, pinned. */
static bool find_run(struct gr_pinned *pinned, const struct kind *kind)
{
    static uint64_t frames[PAGES];
    static struct unit units[PAGES];
    const uint64_t pages = ((uint64_t)1 << kind->shift) / own_page();
    size_t bytes, length;
    uint8_t *const all = map_most(kind, &bytes);
    if (!all)
        return gr_fail("memory: expected %d MiB that are free, found less: end other programs", LEAST >> 20);
    const size_t count = bytes >> kind->shift;
    if (!pin(pinned, all, bytes) || !find_frames(all, frames, bytes / own_page()))
        return false;
    for (size_t i = 0; i < count; i++)
        units[i] = (struct unit){frames[i * pages], i};
    qsort(units, count, sizeof *units, by_frame);
    const size_t best = longest_run(units, count, pages, &length);
    pinned->memory = in_order(all, units + best, length, kind->shift);
    pinned->physical = units[best].frame * own_page();
    pinned->bytes = length << kind->shift;
    return pinned->memory || gr_fail("memory: moving a page: %s", strerror(errno));
}

bool gr_pinned_open(struct gr_pinned *pinned)
{
    const struct kind own = {NULL, __builtin_ctzl(own_page())};
    size_t i = getenv("GRAMOPHONE_NO_HUGE_PAGE") ? KINDS : 0;
    while (i < KINDS && !find_run(pinned, &kinds[i]))
        gr_pinned_close(pinned), i++;
    if (i == KINDS && !find_run(pinned, &own))
        return gr_pinned_close(pinned), false;
    fprintf(stderr, "memory: %" PRIu64 " KiB at %#" PRIx64 ", of pages of %d KiB\n", pinned->bytes >> 10,
            pinned->physical, 1 << ((i < KINDS ? kinds[i].shift : own.shift) - 10));
    return true;
}

bool gr_pinned_check(const struct gr_pinned *pinned)
{
    static uint64_t frames[PAGES];
    const size_t count = pinned->bytes / own_page();
    if (!find_frames(pinned->memory, frames, count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (frames[i] != pinned->physical / own_page() + i)
            return gr_fail("memory: page %zu: expected frame %#" PRIx64 ", found %#" PRIx64
                           ": the kernel has moved it",
                           i, pinned->physical / own_page() + i, frames[i]);
    fprintf(stderr, "memory: all %zu pages are where they were\n", count);
    return true;
}

void gr_pinned_close(struct gr_pinned *pinned)
{
    if (pinned->memory)
        munmap(pinned->memory, pinned->bytes);
    if (pinned->ring > 0)
        close(pinned->ring);
    *pinned = (struct gr_pinned){0};
}
