/* SPDX-License-Identifier: BSD-2-Clause */
/* Register blocks: which registers a tuple reads, and where results of the tuple before it go. Sources: see
 * mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_BLOCK_H
#define GRAMOPHONE_MALI_BIFROST_BLOCK_H

#include <stdbool.h>
#include <stdint.h>

enum { BIFROST_NOWHERE = -1 };
enum bifrost_part { PART_LOW, PART_HIGH, PART_WHOLE };

/* A register, or a part of it, that a result goes to. In 64-bit clauses: the lower one of a pair. */
struct bifrost_destination {
    int reg; /* BIFROST_NOWHERE: it goes to no register */
    enum bifrost_part part;
};

struct bifrost_block {
    unsigned fau;
    int port[3]; /* registers (of a pair the lower one), or BIFROST_NOWHERE */
    struct bifrost_destination fma, add;
};

/* Read a block of 32-bit clauses; first: of the clause's first tuple. False: a mode that is not known. */
bool bifrost_block_read(struct bifrost_block *block, uint64_t bits, bool first);
/* The same of 64-bit clauses. */
bool bifrost_block_read_wide(struct bifrost_block *block, uint64_t bits);

#endif
