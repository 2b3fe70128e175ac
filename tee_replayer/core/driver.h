/* The GPU seam: what a nano driver (one C file per GPU family) does for the core. It builds page tables,
 * resets the GPU and writes the registers that carry live addresses; everything else is in the trace. */
#ifndef GRAMOPHONE_DRIVER_H
#define GRAMOPHONE_DRIVER_H

#include "internal.h"

/* Memory that the driver needs behind the trace's carve-out, in whole pages. The GPU reaches only the last
 * page of it: the scratch page that illegal accesses are sent to. */
GR_INTERNAL uint64_t gr_driver_bytes(uint64_t va_bytes);

/* Reset the GPU and empty the page table. */
GR_INTERNAL void gr_driver_reset(struct gr_replayer *r);

/* Point the GPU at the page table and turn translation on. */
GR_INTERNAL void gr_driver_set_table(struct gr_replayer *r);

/* Map or unmap pages; the caller has checked the ranges. Permissions: GR_MAP_GPU_MEM_*. */
GR_INTERNAL void gr_driver_map(struct gr_replayer *r, uint32_t va_page, uint32_t pages, uint32_t page,
                               uint32_t permissions);
GR_NOINLINE GR_INTERNAL void gr_driver_unmap(struct gr_replayer *r, uint32_t va_page, uint32_t pages);

/* Carve-out offset behind a GPU virtual address; UINT64_MAX when nothing is mapped there. */
GR_INTERNAL uint64_t gr_driver_translate(const struct gr_replayer *r, uint64_t va);

/* Bits that tell of a memory fault; 0 when there is none. */
GR_INTERNAL uint32_t gr_driver_fault(void);

#endif
