/* SPDX-License-Identifier: BSD-2-Clause */
/* Networks of a joint trace; a trace that is not joint is the only network that it has. */
#ifndef GRAMOPHONE_NETWORKS_API_H
#define GRAMOPHONE_NETWORKS_API_H

#ifdef GRAMOPHONE_NETWORKS

enum { GR_NETWORKS = GRAMOPHONE_NETWORKS }; /* that a trace may have here */

/* What is a network's: of a trace of one network, all there is. Offsets in the carve-out. */
struct gr_own {
    uint32_t first_action, replay_start, end_action; /* the actions before replay_start are the prologue */
    uint32_t first_slot, end_slot, retry_limit;
    uint64_t time_budget_us;
    uint64_t work_at, work_end;     /* working memory */
    uint64_t driver_at, driver_end; /* page tables, scratch page */
};

#define GR_NETWORKS_FIELDS                                                                                   \
    const uint8_t *rows; /* of the networks, as in the trace's file; NULL: it has one, and no section */     \
    uint32_t network_count, network; /* the latter: that is checked, or was selected */                      \
    uint32_t running;                /* whose page tables the GPU uses, once one has started */              \
    bool is_exclusive;               /* all have the same working memory */                                  \
    struct gr_own networks[GR_NETWORKS];

/* A network, for callers that choose one. */
struct gr_network_info {
    char name[33];
    uint32_t first_slot, slot_count;
    uint32_t predicted_us, longest_job_us, period_us, priority; /* as the trace says; 0: not known */
};

/* The one that was selected is what gr_run replays and gr_restart forgets; after gr_load it is the first.
 * Each has its own memory and page tables, its own prologue, retries and time. A reset after a divergence
 * makes all of them start again, but for those that go on (gr_yield). ARGUMENT: there are not so many. */
GR_API uint32_t gr_network_count(const struct gr_replayer *r);
GR_API bool gr_network_info(const struct gr_replayer *r, uint32_t network, struct gr_network_info *info);
GR_API enum gr_status gr_select(struct gr_replayer *r, uint32_t network);

#else

enum { GR_NETWORKS = 1 };
#define GR_NETWORKS_FIELDS

#endif

#endif
