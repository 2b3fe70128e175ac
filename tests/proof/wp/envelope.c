/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_take_memory (load), gr_is_same (stream), and that the source and the crypto seam write where
 * they are told. */
#include "loader.h"
#include "seam.h"

// It gives bytes, so that WP need not know of void.
/*@ requires ready(l) && bytes <= 4294967296;
    assigns l->r->high;
    ensures \result == \null || (\result == l->r->high &&
      l->r->high - l->r->memory.base + bytes <= l->r->memory.bytes);
    ensures ready(l);
*/
uint8_t *proof_take(struct loader *l, uint64_t bytes);
#define gr_take_memory proof_take

/*@ requires \valid_read(l) && from <= to <= SIGNATURE_AT;
    assigns \nothing;
*/
static bool is_expected(const struct loader *l, uint32_t from, uint32_t to);

/*@ requires \valid_read(s + (0 .. 31));
    assigns \nothing;
*/
static bool is_low(const uint8_t *s);

/*@ requires ready(l);
    assigns l->start[0 .. START_BYTES - 1], l->state;
    ensures ready(l);
*/
static enum gr_status check_envelope(struct loader *l);

/*@ requires ready(l);
    assigns l->head, l->head_bytes, l->section_count, l->stream.chunk_bytes, l->stream.left, l->state,
      l->r->high, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    ensures ready(l);
    ensures \result == GR_STATUS_OK ==> copied(l);
    ensures \result == GR_STATUS_OK ==> GR_MIN_CHUNK_BYTES <= l->stream.chunk_bytes <= GR_MAX_CHUNK_BYTES;
    ensures \result == GR_STATUS_OK ==> HEAD_SECTIONS < l->section_count <= GR_MAX_SECTIONS;
    ensures \result == GR_STATUS_OK ==> GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES <=
   l->head_bytes; ensures \result == GR_STATUS_OK ==> l->stream.left + l->head_bytes == l->trace_bytes;
*/
static enum gr_status copy_head(struct loader *l);

/*@ requires ready(l) && copied(l);
    assigns l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    ensures ready(l) && copied(l);
*/
static enum gr_status check_signature(struct loader *l, uint32_t good);

/*@ requires ready(l);
    assigns l->start[0 .. START_BYTES - 1], l->head, l->head_bytes, l->section_count, l->stream.chunk_bytes,
      l->stream.left, l->state, l->r->high, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    ensures ready(l);
    ensures \result == GR_STATUS_OK ==> copied(l);
*/
enum gr_status gr_check_envelope(struct loader *l);
#include "shipped/envelope.c"
