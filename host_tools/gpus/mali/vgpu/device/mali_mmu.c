/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address spaces of a Mali G71: two table formats of four levels, 512 entries of 64 bits each.
 *
 * AArch64 (TRANSCFG mode 6): table or page 3, block 1; access 7:6: 1 read and write, 3 read; access flag 10.
 * Older (TRANSCFG mode 0, TRANSTAB 1:0 = 3; Linux drivers/iommu/io-pgtable-arm.c, ARM_MALI_LPAE): table 3,
 * page or block 1 at every level; access bit 6 read, bit 7 write. Both: output address 47:12, no-execute 54.
 *
 * Sources of the rest: page tables and TRANSCFG in the GPUReplay recordings; commands, status and faults:
 * Linux 6.1 drivers/gpu/drm/panfrost (panfrost_regs.h, panfrost_mmu.c).
 *
 * Tables are walked at every access, so that a change shows at once.
 */
#include <string.h>

#include "mali_device.h"

#define ADDRESS_MASK 0x0000fffffffff000u
#define ACCESS_FLAG (1u << 10)
#define NO_EXECUTE (UINT64_C(1) << 54)
#define TRANSCFG_MODE 0xfu
#define TRANSCFG_KNOWN 0x7300000fu /* mode; attributes, shareability and allocation of table walks */
#define TRANSCFG_WIDTH 0x7c0u      /* of addresses; where there are streams, all 48 bits: */
#define TRANSCFG_48_BITS 0x1c0u

enum {
    PAGE_BITS = 12,
    PAGE_BYTES = 1 << PAGE_BITS,
    LEVEL_BITS = 9,
    ENTRIES = 1 << LEVEL_BITS,
    LAST_LEVEL = 3
};
/* MMU_FEATURES (panfrost_regs.h): widths of addresses, virtual and physical. */
#define VA_BITS(features) ((features)&0xff)
#define PA_BITS(features) ((features) >> 8 & 0xff)

struct leaf {
    uint64_t pa; /* of the requested address */
    bool readable, writable, executable;
    unsigned level;
};

static unsigned level_shift(unsigned level)
{
    return PAGE_BITS + LEVEL_BITS * (LAST_LEVEL - level);
}

static const struct mali_range *known_range(const struct mali_device *dev, uint64_t pa)
{
    for (unsigned i = 0; i < MALI_RANGES; i++)
        if (pa >= dev->range[i].pa && pa - dev->range[i].pa < dev->range[i].bytes)
            return &dev->range[i];
    return NULL;
}

/* Host memory of one object that may not cross a range, or NULL. */
static uint8_t *host(struct mali_device *dev, uint64_t pa, uint64_t bytes)
{
    const struct vgpu_host *machine = &dev->base.host;
    const struct mali_range *range = known_range(dev, pa);
    if (!range) {
        struct mali_range *found = &dev->range[dev->ranges % MALI_RANGES];
        uint64_t room = 0;
        uint8_t *at = machine->memory ? machine->memory(machine->ctx, pa, &room) : NULL;
        if (!at)
            return NULL;
        dev->ranges++;
        *found = (struct mali_range){pa, room, at};
        range = found;
    }
    uint64_t offset = pa - range->pa;
    return range->bytes - offset >= bytes ? range->host + offset : NULL;
}

static bool is_leaf(enum mali_mode mode, unsigned level, uint64_t entry)
{
    if (mode == MALI_LPAE)
        return level > 0 && (entry & 3) == 1;
    return level == LAST_LEVEL ? (entry & 3) == 3 : level > 0 && (entry & 3) == 1;
}

static bool is_table(unsigned level, uint64_t entry)
{
    return level < LAST_LEVEL && (entry & 3) == 3;
}

static void decode(enum mali_mode mode, uint64_t entry, struct leaf *leaf)
{
    unsigned access = (unsigned)(entry >> 6) & 3;
    leaf->readable = mode == MALI_LPAE ? access & 1 : access == 1 || access == 3;
    leaf->writable = mode == MALI_LPAE ? access & 2 : access == 1;
    leaf->executable = !(entry & NO_EXECUTE);
}

