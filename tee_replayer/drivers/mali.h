/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What nano drivers of Malis share: resets, address spaces and page tables.
 *
 * Page tables have four levels of 512 entries of 64 bits. Levels 0 to 2 hold tables, level 2 also blocks of 2
 * MiB, level 3 pages. The first tables after the trace's memory are the roots of the address spaces; the
 * others are taken as they are needed, up to tables_end, and given back when a prologue begins. Entries
 * as in the page tables of the GPUReplay recordings.
 */
#ifndef GRAMOPHONE_MALI_H
#define GRAMOPHONE_MALI_H

#include "driver.h"
#include "gr_target.h"
#include "internal.h"

enum {
    LEVEL_BITS = 9,
    ENTRIES = 1 << LEVEL_BITS,
    BLOCK_BYTES = ENTRIES * GR_PAGE_BYTES,
    ROOT_SHIFT = 3 * LEVEL_BITS,            /* of a page number */
    VA_PAGE_BITS = ROOT_SHIFT + LEVEL_BITS, /* what the tables can tell apart; a GPU may use less of it */
    SPACE_BYTES = GR_AS1_COMMAND - GR_AS0_COMMAND,
    RESET_COMPLETED = 0x100, /* gpu.IRQ_RAWSTAT */
    RESET_TIMEOUT_US = 10000,
    TRANSLATION_OFF = 1, /* TRANSCFG: unmapped, every access faults */
    UPDATE = 1,          /* as.COMMAND */
};
#define TYPE UINT64_C(3)
#define TABLE UINT64_C(3) /* or page, on the last level */
#define BLOCK UINT64_C(1)
#define PAGE_TO_BLOCK (TABLE ^ BLOCK)
#define READ_WRITE (UINT64_C(1) << 6)
#define READ_ONLY (UINT64_C(3) << 6)
#define INNER_SHAREABLE (UINT64_C(3) << 8)
#define ACCESS_FLAG (UINT64_C(1) << 10)
#define NO_EXECUTE (UINT64_C(1) << 54)
#define ADDRESS ((UINT64_C(1) << 48) - GR_PAGE_BYTES)

/* The driver's: where the tables' part of its memory ends. */
static uint64_t tables_end(const struct gr_replayer *r);

static void write64(uint32_t offset, uint64_t value)
{
    gr_port_write32(offset, (uint32_t)value);
    gr_port_write32(offset + 4, (uint32_t)(value >> 32));
}

/* Reset the GPU by the first of two commands after which it comes back; then no address space translates. */
static bool reset_gpu(uint32_t soft, uint32_t hard)
{
    bool is_done = false;
    gr_port_write32(GR_GPU_IRQ_MASK, 0);
    gr_port_write32(GR_JOB_IRQ_MASK, 0);
    gr_port_write32(GR_MMU_IRQ_MASK, 0);
    for (uint32_t command = soft; command <= hard && !is_done; command += hard - soft) {
        gr_port_write32(GR_GPU_IRQ_CLEAR, RESET_COMPLETED);
        gr_port_write32(GR_GPU_COMMAND, command);
        const uint64_t start = gr_port_now_us();
        bool is_late = false;
        while (!is_done && !is_late) {
            is_late = gr_port_now_us() - start >= RESET_TIMEOUT_US;
            is_done = gr_port_read32(GR_GPU_IRQ_RAWSTAT) & RESET_COMPLETED;
        }
    }
    gr_port_write32(GR_GPU_IRQ_CLEAR, RESET_COMPLETED);
    gr_port_write32(GR_JOB_IRQ_CLEAR, UINT32_MAX);
    gr_port_write32(GR_MMU_IRQ_CLEAR, UINT32_MAX);
    for (uint32_t at = 0; at < GR_ADDRESS_SPACES * SPACE_BYTES; at += SPACE_BYTES) {
        gr_port_write32(GR_AS0_TRANSCFG_LO + at, TRANSLATION_OFF);
        gr_port_write32(GR_AS0_COMMAND + at, UPDATE);
    }
    return is_done;
}

