/* SPDX-License-Identifier: BSD-2-Clause */
/* gr_fetch_action for any action and any manifest; what it leaves for the interpreter, where it says
 * GR_STATUS_OK. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "__fc_builtin.h"
#include "gr_target.h"
#include "internal.h"

static uint8_t actions[GR_ACTION_BYTES];

/* What features say of an action (units networks, reach, operate). */
#ifdef GRAMOPHONE_NETWORKS
/*@ assigns \result \from index; ensures 0 <= \result <= 1; */
bool gr_is_own_action(const struct gr_replayer *r, uint32_t index);
/*@ assigns \result \from first, end; ensures 0 <= \result <= 1; */
bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end);
/*@ requires \valid_read(a) && \initialized(a);
    assigns \result \from *a; ensures 0 <= \result <= 1; */
bool gr_maps_own(const struct gr_replayer *r, const struct gr_action *a);
#endif
#ifdef GRAMOPHONE_OPERATORS
/*@ requires \valid_read(a) && \initialized(a); assigns \result \from *a; */
enum gr_status gr_check_operator(const struct gr_replayer *r, const struct gr_action *a, uint32_t index);
#endif

static void check(struct gr_replayer *r, uint32_t op)
{
    struct gr_action a;
    Frama_C_make_unknown((char *)actions, sizeof actions);
    actions[GR_ACTION_AT_OP] = (uint8_t)op;
    if (gr_fetch_action(r, 0, &a) != GR_STATUS_OK)
        return;
    //@ assert write: op == GR_OP_REG_WRITE || op == GR_OP_REG_WRITE_KEPT ==> r->limits != \null;
    //@ assert kept: op == GR_OP_REG_READ_KEEP || op == GR_OP_REG_WRITE_KEPT ==> a.b < GR_KEEP_SLOTS;
    //@ assert slot: op == GR_OP_COPY_TO_GPU || op == GR_OP_COPY_FROM_GPU ==> a.arg < GR_MAX_SLOTS;
    //@ assert line: op == GR_OP_WAIT_IRQ ==> a.arg < GR_INTERRUPT_LINES;
}

/* What is a network's, of one whose slots are the first or behind others. */
static void choose(struct gr_replayer *r, uint32_t first_slot)
{
#ifdef GRAMOPHONE_NETWORKS
    r->network_count = GR_NETWORKS;
    r->network = GR_NETWORKS - 1;
    struct gr_own *own = &r->networks[GR_NETWORKS - 1];
    Frama_C_make_unknown((char *)own, sizeof *own);
    own->first_slot = first_slot;
    own->end_slot = Frama_C_unsigned_int_interval(first_slot, GR_MAX_SLOTS);
#else
    (void)first_slot;
    (void)r;
#endif
}

int main(void)
{
    struct gr_replayer r = {0};
    r.actions = actions;
    r.action_count = 1;
    r.slot_count = Frama_C_unsigned_int_interval(0, GR_MAX_SLOTS);
    r.image_bytes = Frama_C_unsigned_long_long_interval(0, GR_MAX_CARVEOUT_BYTES);
    r.image_end = Frama_C_unsigned_long_long_interval(0, GR_MAX_CARVEOUT_BYTES);
#ifdef GRAMOPHONE_STREAMING
    r.read_only_end = Frama_C_unsigned_long_long_interval(0, GR_MAX_CARVEOUT_BYTES);
#endif
    r.carveout_bytes = Frama_C_unsigned_long_long_interval(GR_PAGE_BYTES, GR_MAX_CARVEOUT_BYTES);
    r.va_bytes = Frama_C_unsigned_long_long_interval(GR_PAGE_BYTES, (uint64_t)1 << GR_VA_BITS);
    //@ loop unroll 256;
    for (uint32_t op = 0; op < 256; op++) {
        choose(&r, 0);
        check(&r, op);
        choose(&r, 3);
        check(&r, op);
    }
    return 0;
}
#include "shipped/check.c"
