/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests with deadlines, from the mailbox: main.c includes this file where the replayer has a queue.
 *
 * The mailbox's buffers are read once, in their order. One that begins a request is followed by the data of
 * its slots; the first one does, whatever its slot. Each is submitted when all before it have been, and a
 * piece of what waits is replayed in between, as if requests came while others are served; when the queue is
 * full, until it is not. */

/* Tells the host that it is so. No section of the program: it is not loaded. */
__asm__(".pushsection .gramophone.queue, \"\"\n.byte 1\n.popsection");

/* A buffer that begins a request has its network after MAILBOX_REQUEST, when it is due, and room for the
 * answer. The slots' data behind it is the replayer's until the request has ended. */
struct server {
    uint32_t count, ended; /* buffers; requests that have ended */
    struct gr_binding buffers[MAILBOX_BUFFERS];
};

static bool is_request(const struct gr_binding *buffer)
{
    return buffer->slot >= MAILBOX_REQUEST;
}

/* Read all buffers; whether they may be used. */
static bool read_buffers(struct server *s)
{
    for (uint32_t i = 0; i < s->count; i++) {
        struct mailbox_buffer b;
        read_buffer(&b, i);
        struct gr_binding *to = &s->buffers[i];
        *to = (struct gr_binding){shared(b.offset), b.bytes, b.slot};
        if (b.step || !is_shared(b.offset, !i || is_request(to) ? sizeof(struct mailbox_answer) : b.bytes))
            return false;
    }
    return true;
}

/* An order of 0: it is not served, or not yet. */
static void answer(const struct gr_binding *request, enum gr_status status, uint32_t order)
{
    const struct mailbox_answer found = {.status = (uint32_t)status, .order = order};
    memcpy(request->data, &found, sizeof found);
}

/* Replay a piece of the first request; its data lies behind its beginning. */
static void step(struct gr_replayer *replayer, struct server *s)
{
    const struct gr_binding *data = replayer->queue.requests[0].bindings;
    if (gr_schedule_step(replayer))
        answer(data - 1, replayer->report.status, ++s->ended);
}

/* Submit the request that begins at a buffer, with what follows it; the index of the next one. */
static uint32_t submit(struct gr_replayer *replayer, struct server *s, uint32_t at)
{
    const struct gr_binding *request = &s->buffers[at++];
    const uint32_t first = at;
    while (at < s->count && !is_request(&s->buffers[at]))
        at++;
    while (gr_requests(replayer) == GR_REQUESTS)
        step(replayer, s);
    const uint64_t now = gr_port_now_us(), within = request->bytes;
    uint32_t id;
    const enum gr_status status = gr_submit(replayer, request->slot - MAILBOX_REQUEST,
                                            within < GR_NO_DEADLINE - now ? now + within : GR_NO_DEADLINE,
                                            request + 1, at - first, &id);
    replayer->report.status = status;
    answer(request, status, 0);
    return at;
}

/* All requests, as often as is asked; how many have ended. The report is that of the last one. */
static uint32_t replay(struct gr_replayer *replayer, const struct mailbox_request *request)
{
    struct server s = {.count = request->buffer_count};
    if (!read_buffers(&s)) {
        replayer->report.status = GR_STATUS_REQUEST;
        return 0;
    }
    for (uint32_t round = 0; round < request->repeat; round++) {
        for (uint32_t at = 0; at < s.count; step(replayer, &s))
            at = submit(replayer, &s, at);
    }
    while (gr_requests(replayer))
        step(replayer, &s);
    return s.ended;
}
