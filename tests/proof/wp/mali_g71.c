/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: the state after gr_load (load). */
#include "state.h"

/* Registers that the driver writes: interrupt masks and clears, the GPU's command (reset only), and of each
 * address space the table, the configuration, the attributes and the command. */
/*@ predicate space_register(integer offset) =
      \exists integer k; 0 <= k < GR_ADDRESS_SPACES &&
        (offset == GR_AS0_COMMAND + 64 * k || offset == GR_AS0_TRANSTAB_LO + 64 * k ||
         offset == GR_AS0_TRANSTAB_LO + 4 + 64 * k || offset == GR_AS0_MEMATTR_LO + 64 * k ||
         offset == GR_AS0_MEMATTR_LO + 4 + 64 * k || offset == GR_AS0_TRANSCFG_LO + 64 * k ||
         offset == GR_AS0_TRANSCFG_LO + 4 + 64 * k);
    predicate driver_register(integer offset) =
      offset == GR_GPU_IRQ_MASK || offset == GR_JOB_IRQ_MASK || offset == GR_MMU_IRQ_MASK ||
      offset == GR_GPU_IRQ_CLEAR || offset == GR_JOB_IRQ_CLEAR || offset == GR_MMU_IRQ_CLEAR ||
      offset == GR_GPU_COMMAND || space_register(offset);
*/

/*@ requires list: driver_register(offset);
    requires reset: offset == GR_GPU_COMMAND ==> value == 1 || value == 2;
    assigns \nothing;
*/
void gr_port_write32(uint32_t offset, uint32_t value);

/*@ assigns \nothing; */
uint32_t gr_port_read32(uint32_t offset);

/*@ requires offset != GR_GPU_COMMAND && offset != GR_GPU_COMMAND - 4 && offset <= 65535;
    requires driver_register(offset) && driver_register(offset + 4);
    assigns \nothing;
*/
static void write64(uint32_t offset, uint64_t value);

/*@ requires carveout(r) && space < GR_ADDRESS_SPACES;
    assigns \nothing;
    ensures \result == r->carveout_bytes + space * GR_PAGE_BYTES;
*/
static uint64_t root_offset(const struct gr_replayer *r, uint32_t space);

/*@ requires \valid(r);
    assigns r->tables;
    ensures r->tables == GR_ADDRESS_SPACES;
*/
bool gr_driver_reset(struct gr_replayer *r);

/*@ requires carveout(r) && space < GR_ADDRESS_SPACES;
    assigns \nothing;
*/
void gr_driver_set_table(struct gr_replayer *r, uint32_t space);

/*@ assigns \nothing; */
uint32_t gr_driver_fault(void);

/*@ assigns \nothing; */
bool gr_driver_is_idle(void);

/*@ assigns \nothing; */
enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value);
#include "shipped/mali_g71.c"
