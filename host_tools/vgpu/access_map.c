/* SPDX-License-Identifier: BSD-2-Clause */
#include "access_map.h"

#include <stdlib.h>

enum { PAGE_SHIFT = 12, PAGE_BYTES = 1 << PAGE_SHIFT };

struct access_page {
    uint64_t frame; /* physical address >> 12 */
    uint8_t flags[PAGE_BYTES];
};

/* The slot that holds `frame`, or the free slot where it belongs. */
static size_t find_slot(const struct access_map *map, uint64_t frame)
{
    size_t slot = (size_t)(frame * 0x9e3779b97f4a7c15u >> 20) & (map->slots - 1);
    while (map->table[slot] && map->table[slot]->frame != frame)
        slot = (slot + 1) & (map->slots - 1);
    return slot;
}

static bool grow(struct access_map *map)
{
    struct access_map bigger = {.slots = map->slots ? 2 * map->slots : 256, .used = map->used};
    bigger.table = calloc(bigger.slots, sizeof(*bigger.table));
    if (!bigger.table)
        return false;
    for (size_t i = 0; i < map->slots; i++)
        if (map->table[i])
            bigger.table[find_slot(&bigger, map->table[i]->frame)] = map->table[i];
    free(map->table);
    *map = bigger;
    return true;
}

uint8_t *access_map_page(struct access_map *map, uint64_t pa)
{
    uint64_t frame = pa >> PAGE_SHIFT;
    if (2 * map->used >= map->slots && !grow(map))
        return NULL;
    size_t slot = find_slot(map, frame);
    if (!map->table[slot]) {
        map->table[slot] = calloc(1, sizeof(struct access_page));
        if (!map->table[slot])
            return NULL;
        map->table[slot]->frame = frame;
        map->used++;
    }
    return map->table[slot]->flags;
}

bool access_map_note(struct access_map *map, uint64_t pa, uint32_t bytes, bool write)
{
    uint8_t *flags = access_map_page(map, pa);
    if (flags)
        access_map_mark(flags + (pa & (PAGE_BYTES - 1)), bytes, write);
    return flags != NULL;
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
        if (map->table[i])
            all[n++] = map->table[i]->frame << PAGE_SHIFT;
    qsort(all, n, sizeof(*all), compare_u64);
    memcpy(pages, all, (count < n ? count : n) * sizeof(*all));
    free(all);
    return n;
}

const uint8_t *access_map_find(const struct access_map *map, uint64_t pa)
{
    if (!map->slots)
        return NULL;
    const struct access_page *page = map->table[find_slot(map, pa >> PAGE_SHIFT)];
    return page ? page->flags : NULL;
}

void access_map_clear(struct access_map *map)
{
    for (size_t i = 0; i < map->slots; i++)
        free(map->table[i]);
    free(map->table);
    *map = (struct access_map){0};
}
