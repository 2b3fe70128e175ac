/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: find_register, by enumeration of all registers; the state after gr_load (load). */
#include "state.h"
#include "gr_target.h"

/* One opcode at a time, so that what it needs is a constant. The registers' table is find_register's. */
#ifndef OP
#define OP GR_OP_UPLOAD
#endif
#undef GR_REGISTER_ROWS
#define GR_REGISTER_ROWS {0, 1, 1, 0},
#undef GR_REGISTER_LIMITS
#define GR_REGISTER_LIMITS {0, 0},

/*@ axiomatic policy {
      // The profile lets a trace write the bits of `may` to a register, and the value must have those of `must`.
      predicate allowed(integer index, integer may, integer must);
    }
*/

/*@ assigns \nothing;
    ensures \result == \null || \valid_read(\result);
    admit ensures (access & GR_ACCESS_WRITE) != 0 && \result != \null ==> allowed(index, \result->bits, \result->always);
*/
static const struct gr_limits *find_register(uint32_t index, uint32_t access);

/*@ requires first + count <= UINT64_MAX;
    assigns \nothing;
    ensures \result <==> first + count <= end;
*/
static bool is_below(uint64_t first, uint64_t count, uint64_t end);

/*@ assigns \nothing;
    ensures \result < 16;
*/
uint32_t gr_action_address_space(const struct gr_action *action);

/*@ axiomatic va { logic integer va_page(integer a, integer arg); }
*/
/*@ requires \valid_read(action);
    assigns \nothing;
    ensures \result <= 17592186044415;
    admit ensures \result == va_page(action->a, action->arg);
*/
uint64_t gr_action_va_page(const struct gr_action *action);

/*@ requires carveout(r) && tables(r);
    requires index < r->action_count;
    assigns \nothing;
    admit ensures \result.op == OP;
*/
GR_INLINE struct gr_action gr_action_at(const struct gr_replayer *r, uint32_t index);

/*@ requires carveout(r) && tables(r);
    requires index < r->action_count;
    requires \valid(a) && \separated(a, r) && \separated(a, r->memory.base + (0 .. r->memory.bytes - 1));
    assigns *a, r->report.action, r->report.op, r->report.offset, r->limits;
    ensures limits: r->limits == \null || (\valid_read(r->limits) && allowed(a->arg, r->limits->bits, r->limits->always));
    ensures write: \result == GR_STATUS_OK && (a->op == GR_OP_REG_WRITE || a->op == GR_OP_REG_WRITE_KEPT) ==> r->limits != \null;
    ensures kept: \result == GR_STATUS_OK && (a->op == GR_OP_REG_READ_KEEP || a->op == GR_OP_REG_WRITE_KEPT) ==> a->b < GR_KEEP_SLOTS;
    ensures map: \result == GR_STATUS_OK && a->op == GR_OP_MAP_GPU_MEM ==> (a->b + a->value) * GR_PAGE_BYTES <= r->carveout_bytes;
    ensures upload: \result == GR_STATUS_OK && a->op == GR_OP_UPLOAD ==> a->b + a->value <= r->image_bytes;
    ensures to: \result == GR_STATUS_OK && (a->op == GR_OP_UPLOAD || a->op == GR_OP_CLEAR) ==>
                r->image_bytes <= a->a && a->a + a->value <= r->carveout_bytes;
    ensures slot: \result == GR_STATUS_OK && (a->op == GR_OP_COPY_TO_GPU || a->op == GR_OP_COPY_FROM_GPU) ==> a->arg < r->slot_count;
    ensures line: \result == GR_STATUS_OK && a->op == GR_OP_WAIT_IRQ ==> a->arg < GR_INTERRUPT_LINES;
    ensures va: \result == GR_STATUS_OK && (a->op == GR_OP_MAP_GPU_MEM || a->op == GR_OP_UNMAP_GPU_MEM) ==>
                1 <= a->value && (va_page(a->a, a->arg) + a->value) * GR_PAGE_BYTES <= r->va_bytes;
*/
enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *a);
#include "shipped/check.c"
