/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control lists of a V3D 4.2, as far as a GPU without a 3D pipeline can go: those that draw nothing and store
 * nothing. A compute-only Vulkan stack submits them to signal semaphores. Sources: see v3d_list.c.
 */
#ifndef GRAMOPHONE_V3D_LIST_H
#define GRAMOPHONE_V3D_LIST_H

#include "v3d_mmu.h"

enum v3d_list_kind { V3D_LIST_BIN, V3D_LIST_RENDER };

struct v3d_list_result {
    bool faulted; /* a byte of the list is not mapped: fault_va */
    uint32_t fault_va;
    char error[256]; /* not empty: a packet that would draw, store, or is not known; names address and packet
                      */
};

/* Prove that the list at [start, end) of GPU memory has no effect on memory. */
void v3d_list_check(struct v3d_mmu *mmu, enum v3d_list_kind kind, uint32_t start, uint32_t end,
                    struct v3d_list_result *result);

#endif
