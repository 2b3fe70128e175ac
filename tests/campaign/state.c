/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

#include <string.h>
#include <sys/mman.h>

enum { PAGES_MAX = 1 << 16 };

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / golden ratio */
    return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void *data, uint64_t bytes)
{
    const uint8_t *from = data;
    for (uint64_t at = 0; at + 8 <= bytes; at += 8) {
        uint64_t word;
        memcpy(&word, from + at, sizeof word);
        hash = mix(hash, word);
    }
    return hash;
}

uint64_t machine_hash(const void *data, uint64_t bytes)
{
    return mix_bytes(1, data, bytes);
}

/* Pages that hold only zeros count as pages that nobody has touched. */
static uint64_t mix_range(uint64_t hash, uint8_t *memory, uint64_t bytes)
{
    static unsigned char resident[PAGES_MAX];
    static const uint8_t zeros[PAGE];
    if (bytes / PAGE > PAGES_MAX || mincore(memory, bytes, resident))
        fail("the memory cannot be looked through");
    for (uint64_t page = 0; page < bytes / PAGE; page++) {
        const uint8_t *at = memory + page * PAGE;
        if (resident[page] && memcmp(at, zeros, PAGE))
            hash = mix_bytes(mix(hash, page), at, PAGE);
    }
    return hash;
}

uint64_t machine_state(const struct machine *m)
{
    static const int registers[] = {
        UC_ARM64_REG_X0,  UC_ARM64_REG_X1,  UC_ARM64_REG_X2,  UC_ARM64_REG_X3,   UC_ARM64_REG_X4,
        UC_ARM64_REG_X5,  UC_ARM64_REG_X6,  UC_ARM64_REG_X7,  UC_ARM64_REG_X8,   UC_ARM64_REG_X9,
        UC_ARM64_REG_X10, UC_ARM64_REG_X11, UC_ARM64_REG_X12, UC_ARM64_REG_X13,  UC_ARM64_REG_X14,
        UC_ARM64_REG_X15, UC_ARM64_REG_X16, UC_ARM64_REG_X17, UC_ARM64_REG_X18,  UC_ARM64_REG_X19,
        UC_ARM64_REG_X20, UC_ARM64_REG_X21, UC_ARM64_REG_X22, UC_ARM64_REG_X23,  UC_ARM64_REG_X24,
        UC_ARM64_REG_X25, UC_ARM64_REG_X26, UC_ARM64_REG_X27, UC_ARM64_REG_X28,  UC_ARM64_REG_X29,
        UC_ARM64_REG_X30, UC_ARM64_REG_SP,  UC_ARM64_REG_PC,  UC_ARM64_REG_NZCV,
    };
    uint64_t hash = 1;
    for (unsigned i = 0; i < sizeof registers / sizeof registers[0]; i++)
        hash = mix(hash, machine_reg(m, registers[i]));
    const uint64_t stack = machine_reg(m, UC_ARM64_REG_SP);
    for (unsigned i = 0; i < m->range_count; i++) {
        uint64_t from = stack - m->ranges[i].base;
        if (from > m->ranges[i].bytes)
            from = 0; /* the stack is elsewhere */
        const uint64_t whole = (from + PAGE - 1) / PAGE * PAGE;
        hash = mix_bytes(mix(hash, i), m->ranges[i].memory + from, whole - from);
        hash = mix_range(hash, m->ranges[i].memory + whole, m->ranges[i].bytes - whole);
    }
    hash = mix_bytes(hash, m->registers, sizeof m->registers);
    for (unsigned i = 0; i < KEPT_MAX; i++)
        hash = mix_bytes(hash, m->kept[i].bytes, sizeof m->kept[i].bytes);
    hash = mix(flash_state(board_state(hash)), (uint64_t)m->has_said_line << 32 | m->open_file);
    hash = mix(mix(hash, m->now_ns), m->writes);
    return mix(mix(hash, m->from_trace), (uint64_t)m->seen_offset << 32 | m->seen_value);
}
