/* SPDX-License-Identifier: BSD-2-Clause */
/* What must hold whatever the trace, the GPU and the caller do. None of it is taken from the core's own
 * tables. */
#include "core.h"

#include <stdio.h>

void found(const char *promise)
{
    fprintf(stderr, "FINDING: %s\n", promise);
    fflush(stderr);
    abort();
}

static uint64_t low_bytes(void)
{
    PROMISE(scene.replayer->low_bytes <= scene.memory.bytes, "what is in use lies in the carve-out");
    return scene.replayer->low_bytes;
}

/* Those of networks follow one another. */
#ifdef GRAMOPHONE_NETWORKS
size_t selected(void)
{
    PROMISE(scene.replayer->network < scene.part_count, "a network is at work that there is");
    return scene.replayer->network;
}

struct region tables_of(size_t part)
{
    const struct gr_own *own = scene.replayer->networks;
    uint64_t at = scene.carveout_bytes;
    for (size_t i = 0; i < part; at = own[i++].driver_end)
        PROMISE(own[i].driver_at == at && own[i].driver_end > at, "each network has tables of its own");
    PROMISE(own[part].driver_at == at && own[part].driver_end > at && own[part].driver_end <= low_bytes(),
            "a network's tables lie behind the networks' memory");
    return (struct region){at, own[part].driver_end};
}
#else
size_t selected(void)
{
    return 0;
}

struct region tables_of(size_t part)
{
    (void)part;
    return (struct region){scene.carveout_bytes, low_bytes()};
}
#endif

static struct region own_tables(void)
{
    return tables_of(selected());
}

bool reaches(size_t part, uint64_t at, uint64_t bytes)
{
    for (uint64_t page = at / PAGE; scene.has_section && page * PAGE < at + bytes; page++) {
        if (page * PAGE < scene.image_end && !(scene.reach[page] >> part & 1))
            return false;
    }
    return true;
}

/* The image, or the network's memory; a block of pages may be of both where one follows the other. */
static bool is_own(size_t part, uint64_t at, uint64_t bytes)
{
    const struct part *p = &scene.parts[part];
    const uint64_t first = p->first_page * PAGE;
    if (!reaches(part, at, bytes))
        return false;
    return at + bytes <= scene.image_end ||
           ((at >= first || first == scene.image_end) && at + bytes <= p->end_page * PAGE);
}

#if FUZZ_IS_MALI

enum { ENTRIES = 512, LEVELS = 4, MAX_TABLES = 4096 };
static uint8_t seen[MAX_TABLES / 8];

/* A table of the driver's, at an offset of the carve-out; each belongs to one place of the tree. */
static const uint64_t *table(struct region tables, uint64_t offset)
{
    const uint64_t number = offset / PAGE;
    PROMISE(offset % PAGE == 0 && offset >= tables.at && offset + PAGE <= tables.end,
            "page tables lie in the driver's memory for the network");
    PROMISE(number < MAX_TABLES && !(seen[number / 8] >> number % 8 & 1), "no page table is in two places");
    seen[number / 8] |= (uint8_t)(1u << number % 8);
    return (const uint64_t *)(const void *)(scene.base + offset);
}

bool has_own_tables(void)
{
    for (uint64_t space = 0; space < GR_ADDRESS_SPACES; space++) {
        const uint32_t at = (FUZZ_TRANSTAB_LO + (uint32_t)space * FUZZ_SPACE_BYTES) / 4;
        const uint64_t root = (uint64_t)scene.written[at + 1] << 32 | scene.written[at];
        if (root && root != scene.memory.phys + own_tables().at + space * PAGE)
            return false;
    }
    return true;
}

static void check_leaf(size_t part, uint64_t entry, uint64_t bytes)
{
    const uint64_t at = (entry & 0xfffffffff000) - scene.memory.phys;
    const uint64_t access = entry >> 6 & 3;
    const bool executable = !(entry >> 54 & 1);
    PROMISE(at % bytes == 0 && at < scene.carveout_bytes && bytes <= scene.carveout_bytes - at,
            "every mapped page lies in the trace's part of the carve-out");
    PROMISE(is_own(part, at, bytes), "every mapped page is the image's or the network's own");
    PROMISE(access == 1 || access == 3, "a page can be read, or read and written");
    PROMISE(access == 3 || at >= scene.read_only_end, "no page of the image is writable");
    PROMISE(!executable || at + bytes <= scene.image_end, "nothing outside the image is executable");
    PROMISE(!(entry & ~0x0040fffffffff7c3ull), "no bits that no one has asked for");
}

