/* SPDX-License-Identifier: BSD-2-Clause */
/* Port for QEMU's machine "virt" (and Unicorn with the same map) at EL3: the GPU is on, the
 * end leaves the emulator. */
#include "port.h"

enum { SEMIHOSTING_EXIT = 0x18, SEMIHOSTING_EXIT_APPLICATION = 0x20026 };

uint32_t gr_port_read32(uint32_t offset)
{
    return gr_gpu_read(offset);
}

__attribute__((noinline)) void gr_port_write32(uint32_t offset, uint32_t value)
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

#ifdef GRAMOPHONE_SECRET
/* The emulated board keeps its secret and its log's tail in files beside the emulator, by semihosting (Arm
 * "Semihosting for AArch32 and AArch64", 2.0). NOTHING KEEPS THEM SECRET, nor from being put back: this is
 * for development and tests, as the rest of this board is. */
enum { SYS_OPEN = 1, SYS_CLOSE = 2, SYS_WRITE = 5, SYS_READ = 6, MODE_READ = 1, MODE_WRITE = 5 };

static int64_t semihosting(uint64_t operation, const uint64_t *block)
{
    register uint64_t number __asm__("x0") = operation;
    register const uint64_t *parameter __asm__("x1") = block;
    __asm__ volatile("hlt #0xf000" : "+r"(number) : "r"(parameter) : "memory");
    return (int64_t)number;
}

/* Read or write a whole file of this size; false when it is shorter, or there is none. */
static bool transfer(const char *name, uint64_t name_bytes, uint64_t operation, void *data, uint64_t bytes)
{
    const uint64_t open[] = {(uintptr_t)name, operation == SYS_READ ? MODE_READ : MODE_WRITE, name_bytes};
    const int64_t file = semihosting(SYS_OPEN, open);
    if (file == -1)
        return false;
    const uint64_t move[] = {(uint64_t)file, (uintptr_t)data, bytes}, close[] = {(uint64_t)file};
    const int64_t left = semihosting(operation, move);
    return semihosting(SYS_CLOSE, close) == 0 && left == 0;
}
#define TRANSFER(name, operation, data) transfer(name, sizeof(name) - 1, operation, data, sizeof *(data))

bool gr_board_secret(uint8_t secret[32])
{
    return transfer("device.secret", sizeof("device.secret") - 1, SYS_READ, secret, 32);
}

#endif

#ifdef GRAMOPHONE_LOG
bool gr_board_start_log(struct gr_log_tail *tail)
{
    uint64_t boots = 0;
    if (!TRANSFER("device.tail", SYS_READ, tail))
        *tail = (struct gr_log_tail){0};
    if (!TRANSFER("device.boots", SYS_READ, &boots))
        boots = 0;
    tail->boots = ++boots;
    return TRANSFER("device.boots", SYS_WRITE, &boots);
}

bool gr_board_keep_tail(const struct gr_log_tail *tail)
{
    struct gr_log_tail kept = *tail;
    return TRANSFER("device.tail", SYS_WRITE, &kept);
}
#endif
