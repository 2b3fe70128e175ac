/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_fetch_action (check), gr_copy_slot (slots), the drivers' functions, the state after gr_load.
 */
#include "run.h"

/*@ axiomatic policy {
      // The profile lets a trace set the bits of `may` in a register, and a value must have those of `must`.
      predicate allowed(integer index, integer may, integer must);
      // By definition: of what is allowed, a value of (x & may) | must; see run.acsl.
      predicate may_write(integer offset, integer value);
    }

    predicate writable(struct gr_replayer *r, integer arg) =
      r->limits == \null || (\valid_read(r->limits) && \separated(r, r->limits) && allowed(arg,
   r->limits->bits, r->limits->always));
*/

/*@ assigns \nothing; */
uint32_t gr_port_read32(uint32_t offset);

/*@ requires list: may_write(offset, value);
    assigns \nothing;
*/
void gr_port_write32(uint32_t offset, uint32_t value);

/*@ assigns \nothing; */
bool gr_port_wait_irq(unsigned line, uint32_t timeout_us);

/*@ assigns \nothing; */
uint32_t gr_driver_fault(void);

/*@ assigns \nothing; */
uint32_t gr_driver_fault_place(uint32_t fault);

/*@ assigns \nothing; */
bool gr_driver_is_idle(void);

/*@ requires carveout(r);
    assigns r->code, r->locked;
*/
enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value);

// Of all registers and rights, by enumeration: tests/unit/project/test_proof.py.
/*@ assigns \nothing;
    ensures \result == \null || \valid_read(\result);
    admit ensures policy: \result != \null && access == GR_ACCESS_WRITE ==> allowed(index, \result->bits,
   \result->always);
*/
const struct gr_limits *gr_find_register(uint32_t index, uint32_t access);

/*@ requires \valid(r);
    assigns r->report;
*/
static enum gr_status check_fault(struct gr_replayer *r);

/*@ requires \valid(r);
    assigns r->report;
*/
enum gr_status gr_settle(struct gr_replayer *r);

/*@ requires carveout(r) && index <= 65535 && writable(r, index);
    assigns r->report, r->code, r->locked;
*/
static enum gr_status write_register(struct gr_replayer *r, uint32_t index, uint32_t value, uint32_t mask);

/*@ requires \valid(r) && \valid_read(a) && \separated(r, a);
    assigns r->report.seen;
*/
static enum gr_status wait_for(struct gr_replayer *r, const struct gr_action *a, uint32_t us,
                               enum gr_status on_timeout);

#ifdef GRAMOPHONE_STREAMING
// As proved of streaming.c: a piece lies between the image and the carve-out's end.
/*@ requires carveout(r) && tables(r) && \valid_read(a) && \separated(r, a);
    assigns r->report, WRITTEN(r);
*/
enum gr_status gr_fetch_pieces(struct gr_replayer *r, const struct gr_action *a);

/*@ requires carveout(r) && tables(r) && index < r->action_count;
    assigns r->next_action;
*/
uint64_t gr_lacks_pieces(struct gr_replayer *r, uint32_t index);

/*@ requires carveout(r) && tables(r);
    assigns r->report, WRITTEN(r);
*/
enum gr_status gr_read_ahead(struct gr_replayer *r, uint32_t line);
#define AND_WRITTEN(r) , WRITTEN(r)
#else
#define AND_WRITTEN(r)
#endif

/*@ requires carveout(r) && tables(r) && \valid_read(a) && \separated(r, a);
    requires \separated(a, r->memory.base + (0 .. r->memory.bytes - 1));
    assigns r->report AND_WRITTEN(r);
*/
static enum gr_status wait_irq(struct gr_replayer *r, const struct gr_action *a);

// As proved of check.c and slots.c: see there.
/*@ requires carveout(r) && tables(r);
    requires index < r->action_count;
    requires \valid(a) && \separated(a, r) && \separated(a, r->memory.base + (0 .. r->memory.bytes - 1));
    assigns *a, r->report.action, r->report.op, r->report.offset, r->limits;
    admit ensures limits: writable(r, a->arg);
    admit ensures kept: \result == GR_STATUS_OK && (a->op == GR_OP_REG_READ_KEEP || a->op ==
   GR_OP_REG_WRITE_KEPT) ==> a->b < GR_KEEP_SLOTS; admit ensures upload: \result == GR_STATUS_OK && a->op ==
   GR_OP_UPLOAD ==> a->b + a->value <= r->image_bytes; admit ensures to: \result == GR_STATUS_OK && (a->op ==
   GR_OP_UPLOAD || a->op == GR_OP_CLEAR) ==> r->image_end <= a->a && a->a + a->value <= r->carveout_bytes;
    admit ensures pages: \result == GR_STATUS_OK && (a->op == GR_OP_MAP_GPU_MEM || a->op ==
   GR_OP_UNMAP_GPU_MEM) ==> pages(r, a); admit ensures slot: \result == GR_STATUS_OK && (a->op ==
   GR_OP_COPY_TO_GPU || a->op == GR_OP_COPY_FROM_GPU) ==> a->arg < r->slot_count;
*/
enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *a);

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    assigns r->memory.base[r->image_end .. r->carveout_bytes - 1];
*/
enum gr_status gr_copy_slot(struct gr_replayer *r, uint32_t index, bool to_gpu);

