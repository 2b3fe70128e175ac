/* SPDX-License-Identifier: BSD-2-Clause */
/* A stream: where its current chunk lies, and that what it reads next is there. */
#include "common.h"

/* What a stream writes, of its memory and its own state: for the next chunk, and as it is read. Not
 * formatted, because `0..s` would be one word. */
/* clang-format off */
#ifdef GRAMOPHONE_ENCRYPTION
#define AND_BLOCKS(s) s->opened,
#else
#define AND_BLOCKS(s)
#endif
#ifdef GRAMOPHONE_STREAMING
#define AND_HASHED(s) s->hashed,
#else
#define AND_HASHED(s)
#endif
#define OPENED(s) \
    s->offset, s->left, s->hashes, s->index, s->at, s->stop, s->end, s->differing, AND_BLOCKS(s) AND_HASHED(s) \
    s->chunk[0 .. s->chunk_bytes - 1]
/* clang-format on */
#define TAKEN(s) s->section, s->status, OPENED(s)

/* The signed file: less than 2^40 bytes, and a source reads nothing behind them (replayer.h). */
/*@ axiomatic file {
      logic integer file_bytes;
      axiom file_is_small: 0 <= file_bytes <= 1099511627776;
    }
*/

/*@ requires \valid(to + (0 .. bytes - 1));
    assigns to[0 .. bytes - 1];
    ensures \result ==> offset + bytes <= file_bytes;
*/
bool source_read(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes);

/* Memory that holds the stream's buffer and what it was given to begin with. As variables of the proof they
 * stay what they are whatever is written, so the solver need not compare places again at each call. */
/*@ ghost uint8_t *proof_window; */
/*@ ghost uint64_t proof_window_bytes; */

/*@ predicate part(struct gr_stream *s) = \base_addr(s->at) == \base_addr(s->end) &&
      \base_addr(s->at) == \base_addr(s->stop) && 0 <= s->stop - s->at && 0 <= s->end - s->stop &&
      \valid_read(s->at + (0 .. s->end - s->at - 1));

    // While chunks are left there are a source, room for the chunk, and the hash.
    predicate more(struct gr_stream *s) = s->left > 0 ==>
      \valid_read(s->source) && s->source->read == &source_read && \separated(s, s->source) &&
      \separated(s->source, s->chunk + (0 .. s->chunk_bytes - 1)) &&
      \valid(s->chunk + (0 .. s->chunk_bytes - 1)) && 1 <= s->chunk_bytes <= GR_MAX_CHUNK_BYTES &&
      \valid_read(s->hashes + (0 .. 31)) &&
      \separated(s->hashes + (0 .. 31), s->chunk + (0 .. s->chunk_bytes - 1));

    predicate stream(struct gr_stream *s) =
      \valid(s) && part(s) && more(s) && \separated(s, s->chunk + (0 .. s->chunk_bytes - 1));

    predicate held(struct gr_stream *s) =
      \base_addr(s->at) == \base_addr(proof_window) && \base_addr(s->end) == \base_addr(proof_window) &&
      0 <= s->at - proof_window <= s->end - proof_window <= proof_window_bytes &&
      \base_addr(s->chunk) == \base_addr(proof_window) && 0 <= s->chunk - proof_window &&
      s->chunk - proof_window + s->chunk_bytes <= proof_window_bytes;

    predicate apart(struct gr_stream *s, uint8_t *out, integer bytes) =
      \separated(s, out + (0 .. bytes - 1)) && \separated(s->source, out + (0 .. bytes - 1)) &&
      \separated(proof_window + (0 .. proof_window_bytes - 1), out + (0 .. bytes - 1));
*/

/*@ requires stream(s) && held(s);
    assigns TAKEN(s);
    ensures held(s);
    ensures \valid(s) && part(s) && \separated(s, s->chunk + (0 .. s->chunk_bytes - 1));
    admit ensures hash: more(s);
    ensures \result <= s->stop - s->at;
    ensures (s->at == \old(s->at) && s->end == \old(s->end)) ||
      (s->at == s->chunk && s->end - s->at <= s->chunk_bytes);
*/
uint64_t gr_stream_ready(struct gr_stream *s);

// Nothing is written where there is no place for it: the bytes are skipped.
/*@ requires stream(s) && held(s);
    requires out == \null || (\valid(out + (0 .. bytes - 1)) && apart(s, out, bytes));
    assigns TAKEN(s), out[0 .. (out == \null ? 0 : bytes) - 1];
    ensures stream(s);
    ensures held(s);
*/
void gr_stream_take(struct gr_stream *s, uint8_t *out, uint64_t bytes);

/*@ requires stream(s) && held(s);
    requires \valid(out + (0 .. out_bytes - 1)) && out_bytes <= 4294967296;
    requires apart(s, out, out_bytes);
    assigns TAKEN(s), out[0 .. out_bytes - 1];
    ensures stream(s);
    ensures held(s);
*/
void gr_lz4_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes);
