/* SPDX-License-Identifier: BSD-2-Clause */
/* What run.c and attempts.c share. */
#include "state.h"

/*@ predicate ready(struct gr_replayer *r) = carveout(r) && tables(r) && r->replay_start <= r->action_count;
 */

/* What an attempt writes. Not formatted, because `0..s` would be one word. */
/* clang-format off */
#ifdef GRAMOPHONE_STORE
#define AND_KEPT(r) , r->is_kept
#else
#define AND_KEPT(r)
#endif
/* Pieces that are read meanwhile, and the buffer for their chunks, which lies behind what the GPU uses. */
#ifdef GRAMOPHONE_STREAMING
#define WRITTEN(r) \
    r->pieces_read[0 .. GR_PIECES - 1], r->pieces_hashed[0 .. GR_PIECES - 1], PROGRESS(r).next_job, \
    r->begun_action, r->next_action, \
    r->memory.base[r->image_end .. r->memory.bytes - 1]
#else
#define WRITTEN(r) r->memory.base[r->image_end .. r->low_bytes - 1]
#endif
#define RUN(r) \
    r->report, r->code, r->locked, r->limits, PROGRESS(r).kept[0 .. GR_KEPT - 1], PROGRESS(r).tables, \
    r->touched, PROGRESS(r).started, WRITTEN(r)
/* clang-format on */

/*@ requires ready(r);
    assigns RUN(r);
    admit ensures frame: ready(r);
*/
enum gr_status gr_try_once(struct gr_replayer *r);

/*@ requires \valid(r);
    assigns r->report, PROGRESS(r).started, PROGRESS(r).tables, r->locked;
*/
bool gr_may_try_again(struct gr_replayer *r);

#ifdef GRAMOPHONE_STREAMING
/*@ requires \valid(r);
    assigns \nothing;
*/
bool gr_ends_early(const struct gr_replayer *r);
#endif

#ifdef GRAMOPHONE_STORE
/*@ requires \valid(r);
    assigns r->is_kept;
*/
enum gr_status gr_store_keep(struct gr_replayer *r);
#endif

/*@ requires r->state == GR_STATE_LOADED ==> ready(r);
    requires \valid(r);
    assigns r->report;
    ensures \result == GR_STATUS_OK ==> r->state == GR_STATE_LOADED;
*/
enum gr_status gr_check_bound(struct gr_replayer *r);
