/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port for OP-TEE's core.
 *
 * The carve-out is mapped as device memory: the core has no type for memory without caches, and the replayer
 * no cache maintenance. Nothing accesses it unaligned: OP-TEE compiles with -mstrict-align.
 *
 * Interrupts belong to the secure world, stay disabled, and are polled at the distributor. Each wait must end
 * in time, and the secure world has no timer that could wake it: a handler could only set what a loop looks
 * at anyway. The normal world's interrupts are open meanwhile, so it goes on.
 */
#include "optee_port.h"

#include <arm.h>
#include <io.h>
#ifdef GRAMOPHONE_SECRET
#include <kernel/huk_subkey.h>

#include "gramophone_pta.h"
#endif
#include <kernel/interrupt.h>
#include <mm/core_memprot.h>
#include <mm/core_mmu.h>

enum { GICD_IGROUPR = 0x080, GICD_ISPENDR = 0x200, GICD_IGRPMODR = 0xd00 };

/* GR_FIREWALL_BASE: a word that says which world the GPU and its memory accesses belong to, 1 the
 * secure world, 0 the normal world; a board with another firewall puts it here. 0: the GPU is
 * always the secure world's. */
enum { FIREWALL_BYTES = 0x1000 };

/* The generator has checked a board's description; these hold whoever set the numbers of sub.mk. */
enum { MAPPED_BYTES = 2 << 20 }; /* the core's large mappings */
_Static_assert(GR_CARVEOUT_BYTES > 0 && GR_CARVEOUT_BYTES % MAPPED_BYTES == 0 &&
                   GR_CARVEOUT_BASE % MAPPED_BYTES == 0,
               "GRAMOPHONE_CARVEOUT_: multiples of 2 MiB");
_Static_assert(GR_STAGING_BYTES > 0 && GR_STAGING_BYTES % 4096 == 0 && GR_STAGING_BYTES < GR_CARVEOUT_BYTES,
               "GRAMOPHONE_STAGING_BYTES: a part of the carve-out, in pages");
_Static_assert((uint64_t)GR_GPU_BASE + GR_GPU_BYTES <= GR_CARVEOUT_BASE ||
                   (uint64_t)GR_CARVEOUT_BASE + GR_CARVEOUT_BYTES <= GR_GPU_BASE,
               "GRAMOPHONE_CARVEOUT_ and GRAMOPHONE_GPU_ overlap");

/* sub.mk says what GR_GPU_INTID is of lines that do not follow one another. */
static inline uint32_t intid_of(uint32_t line)
{
    const uint64_t ids = GR_GPU_INTID;
    return ids >> 63 ? ids >> 16 * line & 0xffff : (uint32_t)ids + line;
}

register_phys_mem(MEM_AREA_IO_SEC, GR_GPU_BASE, GR_GPU_BYTES);
register_phys_mem_pgdir(MEM_AREA_IO_SEC, GR_CARVEOUT_BASE, GR_CARVEOUT_BYTES);
#if GR_FIREWALL_BASE
register_phys_mem(MEM_AREA_IO_SEC, GR_FIREWALL_BASE, FIREWALL_BYTES);
#endif

static vaddr_t gpu, distributor, firewall;

bool gr_optee_find(struct gr_memory *carveout)
{
    gpu = (vaddr_t)phys_to_virt(GR_GPU_BASE, MEM_AREA_IO_SEC, GR_GPU_BYTES);
    distributor = (vaddr_t)phys_to_virt(GR_GICD_BASE, MEM_AREA_IO_SEC, 0x1000);
    carveout->base = phys_to_virt(GR_CARVEOUT_BASE, MEM_AREA_IO_SEC, GR_CARVEOUT_BYTES);
    carveout->phys = GR_CARVEOUT_BASE;
    carveout->bytes = GR_CARVEOUT_BYTES;
    if (GR_FIREWALL_BASE)
        firewall = (vaddr_t)phys_to_virt(GR_FIREWALL_BASE, MEM_AREA_IO_SEC, FIREWALL_BYTES);
    return gpu && distributor && carveout->base && (!GR_FIREWALL_BASE || firewall);
}

static void set_firewall(uint32_t owner)
{
    if (GR_FIREWALL_BASE)
        io_write32(firewall, owner);
    dsb();
}

void gr_optee_take(void)
{
    struct itr_chip *chip = interrupt_get_main_chip();
    set_firewall(1);
    for (size_t line = 0; line < GR_GPU_LINES; line++)
        interrupt_configure(chip, intid_of(line), IRQ_TYPE_LEVEL_HIGH, 0);
}

/* OP-TEE's driver has no way to give an interrupt to the normal world. It stays disabled
 * until that enables it. */
void gr_optee_give_back(void)
{
    for (size_t line = 0; line < GR_GPU_LINES; line++) {
        const uint32_t id = intid_of(line);
        const vaddr_t word = distributor + id / 32 * 4;
        io_clrbits32(word + GICD_IGRPMODR, BIT32(id % 32));
        io_setbits32(word + GICD_IGROUPR, BIT32(id % 32));
    }
    set_firewall(0);
}

/* A barrier follows: device memory keeps the order of accesses within one device only (Arm DDI 0487,
 * B2.7.2), and the carve-out, with what the GPU wrote, is another one. */
uint32_t gr_port_read32(uint32_t offset)
{
    const uint32_t value = io_read32(gpu + offset);
    dsb();
    return value;
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    dsb();
    io_write32(gpu + offset, value);
}

uint64_t gr_port_now_us(void)
{
    const uint64_t ticks = barrier_read_counter_timer(), frequency = read_cntfrq();
    return ticks / frequency * 1000000 + ticks % frequency * 1000000 / frequency;
}

bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    const uint32_t id = intid_of(line);
    const uint64_t start = gr_port_now_us();
    for (;;) {
        const bool timed_out = gr_port_now_us() - start >= timeout_us;
        if (io_read32(distributor + GICD_ISPENDR + id / 32 * 4) >> id % 32 & 1)
            return true;
        if (timed_out)
            return false;
    }
}

#ifdef GRAMOPHONE_SECRET
bool gr_optee_secret(uint8_t secret[32])
{
    /* Of huk_subkey.h's numbers none, nor one that OP-TEE will ever get to. */
    static const enum huk_subkey_usage usage = (enum huk_subkey_usage)GRAMOPHONE_HUK_USAGE;
    static const char purpose[] = GRAMOPHONE_HUK_PURPOSE;
    return huk_subkey_derive(usage, purpose, sizeof purpose - 1, secret, 32) == TEE_SUCCESS;
}
#endif

#ifdef GRAMOPHONE_ENCRYPTION
bool gr_port_secret(uint8_t secret[32])
{
    return gr_optee_secret(secret);
}
#endif
