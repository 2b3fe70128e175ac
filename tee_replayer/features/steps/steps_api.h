/* SPDX-License-Identifier: BSD-2-Clause */
/* Replays that stop between jobs, and go on later. */
#ifndef GRAMOPHONE_STEPS_API_H
#define GRAMOPHONE_STEPS_API_H

#ifdef GRAMOPHONE_STEPS

/* A replay that is under way, of gr_step. */
struct gr_under_way {
    uint64_t spent_us; /* of the time budget: in this code, not between steps */
    uint64_t actions;  /* done so far, in all attempts */
    uint32_t next;     /* action that the next step begins with; 0: no step has ended */
    uint32_t retries, jobs;
    bool is_begun;
    bool can_repeat; /* what has been done since the checkpoint, for all that the trace says */
};

#define GR_STEPS_FIELDS                                                                                      \
    struct gr_under_way under_way;                                                                           \
    bool is_away; /* memory is as the latest step has left it, registers are not */

/* Replay as far as the next job that can wait: no job runs then, and memory is kept. True: there is more to
 * do, so call it again; false: it is over, and the report says how. Other networks of a joint trace may have
 * steps in between; whoever lets others drive the GPU calls gr_yield before.
 * Until it is over, gr_bind refuses (STATE) what is the network's: inputs may have been copied, outputs not
 * yet. After gr_restart it takes it, and the replay begins again; gr_run gives up the one that is under way.
 * Time between steps does not count against the time budget. */
GR_API bool gr_step(struct gr_replayer *r);

/* Before others drive the GPU: what runs stops, and no page table of the replayer's is in use. With the next
 * step comes a reset, and a replay goes on where it was if its trace says that it can (ReplayStart's flag);
 * if not, the network begins again. No register is written until then. False: the reset does not complete, so
 * the GPU cannot be given away. */
GR_API bool gr_yield(struct gr_replayer *r);

#else

#define GR_STEPS_FIELDS

#endif

#endif
