/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_sha256 and struct gr_source's read, which write where they are told. */
#include "stream.h"

#include "seam.h"

/*@ requires \valid_read(a + (0 .. 31)) && \valid_read(b + (0 .. 31));
    assigns \nothing;
*/
static inline uint64_t hash_difference(const uint8_t *a, const uint8_t *b);

#ifdef GRAMOPHONE_ENCRYPTION
// As proved of encryption.c: what it writes lies in the buffer; the cipher's state is apart.
/*@ requires \valid(s) && bytes <= s->chunk_bytes && \valid(s->chunk + (0 .. s->chunk_bytes - 1));
    assigns s->opened, s->chunk[0 .. s->chunk_bytes - 1];
*/
void gr_decrypt(struct gr_stream *s, uint32_t bytes);
#endif

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
