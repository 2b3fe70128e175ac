/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_take_memory (memory), gr_is_same and gr_is_low (stream), and that the source and the crypto
 * seam write where they are told. */
#include "loader.h"
#include "seam.h"

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

/*@ requires \valid_read(l) && from <= to <= SIGNATURE_AT;
    assigns \nothing;
*/
static bool is_expected(const struct loader *l, uint32_t from, uint32_t to);

/*@ requires ready(l) && l->trace_bytes == (uint64_t)(file_bytes - TRACE_AT);
    assigns l->start[0 .. START_BYTES - 1], l->state;
    ensures ready(l);
    ensures small: \result == GR_STATUS_OK ==> l->trace_bytes <= 1099511627776;
*/
static enum gr_status check_envelope(struct loader *l);

/*@ requires ready(l);
    assigns l->head, l->head_bytes, l->section_count, l->stream.chunk_bytes, l->stream.left, l->state,
      l->r->high, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    ensures ready(l);
    EACH_OF_TABLE(ensures \result == GR_STATUS_OK ==>)
    ensures \result == GR_STATUS_OK ==> chunked(l);
*/
static enum gr_status copy_head(struct loader *l);

/*@ assigns \nothing;
    ensures \valid_read(\result + (0 .. 64));
*/
const uint8_t *gr_port_key_again(void);

/*@ assigns \nothing; */
uint32_t gr_known_answer(void);

/*@ requires table(l) && \valid_read(key + (0 .. 64));
    assigns l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    EACH_OF_TABLE(ensures)
    ensures \old(chunked(l)) ==> chunked(l);
*/
static enum gr_status check_signature(struct loader *l, const uint8_t *key, uint32_t good);

/*@ requires table(l);
    assigns l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    EACH_OF_TABLE(ensures)
*/
enum gr_status gr_check_signature_again(struct loader *l);

/*@ requires ready(l) && l->trace_bytes == (uint64_t)(file_bytes - TRACE_AT);
    assigns l->start[0 .. START_BYTES - 1], l->head, l->head_bytes, l->section_count, l->stream.chunk_bytes,
      l->stream.left, l->state, l->r->high, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    ensures ready(l);
    EACH_OF_TABLE(ensures \result == GR_STATUS_OK ==>)
    ensures \result == GR_STATUS_OK ==> chunked(l) && l->trace_bytes <= 1099511627776;
*/
enum gr_status gr_check_envelope(struct loader *l);
#include "shipped/envelope.c"
