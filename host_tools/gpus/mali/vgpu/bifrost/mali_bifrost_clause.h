/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Clauses of a Bifrost program: how quadwords hold them.
 *
 * A clause is 1 to 8 tuples of a register block (35 bits), an FMA (23) and an ADD operation (20), and up to 6
 * constants of 60 bits. Sources: Mesa 22.3.6 src/panfrost/bifrost (disassemble.c, ISA.xml), C. Abbott's notes
 * on Bifrost, recordings.
 */
#ifndef GRAMOPHONE_MALI_BIFROST_CLAUSE_H
#define GRAMOPHONE_MALI_BIFROST_CLAUSE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    BIFROST_QUADWORD = 16,
    BIFROST_TUPLES = 8,
    BIFROST_CONSTANTS = 6,
    BIFROST_CLAUSE_QUADWORDS = 12, /* more than any form needs */
};

struct bifrost_tuple {
    uint64_t block;
    uint32_t fma, add;
};

/* Which words of a constant are relative to the program counter. */
enum bifrost_relative { BIFROST_ABSOLUTE, BIFROST_LOW, BIFROST_HIGH, BIFROST_BOTH, BIFROST_UNKNOWN };

struct bifrost_clause {
    unsigned quadwords, count; /* tuples */
    uint64_t header;
    struct bifrost_tuple tuple[BIFROST_TUPLES];
    uint64_t constant[BIFROST_CONSTANTS]; /* the low 4 bits, which come from a tuple, are 0 */
    enum bifrost_relative relative[BIFROST_CONSTANTS];
    unsigned present, begun, constants; /* bit i: tuple i is whole; its low part is there; constant i is */
    bool is_whole;
};

/* Take the next quadword of a clause that began as zeros. NULL, or what is wrong with it (static text). */
const char *bifrost_clause_take(struct bifrost_clause *clause, const uint8_t quadword[BIFROST_QUADWORD]);

/* Fields of a header. */
static inline unsigned bifrost_header(const struct bifrost_clause *clause, unsigned low, unsigned width)
{
    return (unsigned)(clause->header >> low) & ((1u << width) - 1);
}

#endif
