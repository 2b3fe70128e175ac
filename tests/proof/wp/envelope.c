/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_copy_envelope and gr_judge (one_key), gr_take_memory (memory), gr_is_same (stream), and that
 * the source writes where it is told. */
#include "envelope.h"

// It gives bytes, so that WP need not know of void.
/*@ requires ready(l) && bytes <= 8589934592;
    assigns l->r->high;
    ensures taken: \result == \null || (\result == l->r->high &&
      \base_addr(l->r->high) == \base_addr(l->r->memory.base) &&
      l->r->high - l->r->memory.base + bytes <= \old(l->r->high - l->r->memory.base));
    ensures ready(l);
*/
uint8_t *proof_take(struct loader *l, uint64_t bytes);
#define gr_take_memory proof_take

/*@ requires ready(l);
    assigns l->head, l->head_bytes, l->section_count, l->flags, l->stream.chunk_bytes, l->stream.left,
   l->state, l->r->high, l->r->memory.base[0 .. l->r->memory.bytes - 1]; ensures ready(l);
    EACH_OF_TABLE(ensures \result == GR_STATUS_OK ==>)
    ensures \result == GR_STATUS_OK ==> chunked(l);
*/
static enum gr_status copy_head(struct loader *l);

/*@ requires ready(l) && l->trace_bytes == (uint64_t)(file_bytes - BEFORE_TRACE);
    assigns l->start[0 .. START_BYTES - 1], l->head, l->head_bytes, l->section_count, l->flags,
      l->stream.chunk_bytes, l->stream.left, l->state, l->r->high,
      l->r->memory.base[0 .. l->r->memory.bytes - 1] AND_TRUST(l);
    ensures ready(l);
    EACH_OF_TABLE(ensures \result == GR_STATUS_OK ==>)
    ensures \result == GR_STATUS_OK ==> chunked(l) && l->trace_bytes <= 1099511627776;
*/
enum gr_status gr_check_envelope(struct loader *l);
#include "shipped/envelope.c"
