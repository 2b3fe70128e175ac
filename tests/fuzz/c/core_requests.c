/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests of the core's callers: steps, networks and deadlines, with a model of who waits. */
#include "core.h"

enum { SLOTS = 16, MOST_BOUND = 1 << 16 };

struct asked {
    uint32_t id, network, count;
    struct gr_binding bindings[SLOTS];
    uint8_t *copies[SLOTS];
    bool is_output[SLOTS];
};
static struct asked asked[GR_REQUESTS];

static void drop(struct asked *a)
{
    for (uint32_t i = 0; i < a->count; i++) {
        free(a->bindings[i].data);
        free(a->copies[i]);
    }
    memset(a, 0, sizeof *a);
}

void forget_requests(void)
{
    for (size_t i = 0; i < GR_REQUESTS; i++)
        drop(&asked[i]);
}

static struct asked *find(uint32_t id)
{
    for (size_t i = 0; i < GR_REQUESTS; i++)
        if (asked[i].id == id)
            return &asked[i];
    return NULL;
}

static uint32_t count_waiting(void)
{
    uint32_t count = 0;
    for (size_t i = 0; i < GR_REQUESTS; i++)
        count += asked[i].id != 0;
    return count;
}

/* The queue is that of the model, no network has two replays, and data is as it must be. */
void check_requests(void)
{
    const struct gr_queue *queue = &scene.replayer->queue;
    bool begun[MAX_PARTS] = {false};
    PROMISE(gr_requests(scene.replayer) == count_waiting() && queue->length == count_waiting(),
            "as many requests wait as were accepted and are not over");
    for (uint32_t i = 0; i < queue->length; i++) {
        const struct gr_request *q = &queue->requests[i];
        const struct asked *a = q->id ? find(q->id) : NULL;
        PROMISE(a && q->network == a->network && q->bindings == a->bindings && q->count == a->count,
                "a request stays what it was");
        for (uint32_t k = 0; k < i; k++)
            PROMISE(queue->requests[k].id != q->id, "no request is in the queue twice");
        PROMISE(!q->is_begun || !begun[q->network], "no network has two replays under way");
        begun[q->network] |= q->is_begun;
    }
    for (size_t i = 0; i < GR_REQUESTS; i++)
        for (uint32_t k = 0; k < asked[i].count; k++) {
            const struct gr_binding *b = &asked[i].bindings[k];
            const bool may_change = asked[i].is_output[k] && asked[i].network == selected();
            PROMISE(may_change || !memcmp(b->data, asked[i].copies[k], b->bytes),
                    "a replay writes its own network's outputs only");
            memcpy(asked[i].copies[k], b->data, b->bytes);
        }
}

/* Bind what is the network's, each in an allocation of its own size. */
static void give(struct asked *a)
{
    const struct part *p = &scene.parts[a->network % scene.part_count];
    for (uint32_t slot = p->first_slot; slot < p->end_slot && a->count < SLOTS; slot++) {
        struct gr_slot_info info;
        if (!gr_slot_info(scene.replayer, slot, &info) || info.bytes > MOST_BOUND)
            continue;
        uint8_t *data = malloc(info.bytes), *copy = malloc(info.bytes);
        if (!data || !copy)
            abort(); /* no memory for a slot */
        memset(data, 0x50 + (int)slot, info.bytes);
        memset(copy, 0x50 + (int)slot, info.bytes);
        a->is_output[a->count] = info.kind == GR_SLOT_KIND_OUTPUT;
        a->copies[a->count] = copy;
        a->bindings[a->count++] = (struct gr_binding){data, info.bytes, slot};
    }
}

static bool is_slot_of(uint32_t network, const struct gr_binding *b)
{
    const struct part *p = &scene.parts[network];
    struct gr_slot_info info;
    return b->slot >= p->first_slot && b->slot < p->end_slot &&
           gr_slot_info(scene.replayer, b->slot, &info) && info.bytes == b->bytes;
}

/* `how`: bit 1, with data; bit 2, of another size; bit 3, for another slot. */
static void submit(const struct record *r)
{
    struct asked *a = find(0), full = {0};
    if (!a)
        a = &full;
    const bool as_it_is = r->how & 1;
    const uint32_t network =
        as_it_is ? (uint32_t)number_of(r, 0, 4) : (uint32_t)(r->data[0] % scene.part_count);
    a->network = network;
    if (r->how & 2)
        give(a);
    struct gr_binding *first = &a->bindings[0];
    if (a->count && r->how & 4)
        first->bytes ^= r->data[1];
    if (a->count && r->how & 8)
        first->slot = (uint32_t)number_of(r, 4, 4);
    const bool is_good = network < scene.part_count && (!a->count || is_slot_of(network, first));
    a->is_output[0] |= (r->how & 8) != 0; /* whose data that is now */
    uint32_t id = UINT32_MAX;
    const uint64_t due = number_of(r, 8, 8);
    const enum gr_status status = gr_submit(scene.replayer, network, due, a->bindings, a->count, &id);
    PROMISE((status == GR_STATUS_OK) == (id != 0), "what is accepted has a number");
    PROMISE(status != GR_STATUS_OK || (is_good && a != &full),
            "only what there is can be asked for, if there is room");
    PROMISE(!is_good || a == &full || status == GR_STATUS_OK || status == GR_STATUS_DEADLINE,
            "what there is can be asked for");
    PROMISE(status == GR_STATUS_OK || due != GR_NO_DEADLINE || !is_good || a == &full,
            "without a deadline nothing is late");
    if (status == GR_STATUS_OK)
        a->id = id;
    else
        drop(a);
}

static void serve(void)
{
    const uint32_t before = gr_requests(scene.replayer), id = gr_schedule_step(scene.replayer);
    struct asked *a = id ? find(id) : NULL;
    PROMISE(before || !id, "nothing is over where nothing waits");
    PROMISE(!id || (a && a->network == selected()),
            "what is over was asked for, and its network was at work");
    if (before)
        check_others();
    if (a) {
        check_report((uint32_t)scene.replayer->report.status);
        a->id = 0;
        check_requests();
        drop(a);
    }
}

static void withdraw(const struct record *r)
{
    struct asked *a = &asked[r->data[0] % GR_REQUESTS];
    const uint32_t id = r->how & 1 ? (uint32_t)number_of(r, 4, 4) : a->id;
    a = id ? find(id) : NULL;
    const enum gr_status status = gr_withdraw(scene.replayer, id);
    PROMISE((status == GR_STATUS_OK) == (a != NULL), "what waits can be taken back");
    if (a)
        drop(a);
}

void ask(const struct record *r)
{
    const uint64_t writes = scene.writes;
    scene.port_calls = 0;
    remember_others();
    switch (r->what % CALLS - OWN_CALLS) {
    case 1:
        if (!gr_step(scene.replayer))
            check_report((uint32_t)scene.replayer->report.status);
        check_others();
        break;
    case 2:
        submit(r);
        PROMISE(scene.writes == writes, "to ask for a replay writes no register");
        break;
    case 3: serve(); break;
    case 4:
        withdraw(r);
        PROMISE(scene.writes == writes, "to take a request back writes no register");
        break;
    default:
        if (gr_yield(scene.replayer))
            PROMISE(!scene.table_set, "no table is left in a GPU that is given away");
        scene.given_away |= !scene.table_set;
    }
    check_requests();
    check_tables();
}