/*@ assigns \nothing; */
uint32_t gr_action_address_space(const struct gr_action *action);

/*@ assigns \nothing; */
void gr_driver_set_table(struct gr_replayer *r, uint32_t space);
/*@ requires carveout(r) && pages(r, a);
    assigns r->memory.base[r->carveout_bytes .. r->low_bytes - 1], PROGRESS(r).tables; */
enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a);
/*@ requires carveout(r) && pages(r, a);
    assigns r->memory.base[r->carveout_bytes .. r->low_bytes - 1], PROGRESS(r).tables; */
enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a);

#ifdef GRAMOPHONE_LOG
// A log writes its own memory only (unit log).
/*@ assigns \nothing; */
void gr_log_part(struct gr_log *log, enum gr_log_part part);
#endif
#ifdef GRAMOPHONE_OPERATORS
// As proved of operate.c: an element lies in what it may write.
/*@ requires carveout(r) && tables(r) && \valid_read(a);
    assigns r->report, r->memory.base[r->image_end .. r->carveout_bytes - 1];
*/
enum gr_status gr_operate(struct gr_replayer *r, const struct gr_action *a);
#endif

/*@ requires ready(r) && \valid_read(a) && \separated(a, r);
    requires writable(r, a->arg);
    requires \separated(a, r->memory.base + (0 .. r->memory.bytes - 1));
    requires kept: (a->op == GR_OP_REG_READ_KEEP || a->op == GR_OP_REG_WRITE_KEPT) ==> a->b < GR_KEEP_SLOTS;
    requires upload: a->op == GR_OP_UPLOAD ==> a->b + a->value <= r->image_bytes;
    requires to: (a->op == GR_OP_UPLOAD || a->op == GR_OP_CLEAR) ==>
                r->image_end <= a->a && a->a + a->value <= r->carveout_bytes;
    requires pages: (a->op == GR_OP_MAP_GPU_MEM || a->op == GR_OP_UNMAP_GPU_MEM) ==> pages(r, a);
    requires slot: (a->op == GR_OP_COPY_TO_GPU || a->op == GR_OP_COPY_FROM_GPU) ==> a->arg < r->slot_count;
    assigns r->report, r->code, r->locked, PROGRESS(r).kept[0 .. GR_KEPT - 1], PROGRESS(r).tables,
   WRITTEN(r);
*/
enum gr_status gr_execute(struct gr_replayer *r, const struct gr_action *a);

/*@ requires ready(r) && from <= to <= r->action_count;
    assigns r->report, r->code, r->locked, r->limits, PROGRESS(r).kept[0 .. GR_KEPT - 1], PROGRESS(r).tables,
   WRITTEN(r);
*/
static enum gr_status execute_range(struct gr_replayer *r, uint32_t from, uint32_t to);

/*@ assigns PROGRESS(r).tables, r->locked; */
bool gr_driver_reset(struct gr_replayer *r);

/*@ requires ready(r);
    assigns r->touched, r->code, r->locked, PROGRESS(r).kept[0 .. GR_KEPT - 1], PROGRESS(r).tables,
   r->memory.base[r->image_end .. r->low_bytes - 1];
    ensures carveout(r);
    ensures tables(r);
*/
bool gr_prepare(struct gr_replayer *r, bool is_new);

/*@ requires ready(r);
    assigns RUN(r);
    admit ensures frame: ready(r);
*/
static enum gr_status run_prologue(struct gr_replayer *r);

/*@ requires \valid(r);
    assigns PROGRESS(r).started;
*/
void gr_restart(struct gr_replayer *r);

/*@ requires \valid(r);
    assigns PROGRESS(r).started;
*/
void gr_leave(struct gr_replayer *r, uint32_t keeper);

/*@ requires \valid(r);
    assigns r->report;
*/
static bool is_divergence(struct gr_replayer *r);

/*@ requires carveout(r) && tables(r);
    requires slot < r->slot_count;
    assigns \nothing;
*/
bool gr_lacks_data(const struct gr_replayer *r, uint32_t slot);
#include "shipped/run.c"
