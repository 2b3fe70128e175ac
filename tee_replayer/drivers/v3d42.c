/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nano driver for the Broadcom V3D 4.2, and for the 7.1, whose profile names it. Facts: Linux 6.1 and 6.12
 * drivers/gpu/drm/v3d (v3d_gem.c: reset; v3d_mmu.c: table).
 *
 * The page table is flat: one word a page, frame number 23:0, valid bit 28, writable bit 29. The hardware's
 * table is 4 MiB for 4 GiB; MMU_ADDR_CAP (12 bits, in MiB) lets it be as short as the addresses in use.
 */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

enum {
    PAGE_SHIFT = 12,
    MIB_PAGES = 256,     /* granule of the cap */
    CAP_MAX_MIB = 0xfff, /* 4 GiB does not fit: no cap, full table */
};
#define PTE_VALID (1u << 28)
#define PTE_WRITABLE (1u << 29)
#define CAP_ENABLE (1u << 31)
#define ILLEGAL_ADDR_ENABLE (1u << 31)
#define SW_INIT_V3D 1u         /* of a bridge of revision 7, the one seen with a V3D 4.2 */
#define MMU_CTL_ON 0x060d0c01u /* enabled, faults abort and interrupt; the profile lets no trace clear it */
#define MMU_CTL_FAULTS 0x08101000u /* cap exceeded, page invalid, write violation */
#define CSD_AT_WORK 0xfu           /* CSD_STATUS: queued, current, number active */
#define CSD_CODE_FLAGS 7u          /* CSD_QUEUED_CFG5: address of the code, and three flags */

static uint32_t va_mib(uint64_t va_bytes)
{
    return (uint32_t)((va_bytes + 0xfffff) >> 20);
}

/* Entries of the table. No document says whether the cap is the first address refused or the last megabyte
 * allowed, so a capped table has one more megabyte, which stays empty. */
static uint32_t table_pages(uint64_t va_bytes)
{
    const uint32_t mib = va_mib(va_bytes);
    return (mib <= CAP_MAX_MIB ? mib + 1 : mib) * MIB_PAGES;
}

static volatile uint32_t *table(const struct gr_replayer *r)
{
    return (volatile uint32_t *)(void *)(r->memory.base + GR_DRIVER_AT(r));
}

/* The page table, and the scratch page that illegal accesses are sent to: the only one
 * that the GPU reaches. */
uint64_t gr_driver_bytes(const struct gr_replayer *r)
{
    const uint64_t table =
        ((uint64_t)table_pages(r->va_bytes) * 4 + GR_PAGE_BYTES - 1) & ~(uint64_t)(GR_PAGE_BYTES - 1);
    return table + GR_PAGE_BYTES;
}

GR_NOINLINE bool gr_driver_reset(struct gr_replayer *r)
{
    (void)r;
    gr_port_write32(GR_BRIDGE_SW_INIT_1, SW_INIT_V3D);
    gr_port_write32(GR_BRIDGE_SW_INIT_1, 0);
    return true; /* no register says so */
}

/* Where the page table lies, as the GPU takes it. */
GR_INLINE uint32_t table_frame(const struct gr_replayer *r)
{
    return (uint32_t)((r->memory.phys + GR_DRIVER_AT(r)) >> PAGE_SHIFT);
}

void gr_driver_set_table(struct gr_replayer *r, uint32_t space)
{
    (void)space; /* there is one */
    const uint32_t mib = va_mib(r->va_bytes);
    gr_port_write32(GR_HUB_MMU_PT_PA_BASE, table_frame(r));
    gr_port_write32(GR_HUB_MMU_ADDR_CAP, mib <= CAP_MAX_MIB ? CAP_ENABLE | mib : 0);
    gr_port_write32(GR_HUB_MMU_ILLEGAL_ADDR,
                    ILLEGAL_ADDR_ENABLE |
                        (uint32_t)(((r->memory.phys + GR_DRIVER_END(r)) >> PAGE_SHIFT) - 1));
    gr_port_write32(GR_HUB_MMU_CTL, MMU_CTL_ON);
}

bool gr_driver_is_idle(void)
{
    return !(gr_port_read32(GR_CORE0_CSD_STATUS) & CSD_AT_WORK); /* no trace starts other jobs */
}

#ifdef GRAMOPHONE_NETWORKS
#define L2T_FLUSH 1u /* CTL_L2TCACTL: write back and forget; the write combiner's is another bit */
#define L2T_COMBINER 0x100u
#define ALL_SLICES 0x0f0f0f0fu /* CTL_SLCACTL: forget */
#define TLB_CLEAR 4u           /* MMU_CTL */
#define TLB_CLEARING 0x80u
#define MMUC_FLUSH 3u /* MMUC_CONTROL: and enabled */
#define MMUC_FLUSHING 4u
#define FLUSH_TIMEOUT_US 10000u

/* Wait for bits of a register to be clear. */
static bool is_cleared(uint32_t offset, uint32_t bits)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        const bool is_late = gr_port_now_us() - start >= FLUSH_TIMEOUT_US;
        if (!(gr_port_read32(offset) & bits))
            return true;
        if (is_late)
            return false;
    }
}

