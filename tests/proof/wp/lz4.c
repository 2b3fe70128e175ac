/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_stream_ready, gr_stream_take (stream). */
#include "stream.h"

/*@ requires stream(s);
    assigns s->section, s->status, s->offset, s->left, s->hashes, s->index, s->at, s->stop, s->end, s->chunk[0
   .. s->chunk_bytes - 1]; ensures stream(s); ensures \result <= 255; ensures (\old(s->at) <= s->at <= s->end
   == \old(s->end)) || (s->at - s->chunk >= 0 && \base_addr(s->at) == \base_addr(s->chunk) && s->end -
   s->chunk
   <= s->chunk_bytes);
*/
static uint32_t next_byte(struct gr_stream *s);

/*@ requires stream(s);
    requires length <= 15;
    assigns s->section, s->status, s->offset, s->left, s->hashes, s->index, s->at, s->stop, s->end, s->chunk[0
   .. s->chunk_bytes - 1]; ensures stream(s); ensures (\old(s->at) <= s->at <= s->end == \old(s->end)) ||
   (s->at
   - s->chunk >= 0 && \base_addr(s->at) == \base_addr(s->chunk) && s->end - s->chunk <= s->chunk_bytes);
*/
static uint64_t take_length(struct gr_stream *s, uint64_t length);

/*@ requires stream(s);
    requires \valid(out + (0 .. out_bytes - 1)) && out_bytes <= 4294967296;
    requires apart(s, out, out_bytes);
    assigns s->section, s->status, s->offset, s->left, s->hashes, s->index, s->at, s->stop, s->end, s->chunk[0
   .. s->chunk_bytes - 1], out[0 .. out_bytes - 1]; ensures stream(s);
*/
void gr_lz4_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes);
#include "shipped/lz4.c"
