/* Port for QEMU's machine "virt" (and Unicorn with the same map) at EL3. Interrupts are polled at the
 * distributor: a replay has nothing else to do, and needs no handler that could be entered at a bad time. */
#include "board.h"
#include "replayer.h"

__attribute__((used, section(".gramophone.board"))) static const struct gr_board gr_board = {
    GR_GPU_BASE,      GR_CARVEOUT_BASE, GR_CARVEOUT_BYTES, GR_MAILBOX_BASE,
    GR_MAILBOX_BYTES, GR_GIC_BASE,      GR_UART_BASE,      GR_GPU_SPI,
};

enum {
    GIC_SPI_BASE = 32,
    GICD_ISPENDR = 0x200,
    UART_DR = 0,
    SEMIHOSTING_EXIT = 0x18,
    SEMIHOSTING_EXIT_APPLICATION = 0x20026,
};

static volatile uint32_t *word(uint64_t address)
{
    return (volatile uint32_t *)(uintptr_t)address;
}

uint32_t gr_port_read32(uint32_t offset)
{
    return *word(GR_GPU_BASE + (uint64_t)offset);
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    __asm__ volatile("dsb sy" ::: "memory");
    *word(GR_GPU_BASE + (uint64_t)offset) = value;
}

uint64_t gr_port_now_us(void)
{
    uint64_t ticks, frequency;
    __asm__ volatile("isb\n\tmrs %0, cntpct_el0\n\tmrs %1, cntfrq_el0"
                     : "=r"(ticks), "=r"(frequency)::"memory");
    return ticks / frequency * 1000000 + ticks % frequency * 1000000 / frequency;
}

__attribute__((noinline)) bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    const uint32_t id = GIC_SPI_BASE + GR_GPU_SPI + line;
    const uint64_t start = gr_port_now_us();
    for (;;) {
        const bool late = gr_port_now_us() - start >= timeout_us;
        if (*word(GR_GIC_BASE + GICD_ISPENDR + id / 32 * 4) >> id % 32 & 1)
            return true;
        if (late)
            return false;
    }
}

_Noreturn void gr_exit(char what, uint32_t number, uint32_t exit_status)
{
    *word(GR_UART_BASE + UART_DR) = (uint8_t)what;
    for (int shift = 28; shift >= 0; shift -= 4)
        *word(GR_UART_BASE + UART_DR) = (uint8_t) "0123456789abcdef"[number >> shift & 15];
    *word(GR_UART_BASE + UART_DR) = '\n';
#ifdef GR_SEMIHOSTING
    const uint64_t block[] = {SEMIHOSTING_EXIT_APPLICATION, exit_status};
    register uint64_t operation __asm__("x0") = SEMIHOSTING_EXIT;
    register const uint64_t *parameter __asm__("x1") = block;
    __asm__ volatile("hlt #0xf000" ::"r"(operation), "r"(parameter) : "memory");
#else
    (void)exit_status;
#endif
    for (;;)
        __asm__ volatile("wfi");
}
