/* SPDX-License-Identifier: BSD-2-Clause */
/* What the ports of all boards share (port.c), and what a board has of its own. Its numbers, GR_*_BASE and
 * others, come from the board's description (boards/NAME.toml): the Makefile has every file include them
 * first. */
#ifndef GRAMOPHONE_PORT_H
#define GRAMOPHONE_PORT_H

#include "gramophone_board.h"
#include "replayer.h"

/* A device's register. */
static inline volatile uint32_t *gr_word(uint64_t address)
{
    return (volatile uint32_t *)(uintptr_t)address;
}

/* Wait until a register has a value under a mask; false when it did not within `timeout_us`. */
bool gr_port_wait_word(uint64_t address, uint32_t mask, uint32_t value, uint32_t timeout_us);

/* Whether a trace has been accepted, in a register of the core that EL3 has no other use for. */
static inline void gr_accept(bool is_accepted)
{
    __asm__ volatile("msr tpidr_el1, %0" ::"r"((uint64_t)is_accepted));
}

static inline bool gr_is_accepted(void)
{
    uint64_t is_accepted = 0;
    __asm__ volatile("mrs %0, tpidr_el1" : "=r"(is_accepted));
    return is_accepted;
}

#ifdef GR_MMU
/* mmu.S. Until it is on and once it is off, every access reaches memory. */
void gr_mmu_on(void);
void gr_mmu_off(void);
#endif
/* What is read of memory later must not be read before a register. Memory is no device once the MMU is on,
 * and with it off accesses to devices keep their order within one device only (Arm DDI 0487, B2.7.2). An
 * emulator without caches has no other order than the program's. */
#if defined GR_MMU || defined GR_SILICON
#define GR_AFTER_READ __asm__ volatile("dsb sy" ::: "memory")
#else
#define GR_AFTER_READ (void)0
#endif

/* Registers of the GPU, where the board has nothing in between: for gr_port_read32 and gr_port_write32. The
 * compiler is not told the base, and keeps it in a register: less code. */
static inline uint32_t gr_gpu_read(uint32_t offset)
{
    uint64_t base = GR_GPU_BASE;
    __asm__("" : "+r"(base));
    const uint32_t value = *gr_word(base + offset);
    GR_AFTER_READ;
    return value;
}

/* A fault can make the core jump anywhere. So nothing is written before a trace has been accepted, and the
 * base is there before that is asked (the compiler keeps the order of both): who jumps past the question has
 * none. */
static inline void gr_gpu_write(uint32_t offset, uint32_t value)
{
    uint64_t base = GR_GPU_BASE;
    __asm__ volatile("" : "+r"(base));
    if (!gr_is_accepted())
        return;
    __asm__ volatile("dsb sy" ::: "memory");
    *gr_word(base + offset) = value;
}

/* A character for the UART; dropped where the UART does not take it in time. */
void gr_port_put(char character);

enum { EXIT_OK = 0, EXIT_REFUSED = 1, EXIT_EXCEPTION = 2 };

/* The end: print a line, `what` and a number in hex, to the UART, and never return. */
_Noreturn void gr_exit(char what, uint32_t number, uint32_t exit_status);

/* The board's own start-up: what the rest relies on, above all the counter. Called once, first. */
void gr_board_start(void);
/* Switch the GPU on and off. 0, or the address of a register that did not answer in time: after that the GPU
 * is not touched any more. */
uint32_t gr_board_gpu_on(void);
uint32_t gr_board_gpu_off(void);
#ifdef GRAMOPHONE_SECRET
/* For firmware with a replay log (docs/LOG.md), or that reads encrypted traces. The device's secret: 32 bytes
 * that no other device has, and that only firmware whose signature was checked can read. False: there is
 * none.
 */
bool gr_board_secret(uint8_t secret[32]);
#endif
#ifdef GRAMOPHONE_LOG
/* For firmware with a replay log: where the log ended, from a place that the normal world cannot change;
 * zeros when nothing was written yet. `boots` is counted up: by one that cannot go back, where the board has
 * one. False: there is no such place.
 */
bool gr_board_start_log(struct gr_log_tail *tail);
/* Keep it there. */
bool gr_board_keep_tail(const struct gr_log_tail *tail);
#endif
/* After the last line; what comes next on this board. May return: then the core waits forever. */
void gr_board_end(uint32_t exit_status);

#endif
