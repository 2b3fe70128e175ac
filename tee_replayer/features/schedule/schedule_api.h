/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests for networks, with deadlines. */
#ifndef GRAMOPHONE_SCHEDULE_API_H
#define GRAMOPHONE_SCHEDULE_API_H

#ifdef GRAMOPHONE_SCHEDULE

enum { GR_REQUESTS = GRAMOPHONE_SCHEDULE }; /* that wait at the same time */

/* Data for a slot, of as many bytes as it has. */
struct gr_binding {
    void *data;
    uint64_t bytes;
    uint32_t slot;
};

struct gr_request {
    const struct gr_binding *bindings; /* the caller's */
    uint64_t due_us, within_us;        /* by the port's clock; after it was submitted */
    uint64_t given_us;                 /* time that it may spend until it has to let others go first */
    uint64_t left_us;                  /* of that, after its latest step */
    uint32_t id, network, count;
    bool is_begun;
    bool can_interleave; /* its replay goes on where it was after another network's job */
};

struct gr_queue {
    struct gr_request requests[GR_REQUESTS]; /* in the order in which they are served */
    uint64_t takes_us[GR_NETWORKS]; /* a replay, as the trace says; where it does not, all that it may take */
    uint64_t latest_us;             /* that the clock has shown */
    uint32_t length, last_id;
};

#define GR_SCHEDULE_FIELDS struct gr_queue queue;

/* Ask for a replay of a network that is to be done at `due_us` of the port's clock; GR_NO_DEADLINE: whenever
 * there is time. The request that is due first is served first, those of one time in their order; one of a
 * network that is under way ends before the next one of that network. Where going to another network loses
 * what was done (joint traces with one working memory for all; on Malis traces that do not say that they go
 * on after a reset), a replay that has begun ends before any other begins.
 *
 * `bindings` names data of slots, which is bound when the replay begins, and unbound when it is over (for
 * parameters, that takes the prologue each time); slots that it does not name are as gr_bind left them. Array
 * and data stay where they are, and are not changed, until then. `id`: number of the request, not 0.
 *
 * ARGUMENT: no such network; a slot that is not its, or has other bytes. QUEUE: too many wait. DEADLINE: it
 * is over, or by the times that the trace predicts (where it does not: by time budgets) this request, or one
 * that was accepted before, would be late. Prologues are not predicted: the first replay takes longer, and so
 * does each after a reset. */
GR_API enum gr_status gr_submit(struct gr_replayer *r, uint32_t network, uint64_t due_us,
                                const struct gr_binding *bindings, uint32_t count, uint32_t *id);
#define GR_NO_DEADLINE UINT64_MAX

/* One step (gr_step) of the request that is first; its network is selected then. The id of the request that
 * is over by that, and the report says how; otherwise 0. A request that takes longer than predicted is due
 * later by as much as it had at first, each time. Callers do this as long as gr_requests is not 0, and may
 * submit in between; they leave gr_step, gr_run and gr_restart to it. */
GR_API uint32_t gr_schedule_step(struct gr_replayer *r);

/* How many requests wait or are under way. */
GR_API uint32_t gr_requests(const struct gr_replayer *r);

/* Take a request back, whose network begins again with its prologue if it was under way, and is selected.
 * ARGUMENT: there is none of this id. */
GR_API enum gr_status gr_withdraw(struct gr_replayer *r, uint32_t id);

#else

#define GR_SCHEDULE_FIELDS

#endif

#endif
