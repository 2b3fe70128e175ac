/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that the latest chain accessed, and how. Sources: see mali_mmu.c. */
#ifndef GRAMOPHONE_MALI_TOUCHED_H
#define GRAMOPHONE_MALI_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mali_touched_page {
    uint64_t page;  /* virtual page number */
    uint32_t flags; /* VGPU_PAGE_READ, _WRITTEN; 0: a free row */
};

/* Hash table with open addressing; `room` is a power of two or zero. */
struct mali_touched {
    struct mali_touched_page *row;
    size_t used, room;
};

/* False: out of memory. */
bool mali_touched_note(struct mali_touched *touched, uint64_t page, uint32_t flags);
/* 0: it was not accessed. */
uint32_t mali_touched_flags(const struct mali_touched *touched, uint64_t page);
void mali_touched_clear(struct mali_touched *touched);

#endif
