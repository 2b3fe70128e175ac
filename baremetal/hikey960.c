/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Port for the HiKey960 at EL3. It has run only in emulation, not on silicon.
 *
 * The SoC's power processor, LPM3, controls clock and voltage of the Mali; its firmware is TF-A's SCP_BL2,
 * which BL2 loads before this image. No driver of Linux switches the Mali's power on this board: the device
 * tree has a clock for it and no power domain. The clock's rate is requested through a mailbox, as Linux
 * does. So LPM3's firmware must have powered the GPU; cores and L2 cache are switched by the GPU itself, and
 * off after its reset.
 *
 * Facts: Linux drivers/mailbox/hi3660-mailbox.c (sequence),
 * drivers/clk/hisilicon/clk-hi3660-stub.c (message), hi3660.dtsi (channel 13 to interrupt 3,
 * answered at 0); TF-A hikey960_common.c (the counter's rate), lib/cpus/aarch64 (SMPEN is
 * set when a core leaves reset, before the caches that this firmware turns on).
 */
#include "port.h"

enum {
    /* Offsets from the mailbox's base. */
    CHANNEL = 13 * 0x40,
    SOURCE = CHANNEL + 0x00,
    DESTINATION = CHANNEL + 0x04,
    MODE = CHANNEL + 0x10,
    INTERRUPT_MASK = CHANNEL + 0x14,
    INTERRUPT_CLEAR = CHANNEL + 0x18,
    SEND = CHANNEL + 0x1c,
    DATA = CHANNEL + 0x20,
    LOCK = 0xa00,
    GPU_RATE = 0x500 + 0x70 + 2 * 4, /* in MHz, written by LPM3: clock 2 of the stub clocks */

    DESTINATION_BIT = 1 << 3,
    ANSWER_BIT = 1 << 0,
    MODE_AUTOMATIC_ANSWER = 1,
    MODE_IDLE = 1 << 4,
    MODE_READY = 1 << 5,
    MODE_ANSWERED = 1 << 7,
    UNLOCK = 0x1acce551,
    MESSAGE_WORDS = 8,
    SET_GPU_RATE = 0x0003030a,

    SHORT_US = 100,
    ANSWER_US = 300000,
};

static volatile uint32_t *mailbox(uint32_t offset)
{
    return gr_word(GR_POWER_BASE + (uint64_t)offset);
}

/* 0, or the address of the register that did not reach the value. */
static uint32_t wait_for(uint32_t offset, uint32_t mask, uint32_t value, uint32_t timeout_us)
{
    const uint64_t address = GR_POWER_BASE + (uint64_t)offset;
    return gr_port_wait_word(address, mask, value, timeout_us) ? 0 : (uint32_t)address;
}

/* Acquire the channel and make it ready. */
static uint32_t take_channel(void)
{
    *mailbox(LOCK) = UNLOCK;
    uint32_t failed = wait_for(LOCK, UINT32_MAX, 0, SHORT_US);
    if (!failed && !(*mailbox(SOURCE) & ANSWER_BIT)) {
        failed = wait_for(MODE, MODE_IDLE, MODE_IDLE, SHORT_US);
        if (!failed) {
            *mailbox(SOURCE) = ANSWER_BIT;
            failed = wait_for(SOURCE, ANSWER_BIT, ANSWER_BIT, 0);
        }
    }
    return failed;
}

/* After LPM3 took the message, the channel is made ready again. */
static uint32_t wait_answer(void)
{
    const uint32_t failed = wait_for(MODE, MODE_ANSWERED, MODE_ANSWERED, ANSWER_US);
    if (!failed)
        *mailbox(INTERRUPT_CLEAR) = ANSWER_BIT;
    return failed;
}

static uint32_t set_rate(uint32_t mhz)
{
    uint32_t failed = take_channel();
    if (!failed && !(*mailbox(MODE) & MODE_READY))
        failed = wait_answer();
    if (failed)
        return failed;
    *mailbox(INTERRUPT_MASK) = ~(uint32_t)DESTINATION_BIT;
    *mailbox(DESTINATION) = DESTINATION_BIT;
    *mailbox(MODE) = MODE_AUTOMATIC_ANSWER;
    for (uint32_t i = 0; i < MESSAGE_WORDS; i++)
        *mailbox(DATA + i * 4) = i == 0 ? SET_GPU_RATE : i == 1 ? mhz : 0;
    *mailbox(SEND) = ANSWER_BIT;
    failed = wait_answer();
    /* LPM3 rounds the rate; 0 means no clock. */
    return failed || *mailbox(GPU_RATE) ? failed : (uint32_t)(GR_POWER_BASE + GPU_RATE);
}

uint32_t gr_port_read32(uint32_t offset)
{
    return gr_gpu_read(offset);
}

__attribute__((noinline)) void gr_port_write32(uint32_t offset, uint32_t value)
{
    gr_gpu_write(offset, value);
}

void gr_board_start(void)
{
    __asm__ volatile("msr cntfrq_el0, %0" ::"r"((uint64_t)GR_COUNTER_HZ));
}

uint32_t gr_board_gpu_on(void)
{
    return set_rate(GR_GPU_MHZ);
}

uint32_t gr_board_gpu_off(void)
{
    return set_rate(GR_GPU_IDLE_MHZ);
}

void gr_board_end(uint32_t exit_status)
{
    (void)exit_status;
}
