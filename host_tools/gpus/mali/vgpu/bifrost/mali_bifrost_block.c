/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Register blocks of 35 bits. Of 32 bits: 7:0 FAU, 13:8 register 3, 19:14 register 2, 24:20 register 0, 30:25
 * register 1, 34:31 control. Of 64 bits (pairs): 7:0 FAU, 12:8 P, 17:13 Q, 21:18 A, 26:22 B, 34:27 mode.
 * Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_block.h"

static unsigned field(uint64_t bits, unsigned low, unsigned width)
{
    return (unsigned)(bits >> low) & ((1u << width) - 1);
}

static struct bifrost_destination to(unsigned reg, enum bifrost_part part)
{
    return (struct bifrost_destination){(int)reg, part};
}

/* What ports 2 and 3 do. */
static bool late_ports(struct bifrost_block *block, unsigned mode, unsigned r2, unsigned r3)
{
    static const enum bifrost_part parts[3] = {PART_WHOLE, PART_LOW, PART_HIGH};

    if ((mode >= 1 && mode <= 6) || mode == 20)
        block->port[2] = (int)r2;
    if (mode >= 1 && mode <= 3) {
        block->fma = to(r3, (enum bifrost_part)(mode - 1));
    } else if (mode >= 4 && mode <= 6) {
        block->add = to(r3, (enum bifrost_part)(mode - 4));
    } else if (mode >= 7 && mode <= 15) {
        block->fma = to(r2, (enum bifrost_part)((mode - 7) / 3));
        block->add = to(r3, (enum bifrost_part)((mode - 7) % 3));
    } else if (mode >= 17 && mode <= 19) {
        block->fma = to(r3, parts[mode - 17]);
    } else if (mode >= 21 && mode <= 23) {
        block->add = to(r3, parts[mode - 21]);
    } else if (mode == 24 || mode == 26) {
        block->fma = to(r3, mode == 24 ? PART_LOW : PART_HIGH);
        block->add = to(r3, mode == 24 ? PART_HIGH : PART_LOW);
    } else {
        return mode == 16 || mode == 20 || mode == 27; /* nothing is written */
    }
    return true;
}

static struct bifrost_block idle(uint64_t bits)
{
    struct bifrost_destination nowhere = {BIFROST_NOWHERE, PART_WHOLE};

    return (struct bifrost_block){.fau = field(bits, 0, 8),
                                  .port = {BIFROST_NOWHERE, BIFROST_NOWHERE, BIFROST_NOWHERE},
                                  .fma = nowhere,
                                  .add = nowhere};
}

bool bifrost_block_read(struct bifrost_block *block, uint64_t bits, bool first)
{
    unsigned r3 = field(bits, 8, 6), r2 = field(bits, 14, 6), r0 = field(bits, 20, 5),
             r1 = field(bits, 25, 6), control = field(bits, 31, 4);

    *block = idle(bits);
    if (control) {
        block->port[0] = (int)(r0 <= r1 ? r0 : 63 - r0);
        block->port[1] = (int)(r0 <= r1 ? r1 : 63 - r1);
    } else {
        control = r1 >> 2;
        if (!(r1 & 2))
            block->port[0] = (int)(r0 | (r1 & 1) << 5);
    }
    unsigned mode = first ? (control & 7) | (control & 8) << 1 : control + (r2 == r3 ? 16 : 0);
    return late_ports(block, mode, r2, r3);
}

bool bifrost_block_read_wide(struct bifrost_block *block, uint64_t bits)
{
    unsigned p = field(bits, 8, 5), q = field(bits, 13, 5), a = field(bits, 18, 4), b = field(bits, 22, 5),
             mode = field(bits, 27, 8);

    *block = idle(bits);
    block->port[0] = (int)(2 * (mode == 0xff ? 16 + a : a <= b ? a : 31 - a));
    if (mode != 0xff)
        block->port[1] = (int)(2 * (a <= b ? b : 31 - b));
    if (mode == 0xfa) {
        block->port[2] = (int)(2 * p);
        block->fma = to(2 * q, PART_WHOLE);
    } else if (q == 6) {
        block->fma = to(2 * p, PART_WHOLE);
    } else if (q != 7) {
        return false;
    }
    return mode == 0xfa || mode == 0xfb || mode == 0xff;
}
