/* SPDX-License-Identifier: BSD-2-Clause */
/* Of schedule.c, all of it: any queue whose requests that wait are of networks and slots that there are,
 * behind which lies anything; any times, a clock that goes as it likes, bindings of any slots, data and
 * sizes, and a step that ends as it likes. Each call leaves such a queue. */
#include "__fc_builtin.h"
#include "driver.h"
#include "gr_target.h"

enum { SLOTS = 3 };
static struct gr_binding held[SLOTS], asked[SLOTS];
static uint8_t data[1];

/*@ assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_driver_can_switch(void);
/*@ requires network: network < GR_NETWORKS; assigns \result \from network; ensures 0 <= \result <= 1; */
bool gr_resumes(const struct gr_replayer *r, uint32_t network);

uint64_t gr_port_now_us(void)
{
    return Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
}

uint64_t gr_slot_bytes(const struct gr_replayer *r, uint32_t slot)
{
    //@ assert slot: slot < r->slot_count;
    return Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
}

/* What slots.c and steps.c do (units bind and steps), as far as it is seen here. */
enum gr_status gr_bind(struct gr_replayer *r, uint32_t slot, void *to, uint64_t bytes)
{
    //@ assert slot: slot < r->slot_count;
    //@ assert whole: to == \null ==> bytes == 0;
    r->progress[Frama_C_unsigned_int_interval(0, GR_NETWORKS - 1)].started = Frama_C_interval(0, 1);
    return Frama_C_nondet(GR_STATUS_OK, Frama_C_nondet(GR_STATUS_STATE, GR_STATUS_ARGUMENT));
}

static void go_on(struct gr_replayer *r)
{
    //@ loop unroll GR_NETWORKS;
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        r->progress[i].started = Frama_C_interval(0, 1);
        r->progress[i].under_way.is_begun = Frama_C_interval(0, 1);
        r->progress[i].under_way.spent_us = Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
    }
}

bool gr_step(struct gr_replayer *r)
{
    //@ assert selected: r->network < GR_NETWORKS;
    go_on(r);
    r->report.status = Frama_C_nondet(GR_STATUS_OK, Frama_C_nondet(GR_STATUS_STATE, GR_STATUS_FAULT));
    return Frama_C_interval(0, 1);
}

void gr_abandon(struct gr_replayer *r)
{
    //@ assert selected: r->network < GR_NETWORKS;
    r->progress[r->network].under_way.is_begun = false;
    r->progress[r->network].started = Frama_C_interval(0, 1);
}

static void forget(struct gr_replayer *r, uint32_t length)
{
    Frama_C_make_unknown((char *)r, sizeof *r);
    Frama_C_make_unknown((char *)held, sizeof held);
    Frama_C_make_unknown((char *)asked, sizeof asked);
    //@ loop unroll SLOTS;
    for (uint32_t i = 0; i < SLOTS; i++) {
        held[i].slot = Frama_C_unsigned_int_interval(0, SLOTS - 1);
        held[i].data = data;
        asked[i].data = Frama_C_nondet_ptr(data, NULL);
    }
    r->state = Frama_C_nondet(0, GR_STATE_LOADED);
    r->is_exclusive = Frama_C_interval(0, 1);
    r->slot_count = SLOTS;
    r->network_count = GR_NETWORKS;
    r->network = Frama_C_unsigned_int_interval(0, GR_NETWORKS - 1);
    //@ loop unroll GR_NETWORKS;
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        r->networks[i].first_slot = Frama_C_unsigned_int_interval(0, SLOTS);
        r->networks[i].end_slot = Frama_C_unsigned_int_interval(0, SLOTS);
    }
    go_on(r);
    r->queue.length = length;
    //@ loop unroll GR_REQUESTS;
    for (uint32_t i = 0; i < length; i++) {
        struct gr_request *q = &r->queue.requests[i];
        q->bindings = held;
        q->network = Frama_C_unsigned_int_interval(0, GR_NETWORKS - 1);
        q->count = Frama_C_unsigned_int_interval(0, SLOTS);
        q->is_begun = Frama_C_interval(0, 1);
        q->can_interleave = Frama_C_interval(0, 1);
    }
}

/* What every call relies on. */
static void check(const struct gr_replayer *r, uint32_t length)
{
    //@ assert length: r->queue.length == length <= GR_REQUESTS;
    //@ assert network: r->network < GR_NETWORKS;
    //@ loop unroll GR_REQUESTS;
    for (uint32_t i = 0; i < length; i++) {
        const struct gr_request *q = &r->queue.requests[i];
        //@ assert networks: q->network < GR_NETWORKS;
        //@ assert bindings: q->count <= SLOTS && \valid_read(q->bindings + (0 .. SLOTS - 1));
        //@ assert flags: 0 <= q->is_begun <= 1 && 0 <= q->can_interleave <= 1;
    }
}

static void submit(struct gr_replayer *r, uint32_t length)
{
    uint32_t id;
    forget(r, length);
    if (gr_submit(r, Frama_C_unsigned_int_interval(0, UINT32_MAX),
                  Frama_C_unsigned_long_long_interval(0, UINT64_MAX), asked,
                  Frama_C_unsigned_int_interval(0, UINT32_MAX), &id) == GR_STATUS_OK) {
        //@ assert room: length < GR_REQUESTS;
        //@ assert counted: r->queue.length == length + 1;
        check(r, length + 1);
    } else {
        //@ assert none: id == 0;
        check(r, length);
    }
}

static void serve(struct gr_replayer *r, uint32_t length)
{
    forget(r, length);
    const uint32_t waiting = gr_requests(r);
    //@ assert requests: waiting == 0 || waiting == length;
    gr_schedule_step(r);
    if (r->queue.length == length) {
        check(r, length);
    } else {
        //@ assert one: r->queue.length == length - 1;
        check(r, length - 1);
    }
    forget(r, length);
    if (gr_withdraw(r, Frama_C_unsigned_int_interval(0, UINT32_MAX)) == GR_STATUS_OK) {
        //@ assert taken: length > 0 && r->queue.length == length - 1;
        check(r, length - 1);
    } else {
        check(r, length);
    }
}

int main(void)
{
    struct gr_replayer r;
    //@ loop unroll GR_REQUESTS + 1;
    for (uint32_t length = 0; length <= GR_REQUESTS; length++) {
        submit(&r, length);
        serve(&r, length);
    }
    return 0;
}
#include "shipped/schedule.c"
