/* SPDX-License-Identifier: BSD-2-Clause */
/* A signed trace in a file. A thread of its own reads it: that may take for ever, and a replay may not. */
#ifndef GRAMOPHONE_SOURCE_H
#define GRAMOPHONE_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

enum { GR_PART_BYTES = 64 << 10 };

/* Open a file and start its thread; its size. False, with a message, when it cannot be read. */
bool gr_source_open(const char *path, uint64_t *bytes);

/* At most GR_PART_BYTES bytes from `offset`, as the file is now, until the next call. NULL: it ends before,
 * cannot be read, or gave no answer in time, now or before; gr_source_error says which. */
const uint8_t *gr_source_part(uint64_t offset, uint32_t bytes);
const char *gr_source_error(void);

/* End the thread; one that gave no answer ends with the answer. */
void gr_source_close(void);

#endif