/* 0, or the exception. */
static uint32_t translate(struct mali_device *dev, const struct mali_space *space, uint64_t va,
                          struct leaf *leaf)
{
    uint32_t features = *mali_reg(dev, GPU_MMU_FEATURES);

    *leaf = (struct leaf){.pa = va, .readable = true, .writable = true, .executable = true};
    if (space->mode == MALI_IDENTITY)
        return 0;
    if (va >> VA_BITS(features))
        return MALI_ADDRESS_IN_FAULT;
    if (space->mode == MALI_UNMAPPED)
        return MALI_TRANSLATION_FAULT;
    uint64_t table = space->table;
    for (unsigned level = 0; level <= LAST_LEVEL; level++) {
        unsigned shift = level_shift(level);
        const uint8_t *at = host(dev, table + 8 * (va >> shift & (ENTRIES - 1)), 8);
        uint64_t entry;
        if (!at)
            return MALI_TABLE_BUS_FAULT + level;
        memcpy(&entry, at, sizeof(entry));
        leaf->level = level;
        if ((entry & ADDRESS_MASK) >> PA_BITS(features) && entry & 1)
            return MALI_ADDRESS_OUT_FAULT + level;
        if (is_leaf(space->mode, level, entry)) {
            uint64_t inside = (1ull << shift) - 1;
            if (space->mode == MALI_AARCH64 && !(entry & ACCESS_FLAG))
                return MALI_ACCESS_FLAG_FAULT + level;
            leaf->pa = (entry & ADDRESS_MASK & ~inside) | (va & inside);
            decode(space->mode, entry, leaf);
            return 0;
        }
        if (!is_table(level, entry))
            return MALI_TRANSLATION_FAULT + level;
        table = entry & ADDRESS_MASK;
    }
    return MALI_TRANSLATION_FAULT + LAST_LEVEL;
}

void mali_report(struct mali_device *dev, unsigned space, const struct mali_fault *fault)
{
    uint32_t at = MALI_AS + space * MALI_AS_BYTES, exception = fault->exception;
    bool bus = exception >= MALI_TABLE_BUS_FAULT && exception < MALI_ACCESS_FLAG_FAULT;
    *mali_reg(dev, at + AS_FAULTSTATUS) = exception | (uint32_t)fault->access << 8;
    *mali_reg(dev, at + AS_FAULTADDRESS_LO) = (uint32_t)fault->va;
    *mali_reg(dev, at + AS_FAULTADDRESS_LO + 4) = (uint32_t)(fault->va >> 32);
    dev->base.counters.faults++;
    mali_raise(dev, MMU_IRQ_RAWSTAT, 1u << (bus ? 16 + space : space));
}

void mali_mmu_inject_fault(struct mali_device *dev, unsigned space, uint64_t va)
{
    mali_report(dev, space, &(struct mali_fault){va, MALI_TRANSLATION_FAULT + LAST_LEVEL, MALI_READ});
}

static bool is_granted(const struct leaf *leaf, enum mali_access access)
{
    return access == MALI_WRITE ? leaf->writable : access == MALI_READ ? leaf->readable : leaf->executable;
}

/* *flags: the access map's of these bytes, NULL where it is not kept. */
static uint8_t *find_host(struct mali_device *dev, unsigned index, uint64_t va, uint32_t bytes,
                          enum mali_access access, struct mali_fault *fault, uint8_t **flags)
{
    struct leaf leaf;
    uint32_t exception = translate(dev, &dev->space[index], va, &leaf);
    if (!exception && !is_granted(&leaf, access))
        exception = MALI_PERMISSION_FAULT + leaf.level;
    uint8_t *at = exception ? NULL : host(dev, leaf.pa, bytes);
    if (!exception && !at)
        exception = MALI_TABLE_BUS_FAULT + leaf.level;
    if (exception) {
        *fault = (struct mali_fault){va, exception, access};
        return NULL;
    }
    bool tracks = dev->base.options.track_access;
    uint8_t *page = tracks ? access_map_page(&dev->base.access, leaf.pa) : NULL;
    uint32_t touched = access == MALI_WRITE ? VGPU_PAGE_WRITTEN : VGPU_PAGE_READ;
    if (!mali_touched_note(&dev->touched, va >> PAGE_BITS, touched) || (tracks && !page))
        vgpu_fail(&dev->base, "%s: out of memory", dev->chip->name);
    *flags = page ? page + (leaf.pa & (PAGE_BYTES - 1)) : NULL;
    return at;
}