static void walk(size_t part, uint64_t offset)
{
    const struct region own = tables_of(part);
    /* Without recursion: one table of each level is open. */
    const uint64_t *tables[LEVELS] = {table(own, offset)};
    uint32_t at[LEVELS] = {0};
    for (uint32_t level = 0; level < LEVELS;) {
        if (at[level] == ENTRIES) {
            if (level-- == 0)
                return;
            continue;
        }
        const uint64_t entry = tables[level][at[level]++];
        if (!entry)
            continue;
        if (level == 3 || (entry & 3) == 1) {
            PROMISE(level == 3 ? (entry & 3) == 3 : level == 2, "a page, or a block on its level");
            check_leaf(part, entry, level == 3 ? PAGE : (uint64_t)ENTRIES * PAGE);
            continue;
        }
        PROMISE((entry & 3) == 3, "an entry that is not empty is a table, a block or a page");
        tables[++level] = table(own, (entry & 0xfffffffff000) - scene.memory.phys);
        at[level] = 0;
    }
}

void check_tables(void)
{
    memset(seen, 0, sizeof seen);
    for (size_t part = 0; part < scene.part_count; part++)
        for (uint64_t space = 0; scene.has_tables[part] && space < GR_ADDRESS_SPACES; space++)
            walk(part, tables_of(part).at + space * PAGE);
}

void check_job(void) {}

bool driver_may_write(uint32_t offset, uint32_t value)
{
    const uint64_t low = scene.memory.phys + own_tables().at;
    for (size_t i = 0; i < sizeof fuzz_driver_writes / sizeof *fuzz_driver_writes; i++)
        if (fuzz_driver_writes[i].offset == offset && fuzz_driver_writes[i].value == value)
            return true;
    for (uint64_t space = 0; space < GR_ADDRESS_SPACES; space++) {
        const uint64_t root = low + space * PAGE;
        const uint32_t as = FUZZ_TRANSTAB_LO + (uint32_t)space * FUZZ_SPACE_BYTES;
        if ((offset == as && value == (uint32_t)root) || (offset == as + 4 && value == root >> 32))
            return root + PAGE <= scene.memory.phys + own_tables().end;
    }
    return false;
}

#else

static const uint32_t *entries(size_t part, uint64_t *count)
{
    const struct region tables = tables_of(part);
    *count = (tables.end - tables.at - PAGE) / 4; /* the last page is no table */
    return (const uint32_t *)(const void *)(scene.base + tables.at);
}

bool has_own_tables(void)
{
    return scene.written[FUZZ_TABLE / 4] == (scene.memory.phys + own_tables().at) >> 12;
}

static void check_table(size_t part)
{
    uint64_t count;
    const uint32_t *entry = entries(part, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (!entry[i])
            continue;
        const uint64_t at = ((uint64_t)(entry[i] & 0xffffff) << 12) - scene.memory.phys;
        PROMISE(entry[i] >> 28 == 1 || entry[i] >> 28 == 3, "an entry that is not empty is valid");
        PROMISE(!(entry[i] & 0x0f000000), "no bits that no one has asked for");
        PROMISE(at < scene.carveout_bytes, "every mapped page lies in the trace's part of the carve-out");
        PROMISE(is_own(part, at, PAGE), "every mapped page is the image's or the network's own");
        PROMISE(!(entry[i] >> 29 & 1) || at >= scene.read_only_end,
                "no page of the image, or of a piece that stays, is writable");
        PROMISE(i * PAGE < scene.replayer->va_bytes, "nothing is mapped above the trace's addresses");
    }
}

void check_tables(void)
{
    for (size_t part = 0; part < scene.part_count; part++)
        if (scene.has_tables[part])
            check_table(part);
}

