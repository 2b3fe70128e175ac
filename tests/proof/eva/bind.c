/* SPDX-License-Identifier: BSD-2-Clause */
/* Of slots.c, what callers ask: gr_slot_info and gr_bind, for any slot that gr_slot_is_valid lets pass, in
 * any state of the replayer, loaded or not; with several networks, of whatever slots. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "__fc_builtin.h"
#include "gr_target.h"
#include "internal.h"
#include "string.h"

enum { COUNT = 2 };
static uint8_t slot_bytes[COUNT * GR_SLOT_BYTES], data[1];

#ifdef GRAMOPHONE_NETWORKS
/* Any network's (unit networks). */
struct gr_progress *gr_progress_of(struct gr_replayer *r, uint32_t slot)
{
    (void)slot;
    return &r->progress[Frama_C_unsigned_int_interval(0, GR_NETWORKS - 1)];
}
#endif

int main(void)
{
    struct gr_replayer r;
    struct gr_slot_info info;
    Frama_C_make_unknown((char *)&r, sizeof r);
    Frama_C_make_unknown((char *)slot_bytes, sizeof slot_bytes);
    //@ loop unroll 2;
    for (uint32_t i = 0; i < COUNT; i++)
        slot_bytes[i * GR_SLOT_BYTES + GR_SLOT_AT_RANK] = (uint8_t)Frama_C_interval(1, GR_MAX_RANK);
    r.slots = slot_bytes;
    r.slot_count = Frama_C_unsigned_int_interval(0, COUNT);
#ifdef GRAMOPHONE_NETWORKS
    r.network_count = Frama_C_unsigned_int_interval(1, GR_NETWORKS);
    //@ loop unroll GR_NETWORKS;
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        r.progress[i].started = Frama_C_nondet(0, 1);
#ifdef GRAMOPHONE_STEPS
        r.progress[i].under_way.is_begun = Frama_C_nondet(0, 1);
#endif
    }
#endif
    r.state = Frama_C_nondet(0, GR_STATE_LOADED);
    //@ loop unroll 3;
    for (uint32_t i = 0; i <= COUNT; i++) {
        if (gr_slot_info(&r, i, &info)) {
            //@ assert named: info.name[32] == 0;
        }
        gr_bind(&r, i, Frama_C_nondet_ptr(data, NULL), Frama_C_unsigned_long_long_interval(0, UINT64_MAX));
    }
    return 0;
}
#include "shipped/slots.c"
