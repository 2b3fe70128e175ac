/* SPDX-License-Identifier: BSD-2-Clause */
/* The part of the port that is the same on all boards: clock, interrupts of a GICv2, and a UART: a
 * PL011, or an 8250 whose registers are words. Interrupts are polled at the distributor: a replay has nothing
 * else to do, and needs no handler that could be entered at a bad time. GICD_ISPENDR shows a line's level
 * whether or not the interrupt is enabled (Arm IHI 0048B, 4.3.7). */
#include "port.h"

__attribute__((used, section(".gramophone.board"))) static const struct gr_board gr_board = {
    .gpu_base = GR_GPU_BASE,
    .carveout_base = GR_CARVEOUT_BASE,
    .carveout_bytes = GR_CARVEOUT_BYTES,
    .mailbox_base = GR_MAILBOX_BASE,
    .mailbox_bytes = GR_MAILBOX_BYTES,
    .gic_base = GR_GIC_BASE,
    .uart_base = GR_UART_BASE,
    .gpu_spi = GR_GPU_SPI,
    .power_base = GR_POWER_BASE,
};

#ifdef GRAMOPHONE_ENCRYPTION
#ifdef GRAMOPHONE_SECRET
bool gr_port_secret(uint8_t secret[32])
{
    return gr_board_secret(secret);
}
#endif
#endif

/* The generator has checked a board's description; these hold whoever wrote the header. */
#define GR_SIZED(a, unit)                                                                                    \
    _Static_assert(GR_##a##_BYTES > 0 && GR_##a##_BYTES < UINT64_C(1) << 48 && GR_##a##_BYTES % (unit) == 0, \
                   "size of " #a);                                                                           \
    _Static_assert(GR_##a##_BASE < UINT64_C(1) << 48 && GR_##a##_BASE % (unit) == 0, "address of " #a)
#define GR_APART(a, b)                                                                                       \
    _Static_assert((uint64_t)GR_##a##_BASE + GR_##a##_BYTES <= GR_##b##_BASE ||                              \
                       (uint64_t)GR_##b##_BASE + GR_##b##_BYTES <= GR_##a##_BASE,                            \
                   #a " and " #b " overlap")
#define GR_APART_FROM_DEVICES(a)                                                                             \
    GR_APART(a, GPU);                                                                                        \
    GR_APART(a, GIC);                                                                                        \
    GR_APART(a, UART)
GR_SIZED(ROM, 0x800);
GR_SIZED(RAM, 16);
GR_SIZED(CARVEOUT, 0x1000);
GR_SIZED(MAILBOX, 0x1000);
GR_SIZED(GPU, 4);
GR_SIZED(GIC, 4);
GR_SIZED(UART, 4);
GR_APART(ROM, RAM);
GR_APART(ROM, CARVEOUT);
GR_APART(ROM, MAILBOX);
GR_APART(RAM, CARVEOUT);
GR_APART(RAM, MAILBOX);
GR_APART(CARVEOUT, MAILBOX);
GR_APART_FROM_DEVICES(ROM);
GR_APART_FROM_DEVICES(RAM);
GR_APART_FROM_DEVICES(CARVEOUT);
GR_APART_FROM_DEVICES(MAILBOX);
GR_APART(GPU, GIC);
GR_APART(GPU, UART);
GR_APART(GIC, UART);

#ifndef GR_UART_8250
#define GR_UART_8250 0
#endif

enum {
    GIC_SPI_BASE = 32,
    GIC_LAST_SPI = 987,
    GICD_ISPENDR = 0x200,
    UART_DATA = 0, /* of both */
    /* PL011: FR, and TXFF in it; 8250: LSR, and THRE in it, which says the opposite */
    UART_STATUS = GR_UART_8250 ? 5 << 2 : 0x18,
    UART_STATUS_BIT = 1 << 5,
    UART_STATUS_READY = GR_UART_8250 ? UART_STATUS_BIT : 0,
};

/* The interrupts of lines that do not follow one another: each in 16 bits, the first line's in the lowest,
 * and the highest bit. */
#define GPU_SPI_IS_LIST ((uint64_t)GR_GPU_SPI >> 63)
_Static_assert(GPU_SPI_IS_LIST || GR_GPU_SPI <= GIC_LAST_SPI, "interrupt of GPU");

uint64_t gr_port_now_us(void)
{
    uint64_t ticks, frequency;
    __asm__ volatile("isb\n\tmrs %0, cntpct_el0\n\tmrs %1, cntfrq_el0"
                     : "=r"(ticks), "=r"(frequency)::"memory");
    return ticks / frequency * 1000000 + ticks % frequency * 1000000 / frequency;
}

bool gr_port_wait_word(uint64_t address, uint32_t mask, uint32_t value, uint32_t timeout_us)
{
    const uint64_t start = gr_port_now_us();
    for (;;) {
        /* The clock first: after a late return the register is read once more. */
        const bool timed_out = gr_port_now_us() - start >= timeout_us;
        const uint32_t found = *gr_word(address);
        GR_AFTER_READ;
        if ((found & mask) == value)
            return true;
        if (timed_out)
            return false;
    }
}

__attribute__((noinline)) bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    const uint64_t spis = GR_GPU_SPI;
    const uint32_t spi = GPU_SPI_IS_LIST ? spis >> 16 * line & 0xffff : (uint32_t)spis + line;
    const uint32_t id = GIC_SPI_BASE + spi, bit = UINT32_C(1) << id % 32;
    return gr_port_wait_word(GR_GIC_BASE + GICD_ISPENDR + id / 32 * 4, bit, bit, timeout_us);
}

void gr_port_put(char character)
{
    if (GR_UART_TIMEOUT_US)
        gr_port_wait_word(GR_UART_BASE + UART_STATUS, UART_STATUS_BIT, UART_STATUS_READY, GR_UART_TIMEOUT_US);
    *gr_word(GR_UART_BASE + UART_DATA) = (uint8_t)character;
}

_Noreturn void gr_exit(char what, uint32_t number, uint32_t exit_status)
{
#ifdef GR_MMU
    gr_mmu_off();
#endif
    gr_port_put(what);
    for (int shift = 28; shift >= 0; shift -= 4)
        gr_port_put("0123456789abcdef"[number >> shift & 15]);
    gr_port_put('\n');
    gr_board_end(exit_status);
    for (;;)
        __asm__ volatile("wfi");
}
