/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for networks with deadlines. The queue lies in the order in which requests are served, so what is
 * promised to one when it comes is a sum over those before it. */
#include "driver.h"
#include "internal.h"

/* Have the request at one place of the queue at another, and those between move up. */
GR_NOINLINE static void move(struct gr_queue *queue, uint32_t from, uint32_t to)
{
    const struct gr_request q = queue->requests[from];
    const uint32_t step = from < to ? 1 : UINT32_MAX;
    for (; from != to; from += step)
        queue->requests[from] = queue->requests[from + step];
    queue->requests[to] = q;
}

/* Where a request is served that is not begun: after those due when it is or before, and after one that is
 * begun and would lose what it has done. */
static uint32_t place(const struct gr_queue *queue, const struct gr_request *new)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < queue->length; i++) {
        const struct gr_request *q = &queue->requests[i];
        if (q->due_us <= new->due_us || (q->is_begun && (q->network == new->network || !q->can_interleave)))
            at = i + 1;
    }
    return at;
}

/* Whether a request that is served at a place is done when it is due, and each after it that would be in time
 * without it. */
static bool is_in_time(const struct gr_queue *queue, const struct gr_request *new, uint32_t at)
{
    const uint64_t now = queue->latest_us;
    uint64_t sum = 0; /* of at most 64 times below 2^40 each */
    for (uint32_t i = 0; i < queue->length + 1; i++) {
        const struct gr_request *q = i == at ? new : &queue->requests[i - (i > at)];
        const uint64_t room = q->due_us > now ? q->due_us - now : 0;
        sum += q->left_us;
        if (sum > room && (i == at || (i > at && sum - new->given_us <= room)))
            return false;
    }
    return true;
}

/* A request that has begun is over: the caller may do what it likes with its memory. */
static void unbind(struct gr_replayer *r, const struct gr_request *q)
{
    for (uint32_t i = 0; i < q->count; i++)
        gr_bind(r, q->bindings[i].slot, NULL, 0);
}

static void take_out(struct gr_queue *queue, uint32_t at)
{
    move(queue, at, --queue->length);
}

/* The first request has used up what it was given: it pays with its place, and gets as much again. Others of
 * its network wait for it, since there is one working memory. */
static void put_back(struct gr_queue *queue, struct gr_request *q)
{
    q->left_us = queue->takes_us[q->network];
    q->given_us += q->left_us;
    const uint64_t due = q->due_us + q->within_us;
    q->due_us = due < q->due_us ? UINT64_MAX : due;
    uint32_t to = 0;
    while (to + 1 < queue->length && queue->requests[to + 1].due_us <= q->due_us &&
           queue->requests[to + 1].network != q->network)
        to++;
    move(queue, 0, to);
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
    const struct gr_own *own = &r->networks[network];
    for (uint32_t i = 0; i < count; i++) {
        const struct gr_binding *b = &bindings[i];
        if (b->slot < own->first_slot || b->slot >= own->end_slot || !b->data ||
            b->bytes != gr_slot_bytes(r, b->slot))
            return GR_STATUS_ARGUMENT;
    }
    if (queue->length >= GR_REQUESTS)
        return GR_STATUS_QUEUE;
    /* A clock that goes back stands still until it is where it was: nobody gets more time by it. */
    const uint64_t now = gr_port_now_us();
    if (now > queue->latest_us)
        queue->latest_us = now;
    const bool goes_on = gr_driver_can_switch() || gr_resumes(r, network);
    const struct gr_request q = {.bindings = bindings,
                                 .due_us = due_us,
                                 .within_us = due_us - queue->latest_us,
                                 .given_us = queue->takes_us[network],
                                 .left_us = queue->takes_us[network],
                                 .id = queue->last_id + 1,
                                 .network = network,
                                 .count = count,
                                 .can_interleave = goes_on && !r->is_exclusive};
    const uint32_t at = place(queue, &q);
    if (!is_in_time(queue, &q, at))
        return GR_STATUS_DEADLINE;
    queue->requests[queue->length] = q;
    move(queue, queue->length++, at);
    *id = q.id;
    queue->last_id = q.id == UINT32_MAX ? 0 : q.id; /* 0 is no request's */
    return GR_STATUS_OK;
}

uint32_t gr_schedule_step(struct gr_replayer *r)
{
    struct gr_request *q = &r->queue.requests[0];
    if (!gr_requests(r))
        return 0;
    const uint32_t id = q->id;
    r->network = q->network;
    r->report.status = GR_STATUS_OK;
    if (!q->is_begun)
        gr_abandon(r);
    if (!r->progress[q->network].under_way.is_begun) {
        q->is_begun = true;
        for (uint32_t i = 0; i < q->count && r->report.status == GR_STATUS_OK; i++)
            r->report.status = gr_bind(r, q->bindings[i].slot, q->bindings[i].data, q->bindings[i].bytes);
    }
    if (r->report.status == GR_STATUS_OK && gr_step(r)) {
        const uint64_t spent = r->progress[q->network].under_way.spent_us;
        q->left_us = spent < q->given_us ? q->given_us - spent : 0;
        if (!q->left_us && q->can_interleave)
            put_back(&r->queue, q);
        return 0;
    }
    unbind(r, q);
    take_out(&r->queue, 0);
    return id;
}

uint32_t gr_requests(const struct gr_replayer *r)
{
    return r->queue.length; /* 0 where no trace is loaded: gr_unload clears it */
}

enum gr_status gr_withdraw(struct gr_replayer *r, uint32_t id)
{
    for (uint32_t i = 0; i < gr_requests(r); i++) {
        const struct gr_request *q = &r->queue.requests[i];
        if (q->id == id) {
            r->network = q->network;
            if (q->is_begun) {
                gr_abandon(r);
                unbind(r, q);
            }
            take_out(&r->queue, i);
            return GR_STATUS_OK;
        }
    }
    return GR_STATUS_ARGUMENT;
}
