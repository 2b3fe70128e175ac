/* SPDX-License-Identifier: BSD-2-Clause */
/* From quadwords to clauses. A quadword's low 8 bits say what is in it. Sources: see mali_bifrost_clause.h.
 */
#include "mali_bifrost_clause.h"

#include <stddef.h>
#include <string.h>

enum { TAG_STOP = 0x40, BLOCK_BITS = 35, FMA_BITS = 23, ADD_LOW_BITS = 17 };
enum { FMA_LOW_BITS = 10 }; /* of a tuple in two quadwords */

typedef unsigned __int128 quadword;

static uint64_t field(quadword q, unsigned low, unsigned width)
{
    return (uint64_t)(q >> low) & ((UINT64_C(1) << width) - 1);
}

/* A whole tuple but for the 3 high bits of its ADD, which are given. */
static void whole(struct bifrost_clause *clause, unsigned number, quadword q, unsigned high)
{
    struct bifrost_tuple *tuple = &clause->tuple[number];

    tuple->block = field(q, 8, BLOCK_BITS);
    tuple->fma = (uint32_t)field(q, 8 + BLOCK_BITS, FMA_BITS);
    tuple->add = (uint32_t)field(q, 8 + BLOCK_BITS + FMA_BITS, ADD_LOW_BITS) | high << ADD_LOW_BITS;
    clause->present |= 1u << number;
}

/* The low 45 bits of a tuple in two quadwords. */
static void begin(struct bifrost_clause *clause, unsigned number, quadword q)
{
    clause->tuple[number].block = field(q, 83, BLOCK_BITS);
    clause->tuple[number].fma = (uint32_t)field(q, 83 + BLOCK_BITS, FMA_LOW_BITS);
    clause->begun |= 1u << number;
}

/* What is missing of it. */
static const char *rest(struct bifrost_clause *clause, unsigned number, quadword q, unsigned high)
{
    struct bifrost_tuple *tuple = &clause->tuple[number];

    if (!(clause->begun >> number & 1))
        return "the rest of a tuple that has not begun";
    tuple->fma |= (uint32_t)field(q, 83, FMA_BITS - FMA_LOW_BITS) << FMA_LOW_BITS;
    tuple->add = (uint32_t)field(q, 96, ADD_LOW_BITS) | high << ADD_LOW_BITS;
    clause->present |= 1u << number;
    return NULL;
}

static void constant(struct bifrost_clause *clause, unsigned number, uint64_t bits,
                     enum bifrost_relative relative)
{
    clause->constant[number] = bits << 4;
    clause->relative[number] = relative;
    clause->constants |= 1u << number;
}

/* How two constants are relative to the program counter. */
static void relative(unsigned m1, unsigned m2, enum bifrost_relative of[2])
{
    static const enum bifrost_relative pairs[7][2] = {
        [1] = {BIFROST_LOW, BIFROST_ABSOLUTE},    [2] = {BIFROST_LOW, BIFROST_LOW},
        [3] = {BIFROST_UNKNOWN, BIFROST_UNKNOWN}, [4] = {BIFROST_HIGH, BIFROST_ABSOLUTE},
        [5] = {BIFROST_HIGH, BIFROST_HIGH},       [6] = {BIFROST_LOW, BIFROST_ABSOLUTE},
    };
    static const enum bifrost_relative second[4] = {BIFROST_ABSOLUTE, BIFROST_HIGH, BIFROST_BOTH,
                                                    BIFROST_HIGH};

    of[0] = m1 < 7 ? pairs[m1][0] : m1 > 7 ? BIFROST_ABSOLUTE : m2 < 4 ? BIFROST_BOTH : BIFROST_UNKNOWN;
    of[1] = m1 < 7 ? pairs[m1][1] : m1 > 7 ? BIFROST_ABSOLUTE : m2 < 4 ? second[m2] : BIFROST_UNKNOWN;
}

static const char *two_constants(struct bifrost_clause *clause, quadword q, unsigned place)
{
    /* The first constant's number, and how many tuples the clause has. */
    static const uint8_t places[15][2] = {{0, 1}, {0, 2}, {0, 4}, {1, 3}, {1, 5}, {2, 4}, {0, 7}, {1, 6},
                                          {3, 5}, {1, 8}, {2, 7}, {3, 6}, {3, 8}, {4, 7}, {5, 6}};
    enum bifrost_relative of[2];

    if (place >= 15)
        return "constants at an unknown place";
    if (clause->count && clause->count != places[place][1])
        return "constants of a clause with another number of tuples";
    clause->count = places[place][1];
    unsigned first = places[place][0];
    relative((unsigned)(field(q, 64, 4) - field(q, 124, 4)) & 15,
             (unsigned)(field(q, 32, 4) - field(q, 92, 4)) & 15, of);
    constant(clause, first, field(q, 8, 60), of[0]);
    if (first + 1 < BIFROST_CONSTANTS)
        constant(clause, first + 1, field(q, 68, 60), of[1]);
    return NULL;
}

