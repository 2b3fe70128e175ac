/* SPDX-License-Identifier: BSD-2-Clause */
#include "access_map.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { PAGE_SHIFT = 12, PAGE_BYTES = 1 << PAGE_SHIFT, BLOCK_PAGES = 256 };
#define BLOCK_BYTES ((size_t)BLOCK_PAGES * PAGE_BYTES)

/* The slot that holds `frame`, or the free slot where it belongs. */
static size_t find_slot(const struct access_map *map, uint64_t frame)
{
    size_t slot = (size_t)(frame * 0x9e3779b97f4a7c15u >> 20) & (map->slots - 1);
    while (map->table[slot].flags && map->table[slot].frame != frame)
        slot = (slot + 1) & (map->slots - 1);
    return slot;
}

static size_t blocks_of(size_t pages)
{
    return (pages + BLOCK_PAGES - 1) / BLOCK_PAGES;
}

static bool grow(struct access_map *map)
{
    struct access_map bigger = *map;
    bigger.slots = map->slots ? 2 * map->slots : 256;
    bigger.table = calloc(bigger.slots, sizeof(*bigger.table));
    if (!bigger.table)
        return false;
    for (size_t i = 0; i < map->slots; i++)
        if (map->table[i].flags)
            bigger.table[find_slot(&bigger, map->table[i].frame)] = map->table[i];
    free(map->table);
    *map = bigger;
    return true;
}

/* Flags for one page more, all zero; NULL: out of memory. */
static uint8_t *new_flags(struct access_map *map)
{
    size_t count = blocks_of(map->used);
    if (map->used % BLOCK_PAGES == 0) {
        uint8_t **blocks = realloc(map->blocks, (count + 1) * sizeof(*blocks));
        if (!blocks)
            return NULL;
        map->blocks = blocks;
        void *block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            return NULL;
        blocks[count++] = block;
    }
    return map->blocks[count - 1] + map->used++ % BLOCK_PAGES * PAGE_BYTES;
}

uint8_t *access_map_page(struct access_map *map, uint64_t pa)
{
    uint64_t frame = pa >> PAGE_SHIFT;
    if (2 * map->used >= map->slots && !grow(map))
        return NULL;
    struct access_page *page = &map->table[find_slot(map, frame)];
    if (!page->flags)
        *page = (struct access_page){.frame = frame, .flags = new_flags(map)};
    return page->flags;
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

size_t access_map_pages(const struct access_map *map, uint64_t *pages, size_t count)
{
    if (!pages || !map->used)
        return map->used;
    uint64_t *all = malloc(map->used * sizeof(*all));
    if (!all)
        return 0;
    size_t n = 0;
    for (size_t i = 0; i < map->slots; i++)
        if (map->table[i].flags)
            all[n++] = map->table[i].frame << PAGE_SHIFT;
    qsort(all, n, sizeof(*all), compare_u64);
    memcpy(pages, all, (count < n ? count : n) * sizeof(*all));
    free(all);
    return n;
}

const uint8_t *access_map_find(const struct access_map *map, uint64_t pa)
{
    return map->slots ? map->table[find_slot(map, pa >> PAGE_SHIFT)].flags : NULL;
}

void access_map_clear(struct access_map *map)
{
    for (size_t i = 0; i < blocks_of(map->used); i++)
        munmap(map->blocks[i], BLOCK_BYTES);
    free(map->blocks);
    free(map->table);
    *map = (struct access_map){0};
}
