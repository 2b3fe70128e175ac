/* SPDX-License-Identifier: BSD-2-Clause */
/* The state that a successful gr_load leaves, and that everything else relies on. */
#include "common.h"

#include "driver.h"
#include "gr_target.h"

/* How far the network is that is at work. */
#define PROGRESS(r) r->progress[GR_NUMBER(r)]

/* Bytes of a slot's dense data: what gr_slot_bytes makes of its description. */
/*@ axiomatic dense { logic integer dense(uint8_t *s) reads s[0 .. GR_SLOT_BYTES - 1]; }
 */

#ifdef GRAMOPHONE_NETWORKS
/* What is the selected network's, as gr_take_networks and gr_check_networks leave it. */
/*@ predicate own(struct gr_replayer *r) = r->network < GR_NETWORKS && r->image_end <= GR_WORK_AT(r) <=
      GR_WORK_END(r) <= r->carveout_bytes <= GR_DRIVER_AT(r) <= GR_DRIVER_END(r) <= r->low_bytes;
*/
#define AND_OWN(r) &&own(r)
#else
#define AND_OWN(r)
#endif

#ifdef GRAMOPHONE_STREAMING
/* What stays of pieces, as gr_take_pieces leaves it: behind the image. */
#define AND_STAYS(r) &&r->image_end <= r->read_only_end <= r->carveout_bytes
#else
#define AND_STAYS(r)
#endif

/* The carve-out is one block of memory, apart from the replayer's own state:
 *     0 <= image_bytes <= image_end <= carveout_bytes <= low_bytes <= actions, slots <= memory.bytes */
/*@ predicate carveout(struct gr_replayer *r) =
      \valid(r) && \valid(r->memory.base + (0 .. r->memory.bytes - 1)) && r->memory.bytes <= 1099511627776 &&
      \separated(r, r->memory.base + (0 .. r->memory.bytes - 1)) &&
      r->image_bytes <= r->image_end <= r->carveout_bytes <= r->low_bytes <= r->memory.bytes &&
      r->carveout_bytes <= GR_MAX_CARVEOUT_BYTES && r->carveout_bytes % GR_PAGE_BYTES == 0 &&
      r->va_bytes <= (1 << GR_VA_BITS) && r->va_bytes % GR_PAGE_BYTES == 0 AND_OWN(r) AND_STAYS(r);

    // The pages of an action that maps or unmaps.
    predicate pages(struct gr_replayer *r, struct gr_action *a) =
      \valid_read(a) && a->a + a->value <= r->va_bytes / GR_PAGE_BYTES;

    predicate high(struct gr_replayer *r, uint8_t *at, integer bytes) =
      \base_addr(at) == \base_addr(r->memory.base) && r->memory.base + r->low_bytes <= at &&
      at + bytes <= r->memory.base + r->memory.bytes;

    predicate tables(struct gr_replayer *r) =
      r->slot_count <= GR_SLOTS &&
      high(r, r->slots, r->slot_count * GR_SLOT_BYTES) &&
      high(r, r->actions, r->action_count * GR_ACTION_BYTES);

    logic uint8_t *slot(struct gr_replayer *r, integer i) = r->slots + i * GR_SLOT_BYTES;
    logic integer rank(uint8_t *s) = s[GR_SLOT_AT_RANK];
    logic integer dim(uint8_t *s, integer k) = le32(s + GR_SLOT_AT_DIMS + 4 * k);

    predicate sized(uint8_t *s) = rank(s) <= GR_MAX_RANK && \forall integer k; 0 <= k < rank(s) ==> 1 <=
   dim(s, k);

    predicate slots(struct gr_replayer *r) = \forall integer i; 0 <= i < r->slot_count ==> sized(slot(r, i));
*/