/* Caches lie in front of the MMU, so another network would find there what this one has left under an
 * address. As v3d_clean_caches and v3d_invalidate_caches do it, for all addresses: a trace may have set
 * others. */
static bool flush_caches(void)
{
    gr_port_write32(GR_CORE0_CTL_L2TFLSTA, 0);
    gr_port_write32(GR_CORE0_CTL_L2TFLEND, UINT32_MAX);
    gr_port_write32(GR_CORE0_CTL_L2TCACTL, L2T_COMBINER);
    if (!is_cleared(GR_CORE0_CTL_L2TCACTL, L2T_COMBINER))
        return false;
    gr_port_write32(GR_CORE0_CTL_L2TCACTL, L2T_FLUSH);
    gr_port_write32(GR_CORE0_CTL_SLCACTL, ALL_SLICES);
    return is_cleared(GR_CORE0_CTL_L2TCACTL, L2T_FLUSH);
}

/* What is written back goes by the table that was there; then as v3d_mmu_flush_all does it. */
bool gr_driver_switch(struct gr_replayer *r)
{
    if (!gr_driver_is_idle() || !flush_caches())
        return false;
    gr_driver_set_table(r, 0);
    gr_port_write32(GR_HUB_MMUC_CONTROL, MMUC_FLUSH);
    if (!is_cleared(GR_HUB_MMUC_CONTROL, MMUC_FLUSHING))
        return false;
    gr_port_write32(GR_HUB_MMU_CTL, MMU_CTL_ON | TLB_CLEAR);
    return is_cleared(GR_HUB_MMU_CTL, TLB_CLEARING);
}
#endif

#ifdef GRAMOPHONE_SCHEDULE
bool gr_driver_can_switch(void)
{
    return true;
}
#endif

/* A GPU that has reset itself would run jobs without translation, so that is looked at before each; and whose
 * table the GPU has, since one skipped instruction could have left it another network's, or that of the
 * kernel that had the GPU before. The table has no bit for execution: the code of a job must lie in the
 * image, which neither the GPU nor a caller can write to. It stays there while the job runs, since mappings
 * do not change then. */
enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value)
{
    if (offset == GR_CORE0_CSD_QUEUED_CFG5)
        r->code = value & ~CSD_CODE_FLAGS;
    if (offset != GR_CORE0_CSD_QUEUED_CFG0) /* it starts the job */
        return GR_STATUS_OK;
    if ((gr_port_read32(GR_HUB_MMU_CTL) & MMU_CTL_ON) != MMU_CTL_ON)
        return GR_STATUS_DIVERGED;
    if (gr_port_read32(GR_HUB_MMU_PT_PA_BASE) != table_frame(r))
        return GR_STATUS_DIVERGED;
    const uint64_t code = gr_driver_translate(r, 0, r->code);
#ifdef GRAMOPHONE_NETWORKS
    if (code < r->image_end && !gr_reaches(r, code, code + 1))
        return GR_STATUS_RANGE;
#endif
    return code < r->image_end || code == UINT64_MAX ? GR_STATUS_OK : GR_STATUS_RANGE;
}

/* Map an action's pages to those that start with the page of `entry`, or unmap them (0). */
static enum gr_status set_pages(struct gr_replayer *r, const struct gr_action *a, uint32_t entry)
{
    const uint32_t step = entry ? 1 : 0;
    if (!gr_driver_is_idle())
        return GR_STATUS_BUSY;
    for (uint32_t i = 0; i < a->value; i++) {
        table(r)[a->a + i] = entry;
        entry += step;
    }
    return GR_STATUS_OK;
}

enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a)
{
    return set_pages(r, a,
                     ((uint32_t)(r->memory.phys >> PAGE_SHIFT) + a->b) | PTE_VALID |
                         (a->flags & GR_MAP_GPU_MEM_WRITE ? PTE_WRITABLE : 0));
}

enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a)
{
    return set_pages(r, a, 0);
}

uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va)
{
    (void)space;
    const uint32_t entry = va < r->va_bytes ? table(r)[va >> PAGE_SHIFT] : 0;
    if (!(entry & PTE_VALID))
        return UINT64_MAX;
    const uint64_t page = (entry & 0xffffff) - (r->memory.phys >> PAGE_SHIFT);
    return page << PAGE_SHIFT | (va & (GR_PAGE_BYTES - 1));
}

uint32_t gr_driver_fault(void)
{
    return gr_port_read32(GR_HUB_MMU_CTL) & MMU_CTL_FAULTS;
}

/* The register has them so. */
uint32_t gr_driver_fault_place(uint32_t fault)
{
    (void)fault;
    return gr_port_read32(GR_HUB_MMU_VIO_ADDR);
}

#ifdef GRAMOPHONE_STEPS
/* Descriptions of a job are written from here on, up to the one that starts it, so those of another
 * network's jobs never mix with them; caches have been cleaned before. */
bool gr_driver_begins_job(const struct gr_action *a)
{
    return a->op == GR_OP_REG_WRITE && a->arg * 4u == GR_CORE0_CSD_QUEUED_CFG1;
}
#endif
