/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: the state after gr_load (load). */
#include "state.h"

/* The driver's memory, and what a network is besides the state that state.h has: one that there is, whose
 * actions are some of all. */
#ifdef GRAMOPHONE_NETWORKS
#define DRIVER_AT(r) GR_DRIVER_AT(r)
#define DRIVER_END(r) GR_DRIVER_END(r)
#define NETWORK(r) \valid_read(r) && r->network < GR_NETWORKS
#define OF_NETWORK(r) \valid(r) && r->network < GR_NETWORKS
#define OWN_ACTIONS(r) carveout(r) && tables(r) && GR_FIRST_ACTION(r) <= GR_END_ACTION(r) <= r->action_count
#else
#define DRIVER_AT(r) r->carveout_bytes
#define DRIVER_END(r) r->low_bytes
#define NETWORK(r) \valid_read(r)
#define OF_NETWORK(r) \valid(r)
#define OWN_ACTIONS(r) carveout(r) && tables(r)
#endif

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

/* The driver's memory as tables' entries; the page tables of a loaded trace, whatever their entries are. */
/*@ axiomatic words { logic uint64_t *words(uint8_t *base, integer at); }
    logic uint64_t *entries(struct gr_replayer *r) = words(r->memory.base, DRIVER_AT(r));
    logic integer room(struct gr_replayer *r) = (DRIVER_END(r) - DRIVER_AT(r)) / GR_PAGE_BYTES;
    predicate walk(struct gr_replayer *r) =
      carveout(r) && r->memory.phys <= 1099511627776 && GR_ADDRESS_SPACES <= PROGRESS(r).tables <= room(r) &&
      \valid(entries(r) + (0 .. 512 * room(r) - 1)) &&
      \separated(r, entries(r) + (0 .. 512 * room(r) - 1));
    predicate within(struct gr_replayer *r, uint64_t *at, integer count) =
      \base_addr(at) == \base_addr(entries(r)) && entries(r) <= at &&
      at + count <= entries(r) + 512 * PROGRESS(r).tables;
*/

/*@ requires walk(r) && number < room(r);
    assigns \nothing;
    admit ensures cast: \result == entries(r) + 512 * number;
*/
static uint64_t *table_at(const struct gr_replayer *r, uint64_t number);

/*@ requires NETWORK(r);
    assigns \nothing;
    ensures walk(r) && number < room(r) ==>
      \result == r->memory.phys + DRIVER_AT(r) + number * GR_PAGE_BYTES;
*/
static uint64_t table_phys(const struct gr_replayer *r, uint64_t number);

/*@ requires walk(r);
    assigns \nothing;
    ensures \result == NULL || within(r, \result, 512);
*/
static uint64_t *table_of(const struct gr_replayer *r, uint64_t entry);

/*@ requires shift < 64;
    assigns \nothing;
    ensures \result < 512;
*/
static uint32_t index_of(uint64_t va, uint32_t shift);

/*@ requires carveout(r) && tables(r) && index < r->action_count;
    assigns \nothing;
*/
struct gr_action gr_action_at(const struct gr_replayer *r, uint32_t index);

/*@ requires \valid_read(action);
    assigns \nothing;
    admit ensures mask: \result == action->arg % 16;
*/
uint32_t gr_action_address_space(const struct gr_action *action);

/*@ requires \valid_read(action);
    assigns \nothing;
*/
uint64_t gr_action_va_page(const struct gr_action *action);

/*@ requires OWN_ACTIONS(r);
    assigns \nothing;
*/
uint64_t gr_driver_bytes(const struct gr_replayer *r);

/*@ requires walk(r) && within(r, entry, 1);
    assigns PROGRESS(r).tables, entries(r)[0 .. 512 * room(r) - 1];
    ensures walk(r) && \old(PROGRESS(r).tables) <= PROGRESS(r).tables;
    ensures \result == NULL || within(r, \result, 512);
*/
static uint64_t *table_below(struct gr_replayer *r, uint64_t *entry);

/*@ requires walk(r) && space < GR_ADDRESS_SPACES;
    assigns PROGRESS(r).tables, entries(r)[0 .. 512 * room(r) - 1];
    ensures walk(r);
    ensures \result == NULL || within(r, \result, 1);
*/
static uint64_t *entry_for(struct gr_replayer *r, uint32_t space, uint64_t page);

/* An action that gr_fetch_action has let pass: its pages lie in an address space that there is. */
/*@ predicate mapping(struct gr_replayer *r, struct gr_action *a) =
      walk(r) && \valid_read(a) && \separated(a, r) &&
      \separated(a, entries(r) + (0 .. 512 * room(r) - 1)) && a->arg % 16 < GR_ADDRESS_SPACES;
*/

/*@ requires mapping(r, a);
    assigns PROGRESS(r).tables, entries(r)[0 .. 512 * room(r) - 1];
    ensures walk(r);
*/
static enum gr_status set_pages(struct gr_replayer *r, const struct gr_action *a, uint64_t leaf);

/*@ requires mapping(r, a);
    assigns PROGRESS(r).tables, entries(r)[0 .. 512 * room(r) - 1];
    ensures walk(r);
*/
enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a);

/*@ requires mapping(r, a);
    assigns PROGRESS(r).tables, entries(r)[0 .. 512 * room(r) - 1];
    ensures walk(r);
*/
enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a);

/*@ requires walk(r) && space < GR_ADDRESS_SPACES;
    assigns \nothing;
*/
uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va);

/*@ requires \valid(r);
    assigns r->locked;
    ensures unlocked: r->locked == 0;
*/
bool gr_driver_reset(struct gr_replayer *r);

/*@ requires walk(r) && space < GR_ADDRESS_SPACES;
    assigns \nothing;
*/
void gr_driver_set_table(struct gr_replayer *r, uint32_t space);

/*@ assigns \nothing; */
uint32_t gr_driver_fault(void);

/*@ assigns \nothing; */
uint32_t gr_driver_fault_place(uint32_t fault);

/*@ assigns \nothing; */
bool gr_driver_is_idle(void);

/*@ requires NETWORK(r);
    assigns \nothing;
*/
static bool has_own_tables(const struct gr_replayer *r);

/* Whether a write starts a job, of three slots of 128 bytes. */
/*@ predicate starts(integer offset, integer value) =
      value != 0 && (offset == GR_JS0_COMMAND_NEXT || offset == GR_JS0_COMMAND_NEXT + 128 ||
                     offset == GR_JS0_COMMAND_NEXT + 256);
*/

/*@ requires OF_NETWORK(r);
    assigns r->locked;
    ensures unlocked: starts(offset, value) && \result == GR_STATUS_OK ==> r->locked == 0;
*/
enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value);
#include "shipped/mali_g71.c"
