/* SPDX-License-Identifier: BSD-2-Clause */
/* A Raspberry Pi's V3D for a process of root, with a kernel as it is: the parts of the port. */
#ifndef GRAMOPHONE_DEVMEM_H
#define GRAMOPHONE_DEVMEM_H

#include "uio.h"

enum { GR_PAGE = 4096 };

/* power.c: the GPU's name in sysfs, and where its registers lie; the driver that has it, "" for none. */
bool gr_power_find(char gpu[64], uint64_t *base);
void gr_power_driver(const char *gpu, char driver[64]);
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
