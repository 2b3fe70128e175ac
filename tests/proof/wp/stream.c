/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_sha256 and struct gr_source's read, which write where they are told. */
#include "stream.h"

#include "seam.h"

/*@ requires \valid_read(a + (0 .. 31)) && \valid_read(b + (0 .. 31));
    assigns \nothing;
*/
static inline uint64_t hash_difference(const uint8_t *a, const uint8_t *b);

/*@ requires stream(s) && held(s);
    assigns OPENED(s);
    ensures held(s);
    ensures part(s);
    ensures \result == GR_STATUS_OK ==>
      s->at == s->chunk && s->stop == s->at && s->end - s->at <= s->chunk_bytes;
    ensures \result == GR_STATUS_OK ==> s->left + (s->end - s->at) == \old(s->left);
    ensures \result != GR_STATUS_OK ==> s->left == \old(s->left) && s->at == \old(s->at) &&
      s->stop == \old(s->stop) && s->end == \old(s->end);
*/
static enum gr_status next_chunk(struct gr_stream *s);
#include "shipped/stream.c"
