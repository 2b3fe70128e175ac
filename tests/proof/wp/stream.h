/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream: where its current chunk lies, and that what the current section still needs is there. */
#include "common.h"

/*@ requires \valid(to + (0 .. bytes - 1));
    assigns to[0 .. bytes - 1];
*/
bool source_read(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes);

/*@ predicate part(struct gr_stream *s) = \base_addr(s->at) == \base_addr(s->end) &&
      \base_addr(s->at) == \base_addr(s->stop) && s->at <= s->stop <= s->end &&
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
      s->section <= s->left + (s->end - s->stop);

    predicate apart(struct gr_stream *s, uint8_t *out, integer bytes) =
      \separated(s, out + (0 .. bytes - 1)) && \separated(s->source, out + (0 .. bytes - 1)) &&
      \separated(s->chunk + (0 .. s->chunk_bytes - 1), out + (0 .. bytes - 1)) &&
      \separated(s->at + (0 .. s->end - s->at - 1), out + (0 .. bytes - 1));
*/

/*@ requires stream(s);
    assigns s->section, s->status, s->offset, s->left, s->hashes, s->index, s->at, s->stop, s->end, s->chunk[0
   .. s->chunk_bytes - 1]; ensures \valid(s) && part(s) && \separated(s, s->chunk + (0 .. s->chunk_bytes -
   1)); ensures s->section <= s->left + (s->end - s->stop); admit ensures hash: more(s); ensures \result <=
   s->stop - s->at; ensures (s->at == \old(s->at) && s->end == \old(s->end)) || (s->at == s->chunk && s->end -
   s->at <= s->chunk_bytes);
*/
uint64_t gr_stream_ready(struct gr_stream *s);

/*@ requires stream(s);
    requires out == \null || (\valid(out + (0 .. bytes - 1)) && apart(s, out, bytes));
    requires bytes <= 4294967296;
    assigns s->section, s->status, s->offset, s->left, s->hashes, s->index, s->at, s->stop, s->end, s->chunk[0
   .. s->chunk_bytes - 1], out[0 .. bytes - 1]; ensures stream(s); ensures (\old(s->at) <= s->at <= s->end ==
   \old(s->end)) || (s->at - s->chunk >= 0 && \base_addr(s->at) == \base_addr(s->chunk) && s->end - s->chunk
   <= s->chunk_bytes);
*/
void gr_stream_take(struct gr_stream *s, uint8_t *out, uint64_t bytes);
