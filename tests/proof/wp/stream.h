/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream: where its current chunk lies, and that what the current section still needs is there. */
#include "common.h"

/*@ requires \valid(to + (0 .. bytes - 1));
    assigns to[0 .. bytes - 1];
*/
bool source_read(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes);

/*@ predicate part(struct gr_stream *s) = \base_addr(s->at) == \base_addr(s->end) && 0 <= s->end - s->at &&
      \valid_read(s->at + (0 .. s->end - s->at - 1));

    // While chunks are left there are a source, room for the chunk, and the hash.
    predicate more(struct gr_stream *s) = s->left > 0 ==>
      \valid_read(s->source) && s->source->read == &source_read && \separated(s, s->source) &&
      \separated(s->source, s->chunk + (0 .. s->chunk_bytes - 1)) &&
      \valid(s->chunk + (0 .. s->chunk_bytes - 1)) && 1 <= s->chunk_bytes <= GR_MAX_CHUNK_BYTES &&
      \valid_read(s->hashes + (0 .. 31)) &&
      \separated(s->hashes + (0 .. 31), s->chunk + (0 .. s->chunk_bytes - 1));

    predicate stream(struct gr_stream *s) =
      \valid(s) && part(s) && more(s) && \separated(s, s->chunk + (0 .. s->chunk_bytes - 1)) &&
      s->section <= s->left + (s->end - s->at);
*/

/*@ requires stream(s);
    assigns s->status, s->offset, s->left, s->hashes, s->index, s->at, s->end, s->chunk[0 .. s->chunk_bytes -
   1]; ensures \valid(s) && part(s) && \separated(s, s->chunk + (0 .. s->chunk_bytes - 1)); ensures s->section
   <= s->left + (s->end - s->at); admit ensures hash: more(s); ensures \result <= s->section && \result <=
   s->end - s->at; ensures (s->at == \old(s->at) && s->end == \old(s->end)) || (s->at == s->chunk && s->end -
   s->at <= s->chunk_bytes);
*/
uint32_t gr_stream_ready(struct gr_stream *s);
