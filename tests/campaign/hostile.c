/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the normal world that no run without a fault touches: an attacker has put there what helps him
 * most when a flipped bit makes an address lead to it. A page holds what the secure page one bit away holds,
 * but for this: of the firmware's constants, those of a firmware that he has made; in memory, pointers to the
 * device's constant lead to his.
 */
#include "machine.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { FIRST_BIT = 12, LAST_BIT = 47, WORD = 8, FILTER = 1 << 16, FEW = 8, CHUNK = 64 };

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

/* Where memory holds eight bytes in succession of a secret; NULL: nowhere. */
static uint8_t *find_secret(const struct machine *m, uint8_t *memory, uint64_t bytes)
{
    static bool begins[FILTER]; /* the first two of such eight bytes */
    static bool is_made;
    uint16_t start;
    for (unsigned i = 0; !is_made && i < m->secret_count; i++) {
        for (unsigned at = 0; at + WORD <= SECRET_BYTES; at++) {
            memcpy(&start, m->secrets[i] + at, sizeof start);
            begins[start] = true;
        }
    }
    is_made = true;
    for (uint64_t at = 0; m->secret_count && at + WORD <= bytes; at++) {
        memcpy(&start, memory + at, sizeof start);
        for (unsigned i = 0; begins[start] && i < m->secret_count; i++)
            for (unsigned part = 0; part + WORD <= SECRET_BYTES; part++)
                if (!memcmp(memory + at, m->secrets[i] + part, WORD))
                    return memory + at;
    }
    return NULL;
}

bool machine_has_leaked(const struct machine *m)
{
    bool found = find_secret(m, m->mailbox, m->mailbox_bytes) != NULL;
    for (uint64_t i = 0; i < m->hostile_page_count && !found; i++)
        found = find_secret(m, m->hostile_pages[i].memory, PAGE) != NULL;
    return found;
}

static bool is_answer(const struct machine *m, uint64_t offset)
{
    for (unsigned i = 0; i < m->answer_count; i++)
        if (offset - m->answers[i].offset < m->answers[i].bytes)
            return true;
    return offset - RESPONSE_AT < RESPONSE_BYTES;
}

uint64_t machine_strayed(const struct machine *m)
{
    uint64_t count = 0;
    const uint8_t *at_start = NULL;
    for (unsigned i = 0; i < m->range_count; i++)
        if (m->ranges[i].memory == m->mailbox)
            at_start = m->ranges[i].contents;
    for (uint64_t at = 0; at < m->mailbox_bytes; at++)
        count += m->mailbox[at] != at_start[at] && !is_answer(m, at);
    for (uint64_t i = 0; i < m->hostile_page_count; i++)
        for (unsigned at = 0; at < PAGE; at++)
            count += m->hostile_pages[i].memory[at] != m->hostile_pages[i].at_start[at];
    return count;
}

/* Pages of the attacker's, who does not know the device's secrets; false: something else is there. */
static bool add_pages(struct machine *m, uint64_t address, unsigned count)
{
    const uint64_t bytes = (uint64_t)count * PAGE;
    uint8_t *pages = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    m->hostile_pages = realloc(m->hostile_pages, (m->hostile_page_count + count) * sizeof *m->hostile_pages);
    if (pages == MAP_FAILED || !m->hostile_pages)
        fail("no memory for a page");
    const uc_err error = uc_mem_map_ptr(m->uc, address, bytes, UC_PROT_READ | UC_PROT_WRITE, pages);
    if (error == UC_ERR_MAP) {
        munmap(pages, 2 * bytes);
        return false;
    }
    if (error != UC_ERR_OK)
        fail("mapping hostile memory: %s", uc_strerror(error));
    for (unsigned i = 0; i < count; i++) {
        uint8_t *page = pages + (uint64_t)i * PAGE;
        fill(m, address + (uint64_t)i * PAGE, page);
        for (uint8_t *at; (at = find_secret(m, page, PAGE));)
            memset(at, 0, WORD);
        memcpy(page + bytes, page, PAGE);
        m->hostile_pages[m->hostile_page_count++] = (struct page){page, page + bytes};
    }
    return true;
}

/* A run that goes astray page after page gets many at a time: each mapping costs as much as there are. */
static void add_around(struct machine *m, uint64_t address)
{
    const uint64_t start = address & ~(uint64_t)(CHUNK * PAGE - 1);
    const bool fits = is_hostile(m, start) && is_hostile(m, start + CHUNK * PAGE - 1);
    if (m->hostile_page_count < FEW || !fits || !add_pages(m, start, CHUNK))
        add_pages(m, address, 1); /* of two pages, the first may be there */
}

/* Called for memory that there is not; true when there is now. */
static bool on_unmapped(uc_engine *uc, uc_mem_type type, uint64_t address, int size, int64_t value,
                        void *user)
{
    struct machine *m = user;
    (void)uc;
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
        add_around(m, at);
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
