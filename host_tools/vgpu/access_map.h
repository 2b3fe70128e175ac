/* SPDX-License-Identifier: BSD-2-Clause */
/* Which bytes of physical memory a GPU read and wrote, page by page (VGPU_ACCESS_* of vgpu.h). */
#ifndef GRAMOPHONE_ACCESS_MAP_H
#define GRAMOPHONE_ACCESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vgpu.h"

struct access_page {
    uint64_t frame; /* physical address >> 12 */
    uint8_t *flags; /* NULL: a free slot */
};

/* Hash table with open addressing; `slots` is a power of two or zero. The flags lie in blocks of their own,
 * which go back to the system as soon as they are not needed: there are as many as bytes that a network
 * touches. */
struct access_map {
    struct access_page *table;
    size_t slots, used;
    uint8_t **blocks;
};

/* The 4096 flag bytes of the page at `pa`, which is added if it is not there; they stay where they are until
 * access_map_clear(). NULL: out of memory. */
uint8_t *access_map_page(struct access_map *map, uint64_t pa);

/* What four bytes' flags become when the bytes are accessed. */
static inline uint32_t access_map_marked(uint32_t flags, bool write)
{
    const uint32_t each = 0x01010101u;
    if (write)
        return flags | each * VGPU_ACCESS_WRITTEN;
    uint32_t first = ~flags / VGPU_ACCESS_WRITTEN & each; /* not written before */
    return flags | each * VGPU_ACCESS_READ | first * VGPU_ACCESS_READ_FIRST;
}

/* Note an access of `bytes` bytes, whose flags begin at `flags`. */
static inline void access_map_mark(uint8_t *flags, uint32_t bytes, bool write)
{
    for (; bytes >= 4; bytes -= 4, flags += 4) {
        uint32_t word;
        memcpy(&word, flags, sizeof(word));
        word = access_map_marked(word, write);
        memcpy(flags, &word, sizeof(word));
    }
    for (; bytes; bytes--, flags++)
        *flags = (uint8_t)access_map_marked(*flags, write);
}

/* Note a read of `bytes` bytes, whose flags begin at `flags`, that decide what the job does. */
static inline void access_map_mark_command(uint8_t *flags, uint32_t bytes)
{
    access_map_mark(flags, bytes, false);
    for (uint32_t i = 0; i < bytes; i++)
        flags[i] |= VGPU_ACCESS_COMMAND;
}

/* Number of pages; the first `count` addresses, ascending, into `pages` unless it is NULL. */
size_t access_map_pages(const struct access_map *map, uint64_t *pages, size_t count);
/* The 4096 flag bytes of the page at `pa`, or NULL. */
const uint8_t *access_map_find(const struct access_map *map, uint64_t pa);
void access_map_clear(struct access_map *map);

#endif
