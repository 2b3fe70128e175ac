/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Drives the virtual GPU. In the secure world, shows then that the normal world cannot reach it; with
 * NORMAL_WORLD, is the normal world itself. BUS_ERROR and UNKNOWN_REGISTER end with what makes the GPU fail.
 *
 * Exit status 0, or the number of the first check that failed.
 */
#include <stdint.h>

#define HUB 0x0b000000u
#define CORE 0x0b004000u
#define CARVEOUT 0x60000000u /* inside the machine's own DRAM: must be walled off from the normal world */
#define TABLE CARVEOUT
#define DATA (CARVEOUT + 0x100000u)
#define DRAM 0x40000000u /* of the normal world */
#define GICD 0x08000000u
#define SPI 100u

/* ESR values: Arm Architecture Reference Manual, D17.2.37 */
enum { ABORT_LOWER_EL = 0x24, ABORT_SAME_EL = 0x25, EXTERNAL = 0x10 };
enum { SMC64_0 = 0x17 << 26 | 1 << 25, SMC64_1 };

/* Runs code at EL1 in the normal world with `address` in x0, until an exception comes to
 * EL3; returns its syndrome. */
uint64_t run_normal_world(uint32_t code, uint32_t address, uint32_t vectors);

static volatile uint32_t *at(uint32_t address)
{
    return (volatile uint32_t *)(uintptr_t)address;
}

#define CHECK(number, condition)                                                                             \
    do {                                                                                                     \
        if (!(condition))                                                                                    \
            return number;                                                                                   \
    } while (0)

#ifndef NORMAL_WORLD
enum outcome { COMPLETED, ABORTED, OTHER };

/*
 * What becomes of a 32-bit access from the normal world. An external abort is taken to EL1 (its vector passes
 * on with smc #1) or to EL3, as the machine routes it; both report it as a data abort with fault status 0x10.
 */
static enum outcome normal_access(int write, uint32_t address)
{
    *at(DRAM) = write ? 0xb9000001u : 0xb9400001u; /* str or ldr w1, [x0] */
    *at(DRAM + 4) = 0xd4000003u;                   /* smc #0 */
    *at(DRAM + 0xa00) = 0xd4000023u;               /* vector of EL1 for itself: smc #1 */
    uint64_t syndrome = run_normal_world(DRAM, address, DRAM + 0x800), inner;
    if (syndrome == SMC64_0)
        return COMPLETED;
    __asm__ volatile("mrs %0, esr_el1" : "=r"(inner));
    if (syndrome == SMC64_1)
        syndrome = inner;
    unsigned class = syndrome >> 26 & 0x3f;
    return (class == ABORT_LOWER_EL || class == ABORT_SAME_EL) && (syndrome & 0x3f) == EXTERNAL ? ABORTED
                                                                                                : OTHER;
}

static int isolation(void)
{
    CHECK(7, normal_access(0, DRAM + 0x100000) == COMPLETED);
    CHECK(8, normal_access(0, HUB + 0xc) == ABORTED);
    CHECK(9, normal_access(0, DATA) == ABORTED);
    CHECK(10, normal_access(1, DATA) == ABORTED);
    CHECK(11, *at(DATA) == 0xc0ffee);
    return 0;
}
#endif

static void mmu_on(void)
{
    *at(TABLE + 0) = 0;
    *at(TABLE + 4) = 0x30000000u | DATA >> 12; /* GPU page 1: valid, writable */
    *at(HUB + 0x1204) = TABLE >> 12;
    *at(HUB + 0x1214) = 0x80000001u; /* cap: 1 MB of GPU addresses */
    *at(HUB + 0x1200) = 0x060d0c05u;
    *at(CORE + 0x64) = 0xa7;
    *at(HUB + 0x64) = 0x3a;
}

/* A dispatch for the test double of the compute engine, tests/vgpu/csd_double.c. */
enum { READ = 1, WRITE = 2 };

static void submit(uint32_t action, uint32_t address)
{
    *at(CORE + 0x908) = 0x10000;
    *at(CORE + 0x90c) = 0x10000;
    *at(CORE + 0x910) = 0x110;
    *at(CORE + 0x914) = 0;
    *at(CORE + 0x918) = 0xd0b1e000u + action;
    *at(CORE + 0x91c) = address;
    *at(CORE + 0x904) = 0x10000;
}

static int interrupt_pending(void)
{
    return *at(GICD + 0x200 + (32 + SPI) / 32 * 4) >> (32 + SPI) % 32 & 1;
}

int main(void)
{
    CHECK(1, *at(HUB + 0xc) == 0x000e1124);
    *at(DATA) = 1;
    mmu_on();
    CHECK(2, !interrupt_pending());
    submit(WRITE, 0x1000);
    for (unsigned i = 0; i < 1000000 && !(*at(CORE + 0x50) & 0x80); i++)
        ;
    CHECK(3, *at(CORE + 0x50) == 0x80);
    CHECK(4, *at(DATA) == 0xc0ffee);
    CHECK(5, interrupt_pending());
    *at(CORE + 0x58) = 0x80;
    CHECK(6, !interrupt_pending());

#ifndef NORMAL_WORLD
    int failed = isolation();
    if (failed)
        return failed;
#endif
#ifdef BUS_ERROR
    *at(TABLE + 4) = 0x30000000u | 0x40100000u >> 12; /* DRAM of the normal world: not the GPU's */
    *at(HUB + 0x1200) = 0x060d0c05u;
    submit(READ, 0x1000);
#endif
#ifdef UNKNOWN_REGISTER
    *at(HUB + 0x18) = 1;
#endif
    return 0;
}