/* The table says nothing of execution: a job's code must lie in the image, or nowhere. */
void check_job(void)
{
    uint64_t count;
    const uint32_t *entry = entries(selected(), &count);
    const uint64_t page = (scene.written[FUZZ_CODE_ADDRESS / 4] & ~7u) / PAGE;
    PROMISE(scene.fresh[FUZZ_MMU_CTL / 4] && (scene.last_read[FUZZ_MMU_CTL / 4] & FUZZ_MMU_ON) == FUZZ_MMU_ON,
            "no job starts before translation has been seen to be on");
    if (page < count && entry[page])
        PROMISE(((uint64_t)(entry[page] & 0xffffff) << 12) - scene.memory.phys < scene.image_end,
                "a job's code is the image's");
}

bool driver_may_write(uint32_t offset, uint32_t value)
{
    const uint64_t table = scene.memory.phys + own_tables().at, end = scene.memory.phys + own_tables().end;
    for (size_t i = 0; i < sizeof fuzz_driver_writes / sizeof *fuzz_driver_writes; i++)
        if (fuzz_driver_writes[i].offset == offset && fuzz_driver_writes[i].value == value)
            return true;
    if (offset == FUZZ_TABLE)
        return value == table >> 12;
    if (offset == FUZZ_ADDR_CAP) /* as many MiB: a page of entries each, one more in case */
        return value ? value >> 31 && table + ((uint64_t)(value & 0xfff) + 1) * 1024 + PAGE <= end
                     : table + (4u << 20) + PAGE <= end;
    if (offset == FUZZ_ILLEGAL_ADDR)
        return value >> 31 && ((uint64_t)(value & 0xffffff) << 12) + PAGE == end && end - PAGE >= table;
    return false;
}

#endif

void check_report(uint32_t status)
{
    static const struct {
        const char *name;
        uint32_t value;
    } statuses[] = {
#define ROW(name, value, text) {#name, value},
        GR_STATUS_LIST(ROW)
#undef ROW
    };
    const struct gr_report *r = &scene.replayer->report;
    bool known = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        known |= statuses[i].value == status;
    PROMISE(known, "a status is one of the list");
    PROMISE((uint32_t)r->status == status, "the report has the status that was returned");
    PROMISE(r->phase == GR_PHASE_LOAD || r->phase == GR_PHASE_PROLOGUE || r->phase == GR_PHASE_REPLAY,
            "the report has a phase");
    PROMISE(!r->reserved, "reserved words are zero");
    PROMISE(r->secure_bytes <= scene.memory.bytes, "no more is in use than there is");
    PROMISE(r->retries <= scene.numbers[RETRIES] || r->retries <= 8, "no more retries than allowed");
    if (scene.loading)
        PROMISE(!r->actions && !r->jobs && !r->retries && r->phase == GR_PHASE_LOAD,
                "nothing ran while loading");
    else
        PROMISE(
            r->jobs <= scene.job_count &&
                /* Another network's fault makes one begin again, too, and others' turns set registers again.
                 */
                (scene.has_section || HAS_STEPS || r->actions <= (r->retries + 1ull) * scene.action_count),
            "no more actions and jobs than there are");
}

/* Zeros, the filling that nobody has touched, zeros; and no replayer is left. */
void check_wiped(bool was_accepted)
{
    const uint64_t *base = (const uint64_t *)(const void *)scene.base;
    const uint64_t words = scene.memory.bytes / 8;
    uint64_t first = 0, last = words, differences = 0;
    while (first < words && !base[first])
        first++;
    while (last > first && !base[last - 1])
        last--;
    for (uint64_t i = first; i < last; i++)
        differences |= base[i] ^ FILLING * UINT64_C(0x0101010101010101);
    PROMISE(!differences, "after unloading there is nothing but zeros where something was");
    if (was_accepted)
        PROMISE((first + words - last) * 8 >= scene.replayer->report.secure_bytes,
                "all that was in use is wiped");
    const uint8_t *state = (const uint8_t *)scene.replayer;
    for (size_t i = offsetof(struct gr_replayer, memory); i < sizeof *scene.replayer; i++)
        PROMISE(!state[i], "nothing is left of the replayer");
}
