/* SPDX-License-Identifier: BSD-2-Clause */
#include "page_contents.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "gramophone_capture.h"

enum { PAGE_BYTES = GR_CAPTURE_PAGE_BYTES };

struct content {
    uint64_t hash;
    uint8_t *bytes;
    uint32_t id;
};

static uint64_t hash_page(const uint8_t *bytes)
{
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < PAGE_BYTES; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, sizeof(word));
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

/* The slot with this content, or the free slot where it belongs. */
static struct content *find_content(struct content *table, size_t slots, uint64_t hash, const uint8_t *bytes)
{
    size_t i = (size_t)hash & (slots - 1);
    while (table[i].bytes && (table[i].hash != hash || memcmp(table[i].bytes, bytes, PAGE_BYTES) != 0))
        i = (i + 1) & (slots - 1);
    return &table[i];
}

static bool grow(struct contents *c)
{
    size_t slots = c->slots ? 2 * c->slots : 1024;
    struct content *table = calloc(slots, sizeof(*table));
    if (!table)
        return false;
    for (size_t i = 0; i < c->slots; i++)
        if (c->table[i].bytes)
            *find_content(table, slots, c->table[i].hash, c->table[i].bytes) = c->table[i];
    free(c->table);
    c->table = table;
    c->slots = slots;
    return true;
}

enum content_state contents_add(struct contents *c, const uint8_t *bytes, uint32_t *id)
{
    if (2 * (size_t)c->count >= c->slots && !grow(c))
        return CONTENT_NO_MEMORY;
    uint64_t hash = hash_page(bytes);
    struct content *content = find_content(c->table, c->slots, hash, bytes);
    if (content->bytes) {
        *id = content->id;
        return CONTENT_KNOWN;
    }
    content->bytes = malloc(PAGE_BYTES);
    if (!content->bytes)
        return CONTENT_NO_MEMORY;
    memcpy(content->bytes, bytes, PAGE_BYTES);
    content->hash = hash;
    content->id = c->count++;
    *id = content->id;
    return CONTENT_NEW;
}

void contents_free(struct contents *c)
{
    for (size_t i = 0; i < c->slots; i++)
        free(c->table[i].bytes);
    free(c->table);
}
