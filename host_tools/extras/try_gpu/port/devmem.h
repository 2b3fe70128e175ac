/* SPDX-License-Identifier: BSD-2-Clause */
/* A Raspberry Pi's V3D for a process of root, with a kernel as it is: the parts of the port. */
#ifndef GRAMOPHONE_DEVMEM_H
#define GRAMOPHONE_DEVMEM_H

#include "uio.h"

/* registers.c: the GPU's registers, hub and core 0 as the profile places them, and the block "sms" of a
 * V3D 7.1. */
enum { GR_BLOCKS_MAPPED = 2, GR_BLOCK_BYTES = 0x4000, GR_MAPPED_BYTES = GR_BLOCKS_MAPPED * GR_BLOCK_BYTES };
struct gr_registers {
    uint8_t *window;
    volatile uint32_t *sms; /* NULL: the GPU has none */
};
bool gr_registers_map(const char *gpu, struct gr_registers *registers);
void gr_registers_unmap(struct gr_registers *registers);

/* sms.c: on, and reset; off. The GPU's clock must run, and its power domain be on. Without the block they do
 * nothing. */
bool gr_sms_on(volatile uint32_t *sms);
bool gr_sms_off(volatile uint32_t *sms);

/* power.c: the GPU's name in sysfs. */
bool gr_power_find(char gpu[64]);
/* Have the GPU for this process alone, in all that follows: who takes it, gives it back, or replays. */
bool gr_power_lock(const char *gpu, bool waits);
/* Whether a driver that does nothing has it: then its power domain is on. */
bool gr_power_is_on(const char *gpu);
/* Off and on again is the reset. */
bool gr_power_off(const char *gpu);
bool gr_power_on(const char *gpu);

/* clock.c: whether the GPU's clock runs. Without it the first access would hang the bus, so this comes
 * before. */
bool gr_clock_check(void);

/* pinned.c: one run of physical memory, which stays where it is as long as a process has it. */
struct gr_pinned {
    uint8_t *memory;
    uint64_t physical, bytes;
    int ring; /* io_uring, which holds the pages */
};
bool gr_pinned_open(struct gr_pinned *pinned);
/* Whether the pages are where they were. */
bool gr_pinned_check(const struct gr_pinned *pinned);
void gr_pinned_close(struct gr_pinned *pinned);

#endif