/* `host` of struct mali_memory. */
static uint8_t *host_flags(const struct mali_memory *memory, uint64_t va, uint32_t bytes,
                           enum mali_access access, struct mali_fault *fault, uint8_t **flags)
{
    struct mali_device *dev = memory->owner;

    pthread_mutex_lock(&dev->lock);
    uint8_t *at = find_host(dev, memory->space, va, bytes, access, fault, flags);
    pthread_mutex_unlock(&dev->lock);
    return at;
}

struct mali_memory mali_memory_of(struct mali_device *dev, unsigned space)
{
    return (struct mali_memory){
        .host = host_flags, .tracks = dev->base.options.track_access, .space = space, .owner = dev};
}

/* What an access is to the access map: a read that decides what the job does, one that does not, or a write.
 */
enum use { COMMAND, DATA, WRITE };

/* Host memory of `bytes` bytes in one page; a fault is reported. */
static uint8_t *access_page(struct mali_device *dev, unsigned index, uint64_t va, uint32_t bytes,
                            enum use use)
{
    const struct mali_memory memory = mali_memory_of(dev, index);
    struct mali_fault fault;
    uint8_t *flags = NULL, *at;
    if (use == DATA) {
        at = memory.host(&memory, va, bytes, MALI_READ, &fault, &flags);
        if (flags)
            access_map_mark(flags, bytes, false);
    } else {
        at = mali_command(&memory, va, bytes, use == WRITE ? MALI_WRITE : MALI_READ, &fault);
    }
    if (!at)
        mali_report(dev, index, &fault);
    return at;
}

static uint32_t in_page(uint64_t va, uint32_t bytes)
{
    uint32_t room = PAGE_BYTES - (uint32_t)(va & (PAGE_BYTES - 1));
    return bytes < room ? bytes : room;
}

static bool copy_in(struct mali_device *dev, unsigned space, uint64_t va, void *data, uint32_t bytes,
                    enum use use)
{
    for (uint8_t *to = data; bytes;) {
        uint32_t n = in_page(va, bytes);
        const uint8_t *from = access_page(dev, space, va, n, use);
        if (!from)
            return false;
        memcpy(to, from, n);
        to += n;
        va += n;
        bytes -= n;
        dev->base.counters.bytes_read += n;
    }
    return true;
}

bool mali_read(struct mali_device *dev, unsigned space, uint64_t va, void *data, uint32_t bytes)
{
    return copy_in(dev, space, va, data, bytes, COMMAND);
}

bool mali_read_data(struct mali_device *dev, unsigned space, uint64_t va, void *data, uint32_t bytes)
{
    return copy_in(dev, space, va, data, bytes, DATA);
}

bool mali_write(struct mali_device *dev, unsigned space, uint64_t va, const void *data, uint32_t bytes)
{
    for (const uint8_t *from = data; bytes;) {
        uint32_t n = in_page(va, bytes);
        uint8_t *to = access_page(dev, space, va, n, WRITE);
        if (!to)
            return false;
        memcpy(to, from, n);
        from += n;
        va += n;
        bytes -= n;
        dev->base.counters.bytes_written += n;
    }
    return true;
}

