/* SPDX-License-Identifier: BSD-2-Clause */
/* The GPU seam: what a nano driver (one C file per GPU family) does for the core. It builds page tables,
 * resets the GPU and writes the registers that carry live addresses; everything else is in the trace. */
#ifndef GRAMOPHONE_DRIVER_H
#define GRAMOPHONE_DRIVER_H

#include "internal.h"

/* Memory that the driver needs after the trace's part of the carve-out (for the network that is checked), in
 * whole pages: enough for every mapping that the trace makes. Called when all actions are loaded
 * and checked. */
GR_INTERNAL uint64_t gr_driver_bytes(const struct gr_replayer *r);

/* Reset the GPU; false when the reset does not complete. Either way the GPU stops using the carve-out, as far
 * as registers can make it. Before the next mapping the core clears the driver's memory. */
GR_INTERNAL bool gr_driver_reset(struct gr_replayer *r);

/* Point an address space of the GPU at its page table, and turn translation on. */
GR_INTERNAL void gr_driver_set_table(struct gr_replayer *r, uint32_t space);

/* Map or unmap pages, as the action says; its ranges are checked. */
GR_INTERNAL enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a);
GR_INTERNAL enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a);

/* Carve-out offset that a GPU virtual address maps to; UINT64_MAX when nothing is mapped there. */
GR_INTERNAL uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va);

/* Bits that report a fault, which no trace can clear; 0 when there is none. Each has one meaning only. */
GR_INTERNAL uint32_t gr_driver_fault(void);

/* GPU address of a fault with these bits: the upper 32 of as many bits as the profile says ([faults]); 0
 * where the GPU has none. */
GR_INTERNAL uint32_t gr_driver_fault_place(uint32_t fault);

/* Whether no job runs or waits. */
GR_INTERNAL bool gr_driver_is_idle(void);

/* What a trace must not do now with a register that it may write, at a byte offset: start a job whose code
 * could be changed. */
GR_INTERNAL enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value);

#endif
