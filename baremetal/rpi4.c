/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port for the Raspberry Pi 4 at EL3. It has run only in emulation, not on silicon.
 *
 * Power and reset of the V3D are outside of it: a reset bit in PM_GRAFX, a clock, and two asynchronous
 * bridges to the bus. Facts and order: Linux 6.1 drivers/soc/bcm/bcm2835-power.c (the domain GRAFX_V3D; that
 * of GRAFX itself is not switched on a BCM2711), drivers/clk/bcm/clk-bcm2835.c. The VideoCore's firmware must
 * have set the clock's source and divider.
 *
 * The profile's bridge, of other chips with this GPU, is not there. Its one register that the nano
 * driver writes is translated: SW_INIT_1 holds the GPU in reset or releases it, and here that stands
 * for the whole sequence.
 */
#include "port.h"

enum {
    PASSWORD = 0x5a000000, /* of PM, bridges and clocks: in the upper byte of each write */

    PM_GRAFX = 0x10c, /* offset from the power management's base */
    PM_V3DRSTN = 1 << 6,

    ASB_REQ_STOP = 1 << 0,
    ASB_ACK = 1 << 1,
    ASB_ID = 0x62726467,     /* "brdg" */
    ASB_TIMEOUT_US = 100,    /* Linux: 5 */
    RESET_PROPAGATES_US = 1, /* 32 clocks */

    CM_ENABLE = 1 << 4,
    CM_GATE = 1 << 6,
    CM_BUSY = 1 << 7,
    CM_TIMEOUT_US = 1000,

    UART_IBRD = 0x24,
    UART_FBRD = 0x28,
    UART_LCRH = 0x2c,
    UART_CR = 0x30,
    UART_DIVISOR_64 = 1667, /* 48 MHz / (16 * 115200), in 64ths */
    UART_8N1_FIFO = 0x70,
    UART_ON_TX = 0x101,

    GPFSEL1_SHIFT_14 = 12, /* three bits a pin */
    GPFSEL_TWO_PINS = 077,
    GPFSEL_TWO_ALT0 = 044,

    BRIDGE = 0x8000, /* trace_format/gpus/v3d42.toml */
    BRIDGE_SW_INIT_1 = 0x800c,

    IMAGE_MAGIC_AT = 56, /* Linux Documentation/arm64/booting.rst */
    IMAGE_MAGIC = 0x644d5241,
    GICD_TYPER = 0x4,
    GICD_TYPER_LINES = 31, /* groups of 32 interrupts, less one */
    GICD_IGROUPR = 0x80,
};
#define PASSWORD_MASK UINT32_C(0xff000000)
#define ASB_V3D_S_CTRL UINT64_C(GR_BRIDGES_BASE + 0x08)
#define ASB_V3D_M_CTRL UINT64_C(GR_BRIDGES_BASE + 0x0c)
#define ASB_AXI_BRDG_ID UINT64_C(GR_BRIDGES_BASE + 0x20)
#define CM_V3DCTL UINT64_C(GR_CLOCKS_BASE + 0x38)
#define GPFSEL1 UINT64_C(0xfe200004) /* this and the next two: used with the MMU off only */
#define LOCAL_CONTROL UINT64_C(0xff800000)
#define LOCAL_PRESCALER UINT64_C(0xff800008)

/* armstub8.S. The VideoCore's firmware has put the addresses there when the magic is cleared. */
extern const volatile uint32_t gr_stub_magic, gr_stub_device_tree, gr_stub_kernel;
_Noreturn void gr_next_world(uint64_t device_tree, uint64_t entry);

static bool is_on;      /* the GPU answers: no reset, clock on, bridges open */
static uint32_t failed; /* first register that did not answer in time: the GPU stays in reset */

static void write_protected(uint64_t address, uint32_t clear, uint32_t set)
{
    *gr_word(address) = PASSWORD | (*gr_word(address) & ~(PASSWORD_MASK | clear)) | set;
}

static void set_clock(bool on)
{
    write_protected(CM_V3DCTL, CM_ENABLE, on ? CM_ENABLE | CM_GATE : 0);
    if (!on) /* the divider ends its cycle; on a timeout Linux goes on, too */
        gr_port_wait_word(CM_V3DCTL, CM_BUSY, 0, CM_TIMEOUT_US);
}

