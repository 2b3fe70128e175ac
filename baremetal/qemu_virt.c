/* SPDX-License-Identifier: BSD-2-Clause */
/* Port for QEMU's machine "virt" (and Unicorn with the same map) at EL3: the GPU is on, the
 * end leaves the emulator. */
#include "port.h"

enum { SEMIHOSTING_EXIT = 0x18, SEMIHOSTING_EXIT_APPLICATION = 0x20026 };

uint32_t gr_port_read32(uint32_t offset)
{
    return gr_gpu_read(offset);
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    gr_gpu_write(offset, value);
}

void gr_board_start(void) {}

uint32_t gr_board_gpu_on(void)
{
    return 0;
}

uint32_t gr_board_gpu_off(void)
{
    return 0;
}

void gr_board_end(uint32_t exit_status)
{
    const uint64_t block[] = {SEMIHOSTING_EXIT_APPLICATION, exit_status};
    register uint64_t operation __asm__("x0") = SEMIHOSTING_EXIT;
    register const uint64_t *parameter __asm__("x1") = block;
    __asm__ volatile("hlt #0xf000" ::"r"(operation), "r"(parameter) : "memory");
}
