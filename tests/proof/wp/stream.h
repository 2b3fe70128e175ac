/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream: where its current chunk lies, and that what the sections still need is there. */

/*@ predicate chunk(struct gr_stream *s) = \valid(s->chunk + (0 .. s->chunk_bytes - 1)) &&
      1 <= s->chunk_bytes <= GR_MAX_CHUNK_BYTES && \separated(s, s->chunk + (0 .. s->chunk_bytes - 1));

    // The part that is not handed out yet.
    predicate part(struct gr_stream *s) = \base_addr(s->at) == \base_addr(s->end) && 0 <= s->end - s->at &&
      \valid_read(s->at + (0 .. s->end - s->at - 1));

    predicate stream(struct gr_stream *s) =
      \valid(s) && part(s) && \separated(s, s->chunk + (0 .. s->chunk_bytes - 1));
*/
