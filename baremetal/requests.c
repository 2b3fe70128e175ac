/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests with deadlines, from the mailbox: main.c includes this file where the replayer has a queue.
 *
 * The mailbox's buffers are read in their order. One that begins a request is followed by the data of its
 * slots. Each is submitted when all before it have been, and a piece of what waits is replayed in between, as
 * if requests came while others are served; when the queue is full, until it is not. */

struct asked {
    struct gr_binding data[MAILBOX_REQUEST_SLOTS];
    uint64_t answer_at;
    uint32_t id; /* 0: the place is free */
};

struct server {
    struct gr_replayer *replayer;
    uint32_t count, ended; /* buffers; requests that have ended */
    struct asked asked[GR_REQUESTS];
};

static struct mailbox_buffer buffer_at(uint32_t index)
{
    struct mailbox_buffer b;
    memcpy(&b, shared(sizeof(struct mailbox_request) + index * sizeof b), sizeof b);
    return b;
}

static void answer(const struct asked *a, enum gr_status status, uint32_t order)
{
    const struct mailbox_answer found = {.status = (uint32_t)status, .order = order};
    memcpy(shared(a->answer_at), &found, sizeof found);
}

/* Replay a piece. */
static void step(struct server *s)
{
    const uint32_t id = gr_schedule_step(s->replayer);
    for (uint32_t i = 0; id && i < GR_REQUESTS; i++) {
        if (s->asked[i].id == id) {
            s->asked[i].id = 0;
            answer(&s->asked[i], s->replayer->report.status, ++s->ended);
        }
    }
}

/* Read the request that begins at a buffer, and submit it; the index after its last buffer, or 0: it is
 * malformed. */
static uint32_t submit(struct server *s, uint32_t at)
{
    const struct mailbox_buffer head = buffer_at(at);
    if (head.slot != MAILBOX_REQUEST || !is_shared(head.offset, sizeof(struct mailbox_answer)))
        return 0;
    while (gr_requests(s->replayer) == GR_REQUESTS)
        step(s);
    struct asked *a = s->asked;
    while (a->id && a < &s->asked[GR_REQUESTS - 1]) /* one is free, as the queue has room */
        a++;
    a->answer_at = head.offset;
    uint32_t bound = 0;
    for (at++; at < s->count; at++) {
        const struct mailbox_buffer b = buffer_at(at);
        if (b.slot == MAILBOX_REQUEST)
            break;
        if (bound == MAILBOX_REQUEST_SLOTS || b.step || !is_shared(b.offset, b.bytes))
            return 0;
        a->data[bound++] = (struct gr_binding){shared(b.offset), b.bytes, b.slot};
    }
    const uint64_t now = gr_port_now_us(),
                   due = head.bytes < GR_NO_DEADLINE - now ? now + head.bytes : GR_NO_DEADLINE;
    const enum gr_status status = gr_submit(s->replayer, head.step, due, a->data, bound, &a->id);
    if (status != GR_STATUS_OK)
        answer(a, status, 0);
    return at;
}

/* All requests, as often as is asked; how many have ended. The report is that of the last one. */
static uint32_t serve_requests(struct gr_replayer *replayer, const struct mailbox_request *request)
{
    struct server s = {.replayer = replayer, .count = request->buffer_count};
    for (uint32_t round = 0; round < request->repeat; round++) {
        uint32_t at = 0;
        while (at < s.count) {
            at = submit(&s, at);
            if (!at) {
                replayer->report.status = GR_STATUS_REQUEST;
                return s.ended;
            }
            step(&s);
        }
    }
    while (gr_requests(replayer))
        step(&s);
    return s.ended;
}
