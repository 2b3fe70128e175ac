/* SPDX-License-Identifier: BSD-2-Clause */
/* A port of your own: what the GPU needs on this board, and nothing else. The rest is port.c's. */
#include "port.h"

/* The replayer's only ways to the GPU. `offset` is within the window; `gr_gpu_read` and `gr_gpu_write` access
 * it directly. A board with something in between puts it here: rpi4.c. */
uint32_t gr_port_read32(uint32_t offset)
{
    return gr_gpu_read(offset);
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    gr_gpu_write(offset, value);
}

/* Called once, first: what the rest relies on, above all the counter, and a UART that prints. */
void gr_board_start(void)
{
    __asm__ volatile("msr cntfrq_el0, %0" ::"r"((uint64_t)GR_COUNTER_HZ));
}

enum { CLOCK_ENABLE = 0x0, CLOCK_ON = 1, CLOCK_STATUS = 0x4, CLOCK_RUNS = 1, CLOCK_TIMEOUT_US = 1000 };

/* Switch the GPU on and off: 0, or the address of a register that did not answer in time. Bound every wait.
 */
uint32_t gr_board_gpu_on(void)
{
    const uint64_t status = GR_CLOCK_BASE + CLOCK_STATUS;
    *gr_word(GR_CLOCK_BASE + CLOCK_ENABLE) = CLOCK_ON;
    return gr_port_wait_word(status, CLOCK_RUNS, CLOCK_RUNS, CLOCK_TIMEOUT_US) ? 0 : (uint32_t)status;
}

uint32_t gr_board_gpu_off(void)
{
    *gr_word(GR_CLOCK_BASE + CLOCK_ENABLE) = 0;
    return 0;
}

/* After the last line: enter the normal world, or return, and the core waits forever. */
void gr_board_end(uint32_t exit_status)
{
    (void)exit_status;
}