static void point_space(uint32_t space, uint64_t table)
{
    const uint32_t at = space * SPACE_BYTES;
    write64(GR_AS0_TRANSCFG_LO + at, GR_MMU_CONFIG);
    write64(GR_AS0_TRANSTAB_LO + at, table);
    write64(GR_AS0_MEMATTR_LO + at, GR_MMU_ATTRIBUTES);
}

/* Whether an address space has this table; it may translate nothing instead. After a reset it has none. */
static bool has_table(uint32_t space, uint64_t table)
{
    const uint32_t at = space * SPACE_BYTES, config = gr_port_read32(GR_AS0_TRANSCFG_LO + at);
    const uint64_t found =
        (uint64_t)gr_port_read32(GR_AS0_TRANSTAB_HI + at) << 32 | gr_port_read32(GR_AS0_TRANSTAB_LO + at);
    return found == table || config == TRANSLATION_OFF || !(found || config);
}

/* Of the first address space that has a fault; only the MMU's bits come to where its bits are looked for. */
static uint32_t fault_place(uint32_t fault, uint32_t bits)
{
    for (uint32_t space = 0; space < GR_ADDRESS_SPACES; space++) {
        if (fault >> space & bits) {
            const uint32_t at = space * SPACE_BYTES, low = gr_port_read32(GR_AS0_FAULTADDRESS_LO + at);
            return (uint32_t)(((uint64_t)gr_port_read32(GR_AS0_FAULTADDRESS_HI + at) << 32 | low) >>
                              (GR_VA_BITS - 32));
        }
    }
    return 0;
}

/* A table by its number; the first are the roots. */
static uint64_t *table_at(const struct gr_replayer *r, uint64_t number)
{
    return (uint64_t *)(void *)(r->memory.base + GR_DRIVER_AT(r) + number * GR_PAGE_BYTES);
}

/* Where the GPU finds it. */
static uint64_t table_phys(const struct gr_replayer *r, uint64_t number)
{
    return r->memory.phys + GR_DRIVER_AT(r) + number * GR_PAGE_BYTES;
}

/* The table that an entry leads to; NULL if it is none of ours, which only a fault can have made so. */
static uint64_t *table_of(const struct gr_replayer *r, uint64_t entry)
{
    const uint64_t number = ((entry & ADDRESS) - table_phys(r, 0)) / GR_PAGE_BYTES;
    return number < GR_PROGRESS(r)->tables ? table_at(r, number) : NULL;
}

static uint32_t index_of(uint64_t va, uint32_t shift)
{
    return (uint32_t)(va >> shift) & (ENTRIES - 1);
}

/* A table for each range of a table's size that is mapped or unmapped, except the range that the previous
 * action ended in. A range where a block serves counts too: a change in the block takes its table. No
 * overflow: there are at most 2^28 actions, which touch at most 2^23 ranges each. */
static uint64_t table_bytes(const struct gr_replayer *r)
{
    uint64_t tables = GR_ADDRESS_SPACES, before = UINT64_MAX;
    for (uint32_t i = GR_FIRST_ACTION(r); i < GR_END_ACTION(r); i++) {
        const struct gr_action a = gr_action_at(r, i);
        if (a.op != GR_OP_MAP_GPU_MEM && a.op != GR_OP_UNMAP_GPU_MEM)
            continue;
        const uint64_t first = (uint64_t)gr_action_address_space(&a) << VA_PAGE_BITS | gr_action_va_page(&a);
        const uint64_t last = first + a.value - 1;
        for (uint32_t shift = ROOT_SHIFT; shift; shift -= LEVEL_BITS)
            tables += (last >> shift) - (first >> shift) + (first >> shift != before >> shift);
        before = last;
    }
    return tables * GR_PAGE_BYTES;
}

