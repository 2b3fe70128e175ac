/* SPDX-License-Identifier: BSD-2-Clause */
/* Small texts of sysfs, and the message of the last error. */
#ifndef GRAMOPHONE_SYSFS_H
#define GRAMOPHONE_SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GR_DEVICES "/sys/bus/platform/devices"
#define GR_UIO "/sys/class/uio"
#define GR_UIO_DRIVER "uio_pdrv_genirq"
#define GR_CARVEOUT_NODE "gramophone,carveout" /* "compatible" of its node in the device tree */

enum { GR_PATH = 512 };

/* Where the GPU's registers lie; their names are those of the device tree's "reg-names". */
struct gr_block {
    const char *name;
    uint32_t base, bytes; /* in the register window */
};

/* Keep a message; false. */
bool gr_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A path made of parts; false, with a message, when it is too long. */
bool gr_path(char path[GR_PATH], const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Read a file into `to`, with a 0 after it; bytes without that, or -1. */
long gr_read_text(const char *path, char *to, size_t room);

/* Write a text to a file; false, with a message. */
bool gr_write_text(const char *path, const char *text);

/* Copy a name of a device or driver; false when it is longer than any has. */
bool gr_copy_name(char to[64], const char *name);

/* Last part of what a symbolic link leads to; false when there is none. */
bool gr_link_name(const char *path, char name[64]);

/* Whether the list of texts in a file (each with a 0 at its end, as in a device tree) has this one. */
bool gr_lists(const char *path, const char *text);

/* Call `visit` with the name of each entry of a folder until it returns true; whether it did. */
bool gr_each(const char *folder, bool (*visit)(void *ctx, const char *name), void *ctx);

/* The driver that has a device; "" when none has. */
void gr_driver_of(const char *device, char driver[64]);

/* Whether no process has the GPU open: its nodes in /dev/dri, or its UIO device; false, with a message. A
 * process that opens them later than this would find the device gone. */
bool gr_check_free(const char *gpu);

#endif
