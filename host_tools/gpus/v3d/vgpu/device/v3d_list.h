/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control lists of a V3D, as far as a GPU without a 3D pipeline can go: those that draw nothing. A Vulkan
 * stack submits them to signal semaphores, and to copy and fill buffers by way of the tile buffer
 * (v3d_tile.h). Sources: see v3d_list.c.
 */
#ifndef GRAMOPHONE_V3D_LIST_H
#define GRAMOPHONE_V3D_LIST_H

#include "v3d_mmu.h"
#include "v3d_version.h"

enum v3d_list_kind { V3D_LIST_BIN, V3D_LIST_RENDER };

struct v3d_list_result {
    bool faulted;     /* a byte of the list, or of a buffer, is not mapped as it must be: fault_va */
    bool fault_write; /* the access was a write */
    bool fault_tile;  /* the tile buffer made it */
    uint32_t fault_va;
    uint64_t bytes_read, bytes_written; /* of buffers */
    char error[256]; /* not empty: a packet that would draw, or is not modelled; names address and packet */
};

/* Execute the list at [start, end) of GPU memory. limit: packets and rows of tiles until it counts as hung;
 * 0: more than any driver's list takes. */
void v3d_list_run(struct v3d_mmu *mmu, enum v3d_version version, enum v3d_list_kind kind, uint32_t start,
                  uint32_t end, uint64_t limit, struct v3d_list_result *result);

#endif
