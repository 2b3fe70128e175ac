/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: a virtual GPU, through vgpu.h. An input: number of register accesses (u8), the accesses (8
 * bytes each: place u16, how u16, value u32), then what lies in memory from its second page on: shader code,
 * control lists, descriptors, page tables. Addresses that a register takes are mostly brought into that
 * memory.
 */
#include "vgpu.h"
#include "fuzz_policy.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCESS_BYTES = 8, PAGES = 64, PAGE = 4096 };
/* What a job may execute: an input of a hundred of them must end within its seconds. */
enum { JOB_LIMIT = 1 << 10 };
#define PHYS UINT64_C(0x100000)

static uint8_t *memory;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t *find(void *ctx, uint64_t pa, uint64_t *len)
{
    (void)ctx;
    if (pa < PHYS || pa >= PHYS + PAGES * PAGE)
        return NULL;
    *len = PHYS + PAGES * PAGE - pa;
    return memory + (pa - PHYS);
}

static void interrupt(void *ctx, unsigned line, bool level)
{
    (void)ctx, (void)line, (void)level;
}

static void visit(void *ctx, uint64_t va, uint64_t pa, uint64_t bytes, uint32_t flags)
{
    (void)ctx, (void)va, (void)pa, (void)flags;
    if (!bytes) {
        fprintf(stderr, "FINDING: no run of pages is empty\n");
        abort();
    }
}

#if FUZZ_IS_MALI
/* Four levels of tables in the first pages: a page for each, the last maps all of memory. */
static void set_up(vgpu *gpu)
{
    uint64_t *table = (uint64_t *)(void *)memory;
    for (uint32_t level = 0; level < 3; level++)
        table[level * 512] = (PHYS + (level + 1) * PAGE) | 3;
    for (uint64_t page = 0; page < PAGES; page++)
        table[3 * 512 + page] = (PHYS + page * PAGE) | 0x743;
    vgpu_write32(gpu, FUZZ_TRANSTAB_LO, (uint32_t)PHYS);
    vgpu_write32(gpu, FUZZ_TRANSTAB_LO + 0x30, 0x42000006);
    vgpu_write32(gpu, FUZZ_TRANSTAB_LO + 0x18, 1);
}
#else
/* A flat table in the first page, which maps all of memory. */
static void set_up(vgpu *gpu)
{
    uint32_t *table = (uint32_t *)(void *)memory;
    for (uint32_t page = 0; page < PAGES; page++)
        table[page] = (uint32_t)(PHYS / PAGE + page) | 3u << 28;
    vgpu_write32(gpu, FUZZ_TABLE, (uint32_t)(PHYS / PAGE));
    vgpu_write32(gpu, FUZZ_ADDR_CAP, 0x80000001);
    vgpu_write32(gpu, FUZZ_ILLEGAL_ADDR, 0x80000000u | (uint32_t)(PHYS / PAGE + PAGES - 1));
    vgpu_write32(gpu, FUZZ_MMU_CTL, FUZZ_MMU_ON);
    vgpu_write32(gpu, 0x1000, 3); /* hub.MMUC_CONTROL: enable, flush */
}
#endif

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct vgpu_host host = {NULL, find, interrupt, NULL};
    const struct vgpu_options options = {
        .threads = 1, .track_access = size && data[size - 1] & 1, .job_limit = JOB_LIMIT};
    const char *error = NULL;
    if (size < 1 + ACCESS_BYTES)
        return 0;
    const size_t accesses = data[0] < (size - 1) / ACCESS_BYTES ? data[0] : (size - 1) / ACCESS_BYTES;
    const uint8_t *rest = data + 1 + accesses * ACCESS_BYTES;
    const size_t rest_bytes = (size_t)(data + size - rest);
    memory = aligned_alloc(PAGE, PAGES * PAGE);
    vgpu *gpu = vgpu_create(FUZZ_GPU, &host, &options, &error);
    if (!memory || !gpu)
        abort();
    memset(memory, 0, PAGES * PAGE);
    const size_t first = FUZZ_IS_MALI ? 4 * PAGE : PAGE;
    memcpy(memory + first, rest, rest_bytes < PAGES * PAGE - first ? rest_bytes : PAGES * PAGE - first);
    set_up(gpu);
    uint64_t now = 0;
    for (size_t i = 0; i < accesses; i++) {
        uint16_t place, how;
        uint32_t value;
        memcpy(&place, data + 1 + i * ACCESS_BYTES, sizeof place);
        memcpy(&how, data + 3 + i * ACCESS_BYTES, sizeof how);
        memcpy(&value, data + 5 + i * ACCESS_BYTES, sizeof value);
        const uint32_t offset = how & 8 ? place * 4u : fuzz_registers[place % FUZZ_REGISTERS].offset;
        if (how & 4)
            value = value % (PAGES * PAGE) & ~(how & 16 ? 7u : 63u);
        if (offset >= FUZZ_SMALL_FROM && offset <= FUZZ_SMALL_TO)
            value &= 0x3ffff; /* of workgroups a few: many only take long */
        if (how & 1)
            (void)vgpu_read32(gpu, offset);
        else
            vgpu_write32(gpu, offset, value);
        if (how & 2)
            vgpu_advance(gpu, now += 1000000);
    }
    vgpu_advance(gpu, now + 1000000000);
    (void)vgpu_walk(gpu, visit, NULL);
    (void)vgpu_error(gpu);
    vgpu_destroy(gpu);
    free(memory);
    return 0;
}
