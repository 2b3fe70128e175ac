/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for networks with deadlines. The queue lies in the order in which requests are served, so what is
 * promised to one when it comes is a sum over those before it. */
#include "driver.h"
#include "internal.h"

#ifdef GRAMOPHONE_SCHEDULE

/* A clock that goes back stands still until it is where it was: nobody gets more time by it. */
static uint64_t now_us(struct gr_replayer *r)
{
    const uint64_t now = gr_port_now_us();
    if (now > r->queue.latest_us)
        r->queue.latest_us = now;
    return r->queue.latest_us;
}

/* What a replay takes, as the trace says; where it does not, all that it may take. */
static uint64_t predicted_us(const struct gr_replayer *r, uint32_t network)
{
    struct gr_network_info info;
    const bool is_known = gr_network_info(r, network, &info) && info.predicted_us;
    return is_known ? info.predicted_us : r->networks[network].time_budget_us;
}

static struct gr_under_way *under_way(struct gr_replayer *r, const struct gr_request *q)
{
    return &r->progress[q->network].under_way;
}

/* Of the time that a request has been given. */
static uint64_t left_us(struct gr_replayer *r, const struct gr_request *q)
{
    const uint64_t spent = q->is_begun ? under_way(r, q)->spent_us : 0;
    return spent < q->given_us ? q->given_us - spent : 0;
}

/* Whether a replay goes on where it was after another network's job. */
static bool can_interleave(const struct gr_replayer *r)
{
    return !r->is_exclusive && gr_driver_can_switch();
}

/* Where a request is served that is not begun: after those due when it is or before, and after one that is
 * begun and would lose what it has done. */
static uint32_t place(const struct gr_replayer *r, uint32_t network, uint64_t due_us)
{
    const struct gr_queue *queue = &r->queue;
    uint32_t at = 0;
    while (at < queue->length && queue->requests[at].due_us <= due_us)
        at++;
    for (uint32_t i = at; i < queue->length; i++) {
        const struct gr_request *q = &queue->requests[i];
        if (q->is_begun && (q->network == network || !can_interleave(r)))
            at = i + 1;
    }
    return at;
}

/* Whether it can be kept, with all that are served before, that a request which is served at a place and
 * takes so long is done when it is due, and each after it that would be done in time without it is. */
static bool fits(struct gr_replayer *r, uint32_t at, uint64_t due_us, uint64_t takes_us)
{
    const uint64_t now = now_us(r);
    if (due_us <= now)
        return false;
    uint64_t sum = 0; /* of no more than GR_REQUESTS times that are below 2^40 each */
    for (uint32_t i = 0; i < at; i++)
        sum += left_us(r, &r->queue.requests[i]);
    if (sum + takes_us > due_us - now)
        return false;
    for (uint32_t i = at; i < r->queue.length; i++) {
        const struct gr_request *q = &r->queue.requests[i];
        const uint64_t room = q->due_us > now ? q->due_us - now : 0;
        sum += left_us(r, q);
        if (sum <= room && sum + takes_us > room)
            return false;
    }
    return true;
}

static bool is_bindable(const struct gr_replayer *r, uint32_t network, const struct gr_binding *b)
{
    struct gr_slot_info info;
    const struct gr_own *own = &r->networks[network];
    return b->slot >= own->first_slot && b->slot < own->end_slot && gr_slot_info(r, b->slot, &info) &&
           info.kind != GR_SLOT_KIND_PARAMETER && b->data && b->bytes == info.bytes;
}

static enum gr_status give_data(struct gr_replayer *r, const struct gr_request *q)
{
    for (uint32_t i = 0; i < q->count; i++) {
        if (!is_bindable(r, q->network, &q->bindings[i]))
            return GR_STATUS_ARGUMENT;
        const struct gr_binding *b = &q->bindings[i];
        const enum gr_status status = gr_bind(r, b->slot, b->data, b->bytes);
        if (status != GR_STATUS_OK)
            return status;
    }
    return GR_STATUS_OK;
}

