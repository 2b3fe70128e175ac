/*
 * The port for OP-TEE's core.
 *
 * The carve-out is mapped as device memory: the core has no type for memory without caches, and the replayer
 * no cache maintenance. Nothing accesses it unaligned: OP-TEE compiles with -mstrict-align.
 *
 * Interrupts are polled at the distributor, as in our bare-metal ports: they belong to the secure world, and
 * stay disabled, so that no CPU takes them.
 */
#include "optee_port.h"

#include <arm.h>
#include <io.h>
#include <kernel/interrupt.h>
#include <mm/core_memprot.h>
#include <mm/core_mmu.h>

#define GICD_ISPENDR 0x200

register_phys_mem(MEM_AREA_IO_SEC, GR_GPU_BASE, GR_GPU_BYTES);
register_phys_mem_pgdir(MEM_AREA_IO_SEC, GR_CARVEOUT_BASE, GR_CARVEOUT_BYTES);

static vaddr_t gpu, distributor;

bool gr_optee_start(struct gr_memory *carveout)
{
    struct itr_chip *chip = interrupt_get_main_chip();
    gpu = (vaddr_t)phys_to_virt(GR_GPU_BASE, MEM_AREA_IO_SEC, GR_GPU_BYTES);
    distributor = (vaddr_t)phys_to_virt(GR_GICD_BASE, MEM_AREA_IO_SEC, 0x1000);
    carveout->base = phys_to_virt(GR_CARVEOUT_BASE, MEM_AREA_IO_SEC, GR_CARVEOUT_BYTES);
    carveout->phys = GR_CARVEOUT_BASE;
    carveout->bytes = GR_CARVEOUT_BYTES;
    for (size_t line = 0; line < GR_GPU_LINES; line++)
        interrupt_configure(chip, GR_GPU_INTID + line, IRQ_TYPE_LEVEL_HIGH, 0);
    return gpu && distributor && carveout->base;
}

uint32_t gr_port_read32(uint32_t offset)
{
    return io_read32(gpu + offset);
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
    const uint32_t id = GR_GPU_INTID + line;
    const uint64_t start = gr_port_now_us();
    for (;;) {
        const bool late = gr_port_now_us() - start >= timeout_us;
        if (io_read32(distributor + GICD_ISPENDR + id / 32 * 4) >> id % 32 & 1)
            return true;
        if (late)
            return false;
    }
}
