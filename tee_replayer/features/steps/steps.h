/* SPDX-License-Identifier: BSD-2-Clause */
/* Where a replay stops between jobs, and what it needs to go on. */
#ifndef GRAMOPHONE_STEPS_H
#define GRAMOPHONE_STEPS_H

#ifdef GRAMOPHONE_STEPS

/* Whether a network goes on after a reset: its trace says that its registers are set again by its prologue's
 * accesses alone. */
GR_INTERNAL bool gr_resumes(const struct gr_replayer *r, uint32_t network);

/* Give up the selected network's replay if one is under way, with what it has left in memory. */
GR_INTERNAL void gr_abandon(struct gr_replayer *r);

/* A network's registers are lost, its memory is not: whether it goes on. If not, and unless it `keeps` the
 * time and the retries that it has used, its replay is over. */
GR_INTERNAL bool gr_goes_away(struct gr_replayer *r, uint32_t network, bool keeps);
#define GR_IS_AWAY(progress) ((progress)->is_away)
#define GR_FORGET(progress) ((void)((progress)->under_way.is_begun = false))
#define GR_IS_BEGUN(progress) ((progress)->under_way.is_begun)

/* Of the selected network's attempt. What is copied is told to a log once, so it is not repeated; a job may
 * be, if the trace says so; whether a step ends before an action; the prologue begins, and has ended. */
#define GR_IS_COPIED(r) ((void)(GR_PROGRESS(r)->under_way.can_repeat = false))
GR_INTERNAL void gr_job_begins(struct gr_replayer *r, const struct gr_action *a);
GR_INTERNAL bool gr_step_ends(struct gr_replayer *r, const struct gr_action *a, uint32_t index);
GR_INTERNAL void gr_attempt_begins(struct gr_replayer *r);
#define GR_COUNT_JOBS(r) ((void)0)
#define GR_IS_SET_UP(r) ((void)(GR_PROGRESS(r)->is_away = false))

/* Set registers again that were lost; then the action that the replay goes on with; whether replays can stop
 * between jobs; whether this one does again; whether what has failed may be repeated from there. */
GR_INTERNAL enum gr_status gr_come_back(struct gr_replayer *r);
GR_INTERNAL uint32_t gr_goes_on_with(struct gr_replayer *r);
#define GR_STOPS true
#define GR_HAS_STOPPED(r) (GR_PROGRESS(r)->under_way.next != 0)
#define GR_CAN_REPEAT(r) (r->report.phase == GR_PHASE_REPLAY && GR_PROGRESS(r)->under_way.can_repeat)

/* Of a driver: whether an action is the first that says what the next job is: before it, others may have the
 * GPU. */
GR_INTERNAL bool gr_driver_begins_job(const struct gr_action *a);

#else

#define gr_goes_away(r, network, keeps) ((void)(keeps), false)
#define GR_IS_AWAY(progress) false
#define GR_FORGET(progress) ((void)0)
#define GR_IS_BEGUN(progress) false
#define GR_IS_COPIED(r) ((void)0)
#define gr_job_begins(r, a) ((void)0)
#define gr_step_ends(r, a, index) false
#define gr_attempt_begins(r) ((void)0)
#define GR_COUNT_JOBS(r) ((void)((r)->report.jobs = 0))
#define GR_IS_SET_UP(r) ((void)0)
#define gr_come_back(r) GR_STATUS_OK
#define gr_goes_on_with(r) GR_REPLAY_START(r)
#define GR_STOPS false
#define GR_HAS_STOPPED(r) false
#define GR_CAN_REPEAT(r) false

#endif

#endif