static bool set_bridge(uint64_t control, bool open)
{
    /* With one bit of it lost, the address would be in the GPU. The compiler must not know that it is not. */
    __asm__("" : "+r"(control));
    if (control >> 12 != GR_BRIDGES_BASE >> 12)
        return false;
    write_protected(control, ASB_REQ_STOP, open ? 0 : ASB_REQ_STOP);
    const bool done = gr_port_wait_word(control, ASB_ACK, open ? 0 : ASB_ACK, ASB_TIMEOUT_US);
    if (!done && !failed)
        failed = (uint32_t)control;
    return done;
}

__attribute__((noinline)) static void switch_off(void)
{
    is_on = false;
    if (set_bridge(ASB_V3D_S_CTRL, false))
        set_bridge(ASB_V3D_M_CTRL, false);
    /* Also when a bridge does not stop: a GPU in reset makes no more accesses. */
    set_clock(false);
    write_protected(GR_POWER_BASE + PM_GRAFX, PM_V3DRSTN, 0);
}

__attribute__((noinline)) static void switch_on(void)
{
    set_clock(true);
    const uint64_t start = gr_port_now_us();
    while (gr_port_now_us() - start <= RESET_PROPAGATES_US)
        ;
    set_clock(false);
    write_protected(GR_POWER_BASE + PM_GRAFX, 0, PM_V3DRSTN);
    set_clock(true);
    is_on = set_bridge(ASB_V3D_M_CTRL, true) && set_bridge(ASB_V3D_S_CTRL, true);
    if (!is_on)
        switch_off();
}

uint32_t gr_port_read32(uint32_t offset)
{
    /* No access reaches a GPU that is off: the bus would wait forever. */
    return is_on && offset < BRIDGE ? gr_gpu_read(offset) : UINT32_MAX;
}

__attribute__((noinline)) void gr_port_write32(uint32_t offset, uint32_t value)
{
    if (offset == BRIDGE_SW_INIT_1 && !failed)
        value ? switch_off() : switch_on();
    else if (is_on && offset < BRIDGE)
        gr_gpu_write(offset, value);
}

uint32_t gr_board_gpu_on(void)
{
    if (!gr_port_wait_word(ASB_AXI_BRDG_ID, UINT32_MAX, ASB_ID, 0))
        return (uint32_t)ASB_AXI_BRDG_ID;
    switch_on();
    return failed;
}

uint32_t gr_board_gpu_off(void)
{
    if (is_on)
        switch_off();
    return failed;
}

/* As TF-A's port: plat/rpi/common/rpi4_bl31_setup.c (counter), rpi3_console_dual.c (UART). */
void gr_board_start(void)
{
    *gr_word(LOCAL_CONTROL) = 0;            /* the counter counts the crystal by ones... */
    *gr_word(LOCAL_PRESCALER) = 0x80000000; /* ...each of its cycles */
    __asm__ volatile("msr cntfrq_el0, %0" ::"r"((uint64_t)GR_COUNTER_HZ));
    *gr_word(GPFSEL1) = (*gr_word(GPFSEL1) & ~((uint32_t)GPFSEL_TWO_PINS << GPFSEL1_SHIFT_14)) |
                        (uint32_t)GPFSEL_TWO_ALT0 << GPFSEL1_SHIFT_14;
    *gr_word(GR_UART_BASE + UART_CR) = 0;
    *gr_word(GR_UART_BASE + UART_IBRD) = UART_DIVISOR_64 / 64;
    *gr_word(GR_UART_BASE + UART_FBRD) = UART_DIVISOR_64 % 64;
    *gr_word(GR_UART_BASE + UART_LCRH) = UART_8N1_FIFO;
    *gr_word(GR_UART_BASE + UART_CR) = UART_ON_TX;
}

/* Enter the kernel, where there is one. After an exception the carve-out has not been wiped:
 * then nothing more runs. */
void gr_board_end(uint32_t exit_status)
{
    const uint64_t kernel = gr_stub_kernel;
    if (exit_status > EXIT_REFUSED || gr_stub_magic || !kernel || kernel % 4 ||
        *gr_word(kernel + IMAGE_MAGIC_AT) != IMAGE_MAGIC)
        return;
    const uint32_t groups = *gr_word(GR_GIC_BASE + GICD_TYPER) & GICD_TYPER_LINES;
    for (uint32_t i = 1; i <= groups; i++)
        *gr_word(GR_GIC_BASE + GICD_IGROUPR + i * 4) = UINT32_MAX;
    gr_next_world(gr_stub_device_tree, kernel);
}
