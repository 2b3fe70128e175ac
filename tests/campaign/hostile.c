/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the normal world that no run without a fault touches: an attacker has put there what helps him
 * most when a flipped bit makes an address lead to it. A page holds what the secure page one bit away holds,
 * but for this: of the firmware's constants, those of a firmware that he has made; in memory, pointers to the
 * device's constant lead to his.
 */
#include "machine.h"

#include <string.h>
#include <sys/mman.h>

enum { FIRST_BIT = 12, LAST_BIT = 47 };

static bool is_hostile(const struct machine *m, uint64_t address)
{
    for (unsigned i = 0; i < m->hostile_count; i++)
        if (address - m->hostile[i].base < m->hostile[i].bytes)
            return true;
    return false;
}

/* Pointers to the device's constant lead to the page that is `bit` away. A policy begins with two of them,
 * and has the lowest version behind: here none is too low. */
static void redirect(const struct machine *m, uint8_t page[PAGE], uint64_t bit)
{
    bool was_pointer = false;
    for (uint32_t at = 0; at < PAGE; at += 8) {
        uint64_t word;
        memcpy(&word, page + at, sizeof word);
        const bool is_pointer = word - m->device_at < m->device_bytes;
        word ^= is_pointer ? bit : 0;
        memcpy(page + at, &word, sizeof word);
        if (is_pointer && was_pointer && at + 12 <= PAGE)
            memset(page + at + 8, 0, 4);
        was_pointer = is_pointer;
    }
}

static void fill(const struct machine *m, uint64_t address, uint8_t page[PAGE])
{
    for (unsigned number = FIRST_BIT; number <= LAST_BIT; number++) {
        const uint64_t bit = UINT64_C(1) << number, from = address ^ bit;
        if (from - m->mirror_at < m->mirror_bytes) {
            memcpy(page, m->mirror + (from - m->mirror_at), PAGE);
            return;
        }
        for (unsigned i = 0; i < m->range_count; i++) {
            if (from - m->ranges[i].base >= m->ranges[i].bytes)
                continue;
            memcpy(page, m->ranges[i].memory + (from - m->ranges[i].base), PAGE);
            redirect(m, page, bit);
            return;
        }
    }
    if (m->mirror_bytes)
        memcpy(page, m->mirror + address % m->mirror_bytes, PAGE);
}

/* Called for memory that there is not; true when there is now. */
static bool on_unmapped(uc_engine *uc, uc_mem_type type, uint64_t address, int size, int64_t value,
                        void *user)
{
    struct machine *m = user;
    (void)value;
    if (type == UC_MEM_FETCH_UNMAPPED || type == UC_MEM_FETCH_PROT) {
        if (is_hostile(m, address))
            m->end = END_FOREIGN;
        return false;
    }
    const uint64_t last = (address + (uint64_t)size - 1) & ~(uint64_t)(PAGE - 1);
    for (uint64_t at = address & ~(uint64_t)(PAGE - 1); at <= last; at += PAGE) {
        if (!is_hostile(m, at))
            return false;
        uint8_t *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
            fail("no memory for a page");
        fill(m, at, page);
        const uc_err error = uc_mem_map_ptr(uc, at, PAGE, UC_PROT_READ | UC_PROT_WRITE, page);
        if (error != UC_ERR_OK && error != UC_ERR_MAP) /* the first of two may be there */
            fail("mapping hostile memory: %s", uc_strerror(error));
        m->hostile_pages++;
    }
    return true;
}

void machine_add_hostile(struct machine *m)
{
    uc_hook hook;
    const int types = UC_HOOK_MEM_READ_UNMAPPED | UC_HOOK_MEM_WRITE_UNMAPPED | UC_HOOK_MEM_FETCH_UNMAPPED |
                      UC_HOOK_MEM_FETCH_PROT;
    if (uc_hook_add(m->uc, &hook, types, (void *)on_unmapped, m, 1, 0) != UC_ERR_OK)
        fail("hook");
}