/* Tags 10iiijjj and 11iiijjj: a tuple, the rest of the one before it, the low bits of constant 0. */
static const char *tuple_rest_half(struct bifrost_clause *clause, quadword q, unsigned tag)
{
    unsigned number = tag & TAG_STOP ? 6 : 3;

    whole(clause, number, q, tag >> 3 & 7);
    clause->constant[0] = field(q, 113, 15) << 4;
    return rest(clause, number - 1, q, tag & 7);
}

/* Tags 0z000nnn. */
static const char *later_tuple(struct bifrost_clause *clause, quadword q, unsigned kind)
{
    unsigned top = (unsigned)field(q, 125, 3);
    enum bifrost_relative of[2];
    const char *flaw;

    switch (kind) {
    case 3:
        whole(clause, 1, q, top);
        clause->count = 2;
        return NULL;
    case 4:
    case 6:
        flaw = rest(clause, kind == 4 ? 2 : 5, q, top);
        relative((unsigned)field(q, 68, 4), (unsigned)field(q, 72, 4), of);
        constant(clause, 0, field(q, 8, 60), of[0]);
        clause->count = kind == 4 ? 3 : 6;
        return flaw;
    case 1:
    case 5:
    case 7:
        whole(clause, kind == 7 ? 6 : 3, q, (unsigned)field(q, 122, 3));
        if (kind != 1)
            clause->count = kind == 7 ? 7 : 4;
        return rest(clause, kind == 7 ? 5 : 2, q, top);
    default: return "a quadword with an unknown tag";
    }
}

static const char *take(struct bifrost_clause *clause, quadword q, unsigned tag)
{
    unsigned kind = tag >> 3 & 7, low = tag & 7, stop = tag & TAG_STOP;

    if (tag & 0x80)
        return tuple_rest_half(clause, q, tag);
    if (kind == 0)
        return later_tuple(clause, q, low);
    if (kind == 1 || (kind == 5 && !stop)) { /* the first tuple, or the only one */
        whole(clause, 0, q, low);
        clause->header = field(q, 83, 45);
        clause->count = kind == 1;
    } else if (kind == 2 || kind == 3) { /* a tuple and the high bits of constant 0 */
        whole(clause, kind == 2 ? 4 : 7, q, low);
        constant(clause, 0, clause->constant[0] >> 4 | field(q, 83, 45) << 15, BIFROST_ABSOLUTE);
        clause->count = kind == 2 ? 5 : 8;
    } else if (kind == 4) { /* a tuple and the low part of the next */
        unsigned number = stop ? 4 : 1;
        whole(clause, number, q, low);
        begin(clause, number + 1, q);
    } else if (kind >= 6) {
        return two_constants(clause, q, tag & 15);
    } else {
        return "a quadword with an unknown tag";
    }
    return NULL;
}

const char *bifrost_clause_take(struct bifrost_clause *clause, const uint8_t quadword_bytes[BIFROST_QUADWORD])
{
    quadword q;

    memcpy(&q, quadword_bytes, sizeof(q)); /* little-endian, as the GPU */
    unsigned tag = (unsigned)q & 0xff;
    bool is_first = (tag & 0xb8) == 0x08 || (tag & 0xf8) == 0x28;
    if (is_first != (clause->quadwords == 0))
        return is_first ? "a clause begins inside another" : "a clause does not begin with a first tuple";
    const char *flaw = take(clause, q, tag);
    clause->quadwords++;
    /* Tags 01100iii, 00101iii and 1.iiijjj never end a clause: there the bit says something else. */
    bool ends = !(tag & 0x80) && (tag >> 3 & 7) != 4 && tag & TAG_STOP;
    if (!flaw && ends && clause->present != (1u << clause->count) - 1)
        flaw = "tuples are missing";
    if (!flaw && !ends && clause->quadwords == BIFROST_CLAUSE_QUADWORDS)
        flaw = "a clause without an end";
    clause->is_whole = !flaw && ends;
    return flaw;
}
