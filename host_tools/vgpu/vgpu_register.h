/* SPDX-License-Identifier: BSD-2-Clause */
/* A row of a virtual GPU's register table, which is generated: python -m trace_format.emit. */
#ifndef GRAMOPHONE_VGPU_REGISTER_H
#define GRAMOPHONE_VGPU_REGISTER_H

#include <stdint.h>

enum { VGPU_READ = 1, VGPU_WRITE = 2 };

struct vgpu_register {
    const char *name; /* block.NAME */
    uint32_t offset;  /* in the register window */
    uint32_t reset;   /* value after a reset */
    uint32_t bits;    /* those that may be set in a write; any other is an error */
    uint8_t access;   /* VGPU_READ | VGPU_WRITE; 0: not modelled */
};

/* A register's value after a reset, of a GPU that otherwise has another's table. */
struct vgpu_reset {
    uint32_t offset, value;
};

struct vgpu_block {
    const char *name;
    uint32_t offset, bytes;
};

#endif
