/* SPDX-License-Identifier: BSD-2-Clause */
/* Which bytes of physical memory a GPU read and wrote, page by page (VGPU_ACCESS_* of vgpu.h). */
#ifndef GRAMOPHONE_ACCESS_MAP_H
#define GRAMOPHONE_ACCESS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Hash table with open addressing; `slots` is a power of two or zero. */
struct access_map {
    struct access_page **table;
    size_t slots, used;
};

/* Note an access of `bytes` bytes at `pa`, all in one 4 KiB page. False: out of memory. */
bool access_map_note(struct access_map *map, uint64_t pa, uint32_t bytes, bool write);
/* Number of pages; the first `count` addresses, ascending, into `pages` unless it is NULL. */
size_t access_map_pages(const struct access_map *map, uint64_t *pages, size_t count);
/* The 4096 flag bytes of the page at `pa`, or NULL. */
const uint8_t *access_map_find(const struct access_map *map, uint64_t pa);
void access_map_clear(struct access_map *map);

#endif