/* The table that an entry leads to. Where there is none, one is made: of the pages of the block that is
 * there, or an empty one. NULL: there is no room for it. */
static uint64_t *table_below(struct gr_replayer *r, uint64_t *entry)
{
    const uint64_t above = *entry;
    if ((above & TYPE) == TABLE)
        return table_of(r, above);
    if (GR_PROGRESS(r)->tables >= (tables_end(r) - GR_DRIVER_AT(r)) / GR_PAGE_BYTES)
        return NULL;
    uint64_t *table = table_at(r, GR_PROGRESS(r)->tables);
    for (uint32_t i = 0; i < ENTRIES && above; i++)
        table[i] = (above ^ PAGE_TO_BLOCK) + (uint64_t)i * GR_PAGE_BYTES;
    *entry = table_phys(r, GR_PROGRESS(r)->tables) | TABLE;
    GR_PROGRESS(r)->tables++;
    return table;
}

/* The entry of level 2 for a page; tables that lead there are made. NULL: there is no room for one. */
static uint64_t *entry_for(struct gr_replayer *r, uint32_t space, uint64_t page)
{
    uint64_t *entry = table_at(r, space) + index_of(page, ROOT_SHIFT);
    for (uint32_t shift = ROOT_SHIFT - LEVEL_BITS; shift; shift -= LEVEL_BITS) {
        uint64_t *table = table_below(r, entry);
        if (!table)
            return NULL;
        entry = table + index_of(page, shift);
    }
    return entry;
}

/* Map an action's pages to those that start with the page of `leaf`, an entry, or unmap them (0). */
static enum gr_status set_pages(struct gr_replayer *r, const struct gr_action *a, uint64_t leaf)
{
    const uint64_t step = leaf ? GR_PAGE_BYTES : 0;
    uint64_t page = gr_action_va_page(a), n;
    for (uint64_t left = a->value; left; left -= n) {
        const uint32_t first = index_of(page, 0);
        n = left < ENTRIES - first ? left : ENTRIES - first;
        uint64_t *entry = entry_for(r, gr_action_address_space(a), page);
        if (!entry)
            return GR_STATUS_MEMORY;
        if (n == ENTRIES && (*entry & TYPE) != TABLE && !(leaf & ADDRESS & (BLOCK_BYTES - 1))) {
            *entry = leaf & ~PAGE_TO_BLOCK;
        } else {
            uint64_t *pages = table_below(r, entry);
            if (!pages)
                return GR_STATUS_MEMORY;
            for (uint32_t i = 0; i < n; i++)
                pages[first + i] = leaf + i * step;
        }
        page += n;
        leaf += n * step;
    }
    return GR_STATUS_OK;
}

/* Map an action's pages to its pages of the carve-out. */
static enum gr_status map_pages(struct gr_replayer *r, const struct gr_action *a)
{
    return set_pages(r, a,
                     (r->memory.phys + (uint64_t)a->b * GR_PAGE_BYTES) | TABLE | INNER_SHAREABLE |
                         ACCESS_FLAG | (a->flags & GR_MAP_GPU_MEM_WRITE ? READ_WRITE : READ_ONLY) |
                         (a->flags & GR_MAP_GPU_MEM_EXECUTE ? 0 : NO_EXECUTE));
}

uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va)
{
    uint64_t entry = va < r->va_bytes ? table_phys(r, space) | TABLE : 0;
    uint32_t shift = 12 + VA_PAGE_BITS;
    while (shift > 12 && (entry & TYPE) == TABLE) {
        const uint64_t *table = table_of(r, entry);
        shift -= LEVEL_BITS;
        entry = table ? table[index_of(va, shift)] : 0;
    }
    return entry ? (entry & ADDRESS) - r->memory.phys + (va & ((UINT64_C(1) << shift) - 1)) : UINT64_MAX;
}

#endif