static void update(struct mali_device *dev, unsigned index)
{
    uint32_t at = MALI_AS + index * MALI_AS_BYTES;
    uint64_t table = mali_reg64(dev, at + AS_TRANSTAB_LO), config = mali_reg64(dev, at + AS_TRANSCFG_LO);
    struct mali_space *space = &dev->space[index];
    if (dev->chip->has_streams && (config & TRANSCFG_WIDTH) == TRANSCFG_48_BITS)
        config &= ~(uint64_t)TRANSCFG_WIDTH;
    if (config & ~(uint64_t)TRANSCFG_KNOWN) {
        vgpu_fail(&dev->base, "%s: update of address space %u with TRANSCFG 0x%llx: bits are not modelled",
                  dev->chip->name, index, (unsigned long long)config);
        return;
    }
    unsigned legacy = (unsigned)table & 3;
    space->table = table & ADDRESS_MASK;
    switch (config & TRANSCFG_MODE) {
    case 0: space->mode = legacy == 3 ? MALI_LPAE : legacy == 2 ? MALI_IDENTITY : MALI_UNMAPPED; break;
    case 1: space->mode = MALI_UNMAPPED; break;
    case 2: space->mode = MALI_IDENTITY; break;
    case 6: space->mode = MALI_AARCH64; break;
    default:
        vgpu_fail(&dev->base, "%s: update of address space %u with TRANSCFG 0x%llx: mode is not modelled",
                  dev->chip->name, index, (unsigned long long)config);
    }
}

void mali_space_write(struct mali_device *dev, unsigned index, uint32_t in_space, uint32_t value)
{
    if (in_space != AS_COMMAND)
        return;
    struct mali_space *space = &dev->space[index];
    if (dev->base.now_ns < space->busy_ns) {
        vgpu_fail(&dev->base, "%s: command %u for address space %u, which is at another one (AS_STATUS)",
                  dev->chip->name, value, index);
        return;
    }
    switch (value) {
    case AS_CMD_NOP:
    case AS_CMD_LOCK: /* no access can be under way between register writes: nothing to hold back */
    case AS_CMD_UNLOCK: return;
    case AS_CMD_UPDATE: update(dev, index); return;
    case AS_CMD_FLUSH_PT:
    case AS_CMD_FLUSH_MEM:
        mali_flushed(dev);
        space->busy_ns = mali_due(dev);
        return;
    default:
        vgpu_fail(&dev->base, "%s: command %u for address space %u is not modelled", dev->chip->name, value,
                  index);
    }
}

/* Above are rings, which are panthor's: PanVK takes 4 GiB (Mesa 25.0.7 panvk_vX_device.c). */
enum { USERS_BITS = 32 };

static void walk_table(struct mali_device *dev, uint64_t table, unsigned level, uint64_t base,
                       struct vgpu_run *run)
{
    enum mali_mode mode = dev->space[dev->latest_space].mode;
    for (uint64_t i = 0; i < ENTRIES; i++) {
        const uint8_t *at = host(dev, table + 8 * i, 8);
        uint64_t entry, va = base | i << level_shift(level);
        if (!at)
            return;
        memcpy(&entry, at, sizeof(entry));
        if (dev->chip->has_streams && va >> USERS_BITS)
            return;
        if (is_table(level, entry)) {
            walk_table(dev, entry & ADDRESS_MASK, level + 1, va, run);
        } else if (is_leaf(mode, level, entry)) {
            struct leaf leaf;
            decode(mode, entry, &leaf);
            uint32_t flags = (leaf.readable ? VGPU_PAGE_READABLE : 0) |
                             (leaf.writable ? VGPU_PAGE_WRITABLE : 0) |
                             (leaf.executable ? VGPU_PAGE_EXECUTABLE : 0);
            for (uint64_t offset = 0; offset < 1ull << level_shift(level); offset += PAGE_BYTES)
                vgpu_add_page(run, va + offset, (entry & ADDRESS_MASK) + offset,
                              flags | mali_touched_flags(&dev->touched, (va + offset) >> PAGE_BITS));
        }
    }
}

void mali_mmu_walk(struct vgpu *gpu, struct vgpu_run *run)
{
    struct mali_device *dev = mali_device_of(gpu);
    const struct mali_space *space = &dev->space[dev->latest_space];
    if (space->mode == MALI_LPAE || space->mode == MALI_AARCH64)
        walk_table(dev, space->table, 0, 0, run);
}