/* A request is over: the caller may do what it likes with its memory. */
static void take_out(struct gr_replayer *r, uint32_t at)
{
    struct gr_queue *queue = &r->queue;
    const struct gr_request *q = &queue->requests[at];
    for (uint32_t i = 0; q->is_begun && i < q->count; i++)
        gr_bind(r, q->bindings[i].slot, NULL, 0);
    queue->length--;
    for (; at < queue->length; at++)
        queue->requests[at] = queue->requests[at + 1];
}

/* The first request has used up what it was given: it pays with its place, and gets as much again. Others of
 * its network wait for it, since there is one working memory. */
static void put_back(struct gr_replayer *r)
{
    struct gr_queue *queue = &r->queue;
    struct gr_request q = queue->requests[0];
    q.given_us = under_way(r, &q)->spent_us + predicted_us(r, q.network);
    q.due_us = q.within_us < UINT64_MAX - q.due_us ? q.due_us + q.within_us : UINT64_MAX;
    uint32_t at = 1;
    for (; at < queue->length; at++) {
        const struct gr_request *next = &queue->requests[at];
        if (next->due_us > q.due_us || next->network == q.network)
            break;
        queue->requests[at - 1] = *next;
    }
    queue->requests[at - 1] = q;
}

enum gr_status gr_submit(struct gr_replayer *r, uint32_t network, uint64_t due_us,
                         const struct gr_binding *bindings, uint32_t count, uint32_t *id)
{
    struct gr_queue *queue = &r->queue;
    *id = 0;
    if (r->state != GR_STATE_LOADED)
        return GR_STATUS_STATE;
    if (network >= r->network_count || count > r->slot_count)
        return GR_STATUS_ARGUMENT;
    for (uint32_t i = 0; i < count; i++) {
        if (!is_bindable(r, network, &bindings[i]))
            return GR_STATUS_ARGUMENT;
    }
    if (queue->length >= GR_REQUESTS)
        return GR_STATUS_QUEUE;
    const uint64_t takes = predicted_us(r, network);
    const uint32_t at = place(r, network, due_us);
    if (!fits(r, at, due_us, takes))
        return GR_STATUS_DEADLINE;
    for (uint32_t i = queue->length; i > at; i--)
        queue->requests[i] = queue->requests[i - 1];
    queue->length++;
    queue->last_id += queue->last_id == UINT32_MAX ? 2 : 1; /* never 0 */
    *id = queue->last_id;
    queue->requests[at] = (struct gr_request){.bindings = bindings,
                                              .due_us = due_us,
                                              .within_us = due_us - queue->latest_us,
                                              .given_us = takes,
                                              .id = *id,
                                              .network = network,
                                              .count = count};
    return GR_STATUS_OK;
}

uint32_t gr_schedule_step(struct gr_replayer *r)
{
    struct gr_request *q = &r->queue.requests[0];
    if (!gr_requests(r))
        return 0;
    const uint32_t id = q->id;
    r->report.status = gr_select(r, q->network);
    if (!q->is_begun && under_way(r, q)->is_begun)
        gr_restart(r); /* the caller's own replay is given up, as by gr_run */
    if (!under_way(r, q)->is_begun) {
        q->is_begun = true;
        r->report.status = give_data(r, q);
    }
    if (r->report.status == GR_STATUS_OK && gr_step(r)) {
        if (!left_us(r, q) && can_interleave(r))
            put_back(r);
        return 0;
    }
    take_out(r, 0);
    return id;
}

uint32_t gr_requests(const struct gr_replayer *r)
{
    return r->state == GR_STATE_LOADED ? r->queue.length : 0;
}

enum gr_status gr_withdraw(struct gr_replayer *r, uint32_t id)
{
    for (uint32_t i = 0; i < gr_requests(r); i++) {
        const struct gr_request *q = &r->queue.requests[i];
        if (q->id != id)
            continue;
        if (q->is_begun) {
            r->network = q->network;
            gr_restart(r);
        }
        take_out(r, i);
        return GR_STATUS_OK;
    }
    return GR_STATUS_ARGUMENT;
}

#endif
