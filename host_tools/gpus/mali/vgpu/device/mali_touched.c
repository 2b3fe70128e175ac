/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash table of page numbers. Sources: see mali_mmu.c. */
#include "mali_touched.h"

#include <stdlib.h>

/* The row of `page`, or the free one where it belongs. */
static struct mali_touched_page *find(const struct mali_touched *touched, uint64_t page)
{
    size_t at = (size_t)(page * 0x9e3779b97f4a7c15u >> 20) & (touched->room - 1);

    while (touched->row[at].flags && touched->row[at].page != page)
        at = (at + 1) & (touched->room - 1);
    return &touched->row[at];
}

static bool grow(struct mali_touched *touched)
{
    struct mali_touched bigger = {.used = touched->used, .room = touched->room ? 2 * touched->room : 256};

    bigger.row = calloc(bigger.room, sizeof(*bigger.row));
    if (!bigger.row)
        return false;
    for (size_t i = 0; i < touched->room; i++)
        if (touched->row[i].flags)
            *find(&bigger, touched->row[i].page) = touched->row[i];
    free(touched->row);
    *touched = bigger;
    return true;
}

bool mali_touched_note(struct mali_touched *touched, uint64_t page, uint32_t flags)
{
    if (2 * touched->used >= touched->room && !grow(touched))
        return false;
    struct mali_touched_page *row = find(touched, page);
    touched->used += !row->flags;
    row->page = page;
    row->flags |= flags;
    return true;
}

uint32_t mali_touched_flags(const struct mali_touched *touched, uint64_t page)
{
    return touched->room ? find(touched, page)->flags : 0;
}

void mali_touched_clear(struct mali_touched *touched)
{
    free(touched->row);
    *touched = (struct mali_touched){0};
}
