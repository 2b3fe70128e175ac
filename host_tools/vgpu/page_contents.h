/* SPDX-License-Identifier: BSD-2-Clause */
/* Contents of pages that were written out before, found by hash. */
#ifndef GRAMOPHONE_PAGE_CONTENTS_H
#define GRAMOPHONE_PAGE_CONTENTS_H

#include <stddef.h>
#include <stdint.h>

struct content;

struct contents {
    struct content *table;
    size_t slots;
    uint32_t count;
};

enum content_state { CONTENT_KNOWN, CONTENT_NEW, CONTENT_NO_MEMORY };

/* Look a page's content up, and keep a copy if it is new; its number, unless there is no memory. */
enum content_state contents_add(struct contents *contents, const uint8_t *bytes, uint32_t *id);

void contents_free(struct contents *contents);

#endif
