/* SPDX-License-Identifier: BSD-2-Clause */
/* What of a loaded trace is the selected network's, and which of them the GPU works for. */
#ifndef GRAMOPHONE_NETWORKS_H
#define GRAMOPHONE_NETWORKS_H

#ifdef GRAMOPHONE_NETWORKS

#define GR_NETWORK(r) (&(r)->networks[(r)->network])
#define GR_NUMBER(r) ((r)->network)
#define GR_COUNT(r) ((r)->network_count)
#define GR_CHOOSE(r, number) ((r)->network = (number))
#define GR_FIRST_ACTION(r) (GR_NETWORK(r)->first_action)
#define GR_REPLAY_START(r) (GR_NETWORK(r)->replay_start)
#define GR_END_ACTION(r) (GR_NETWORK(r)->end_action)
#define GR_FIRST_SLOT(r) (GR_NETWORK(r)->first_slot)
#define GR_END_SLOT(r) (GR_NETWORK(r)->end_slot)
#define GR_IS_OWN_SLOT(r, slot) ((slot)-GR_FIRST_SLOT(r) < GR_END_SLOT(r) - GR_FIRST_SLOT(r))
#define GR_RETRIES(r) (GR_NETWORK(r)->retry_limit)
#define GR_BUDGET_US(r) (GR_NETWORK(r)->time_budget_us)
#define GR_WORK_AT(r) (GR_NETWORK(r)->work_at)
#define GR_WORK_END(r) (GR_NETWORK(r)->work_end)
#define GR_DRIVER_AT(r) (GR_NETWORK(r)->driver_at)
#define GR_DRIVER_END(r) (GR_NETWORK(r)->driver_end)
#define GR_START_OF(r, number) ((r)->networks[number].replay_start)

#define GR_NETWORKS_FLAG GR_HEADER_FLAG_JOINT

/* Take the networks from their section's rows, of `bytes` bytes; without its flag, all there is as one. */
GR_INTERNAL enum gr_status gr_take_networks(const struct loader *l, const uint8_t *rows, uint64_t bytes);

/* Of the network that is checked: its ReplayStart, before which there were `starts`; its end, after which it
 * has what the driver needs behind *low_bytes. */
GR_INTERNAL enum gr_status gr_check_start(struct gr_replayer *r, uint32_t index, uint32_t starts);
GR_INTERNAL enum gr_status gr_check_end(struct gr_replayer *r, uint32_t starts, uint64_t *low_bytes);

/* What of the networks is not as the section says, or breaks its rules, read anew: zero. */
GR_INTERNAL uint64_t gr_network_differences(const struct gr_replayer *r);

/* Whether an action is the selected network's; whether it reaches these bytes of what nothing writes, of
 * which each page says whose it is; the same of the image alone; whether a mapping is of what it reaches;
 * whether memory is, or is its own. */
GR_INTERNAL bool gr_is_own_action(const struct gr_replayer *r, uint32_t index);
GR_INTERNAL bool gr_shows(const struct gr_replayer *r, uint64_t first, uint64_t end);
GR_INTERNAL bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end);
GR_INTERNAL bool gr_maps_own(const struct gr_replayer *r, const struct gr_action *a);
#ifdef GRAMOPHONE_STREAMING
#define GR_HAS_MEMORY(r, first, end)                                                                         \
    (((first) >= GR_WORK_AT(r) && (end) <= GR_WORK_END(r)) || gr_shows(r, first, end))
/* Not 0: memory is neither one network's own nor, each page of it, the same networks'. */
GR_INTERNAL uint64_t gr_strays(const struct gr_replayer *r, uint64_t first, uint64_t end);
/* 1: memory at a page, of which this is not so, is not the selected network's; by code of its own. */
GR_INTERNAL uint64_t gr_is_foreign(const struct gr_replayer *r, uint64_t page);
#endif
/* Whether each page that nothing writes is a network's, and none is that of a network that is not there. */
GR_INTERNAL bool gr_has_owners(const struct gr_replayer *r);
#define gr_may_read(r, first, end) gr_reaches(r, first, end)

/* How far the network is that a slot belongs to; each belongs to one. */
GR_INTERNAL struct gr_progress *gr_progress_of(struct gr_replayer *r, uint32_t slot);

/* Have the GPU at the selected network's disposal: with its page tables, if it has started. */
GR_INTERNAL void gr_take_over(struct gr_replayer *r);

/* Whether the selected network's prologue begins with a reset: no other network uses the GPU, or the GPU does
 * not let go of what that one has left. */
GR_INTERNAL bool gr_needs_reset(struct gr_replayer *r);

/* Clear the selected network's page tables, which do not follow its working memory. */
#define GR_WIPED_END(r) GR_WORK_END(r)
GR_INTERNAL void gr_wipe_tables(const struct gr_replayer *r);

/* Of a driver: have the GPU use the selected network's page tables, and nothing that it remembers of others'.
 * False: it is at work, or does not do so; then only a reset helps. */
GR_INTERNAL bool gr_driver_switch(struct gr_replayer *r);

#else

#define GR_NUMBER(r) 0u
#define GR_COUNT(r) 1u
#define GR_CHOOSE(r, number) ((void)(number))
#define GR_FIRST_ACTION(r) 0u
#define GR_REPLAY_START(r) ((r)->replay_start)
#define GR_END_ACTION(r) ((r)->action_count)
#define GR_FIRST_SLOT(r) 0u
#define GR_END_SLOT(r) ((r)->slot_count)
#define GR_IS_OWN_SLOT(r, slot) ((slot) < (r)->slot_count)
#define GR_RETRIES(r) ((r)->retry_limit)
#define GR_BUDGET_US(r) ((r)->time_budget_us)
#define GR_WORK_AT(r) GR_READ_ONLY_END(r)
#define GR_WORK_END(r) ((r)->carveout_bytes)
#define GR_DRIVER_AT(r) ((r)->carveout_bytes)
#define GR_DRIVER_END(r) ((r)->low_bytes)
#define GR_START_OF(r, number) ((void)(number), (r)->replay_start)

#define GR_NETWORKS_FLAG 0u
#define gr_take_networks(...) GR_STATUS_OK
#define gr_network_differences(r) UINT64_C(0)
#define gr_check_start(r, index, starts)                                                                     \
    ((r)->replay_start = (index), (starts) ? GR_STATUS_ACTION : GR_STATUS_OK)
#define gr_check_end(r, starts, low_bytes) (*(low_bytes) += gr_driver_bytes(r), GR_STATUS_OK)
#define gr_is_own_action(r, index) true
#define gr_reaches(r, first, end) ((end) <= (r)->image_end)
#define gr_may_read(r, first, end) true /* where the image's end has been asked for */
#define gr_maps_own(r, a) true
#ifdef GRAMOPHONE_STREAMING
#define GR_HAS_MEMORY(r, first, end) ((void)(r), (void)(first), (void)(end), true)
#define gr_strays(r, first, end) UINT64_C(0)
#define gr_is_foreign(r, page) UINT64_C(0)
#endif
#define gr_progress_of(r, slot) ((r)->progress)
#define gr_take_over(r) ((void)0)
#define gr_needs_reset(r) true
#define GR_WIPED_END(r) ((r)->low_bytes) /* page tables are last */
#define gr_wipe_tables(r) ((void)0)

#endif

#define GR_PROGRESS(r) (&(r)->progress[GR_NUMBER(r)])

#endif
