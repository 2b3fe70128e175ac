/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the loader leaves pieces in the file, and a replay reads them. */
#ifndef GRAMOPHONE_STREAMING_H
#define GRAMOPHONE_STREAMING_H

#ifdef GRAMOPHONE_STREAMING

#define GR_STREAMING_FLAG GR_HEADER_FLAG_STREAMED
#define GR_LAST_OF_BODY GR_SECTION_TYPE_STREAM
/* Zero: a chunk is compared with its hash. */
#define GR_STREAMING_STREAM_FIELDS uint32_t hashed;
#define GR_IS_HASHED(s) ((s)->hashed++, UINT64_C(0))

#define GR_STREAMING_LOADER_FIELDS                                                                           \
    uint32_t pieces_section; /* number of STREAM; 0: none has been seen */                                   \
    uint64_t pieces_at, pieces_bytes;

/* Nothing is written below it, once it is there. */
#define GR_READ_ONLY_END(r) ((r)->read_only_end)

/* Whether a section, which is `s` in the table, may lie at `index` for its type, and STREAM as it should. */
GR_INTERNAL bool gr_takes_section(struct loader *l, uint32_t index, const uint8_t *s);

/* Take the pieces from their section's rows, of `bytes` bytes. */
GR_INTERNAL enum gr_status gr_take_pieces(struct loader *l, const uint8_t *rows, uint64_t bytes);

#ifdef GRAMOPHONE_NETWORKS
/* Whether each piece is in one network's memory, or in pages that the same networks reach. */
GR_INTERNAL bool gr_have_owners(struct gr_replayer *r);
#endif

/* What is so only if the pieces keep the rules, and the replayer's fields are what the rows say: zero. Asked
 * after all else. */
GR_INTERNAL uint64_t gr_piece_differences(const struct loader *l, const uint8_t *rows, uint64_t bytes);

/* The body's stream is at its start: remember it. Number of the section before which loading ends; whether it
 * has not come there. */
GR_INTERNAL void gr_keep_body(struct loader *l);
#define GR_LOADED_SECTIONS(l) ((l)->pieces_section ? (l)->pieces_section : (l)->section_count)
GR_INTERNAL bool gr_lacks_body(const struct loader *l);

/* If an action says that a job is about to start, none runs: have in memory what it needs. */
GR_INTERNAL enum gr_status gr_fetch_pieces(struct gr_replayer *r, const struct gr_action *a);

/* Actions are about to be executed, one after the other: until all have been, the replay has failed. */
#define GR_BEGINS_AT(r, index)                                                                               \
    ((r)->begun_action = (r)->next_action = (index), (r)->report.status = GR_STATUS_FLOW)
/* A replay has ended without a failure: whether it had fewer actions than the head says. */
GR_INTERNAL bool gr_ends_early(const struct gr_replayer *r);

/* Not 0: an action is not the next one, or says that a job is about to start, and its pieces are not all
 * there. */
GR_INTERNAL uint64_t gr_lacks_pieces(struct gr_replayer *r, uint32_t index);

/* While a job runs, until its interrupt line is active: read what later jobs need. */
GR_INTERNAL enum gr_status gr_read_ahead(struct gr_replayer *r, uint32_t line);

#else

#define GR_STREAMING_FLAG 0u
#define GR_LAST_OF_BODY GR_SECTION_TYPE_IMAGE
#define GR_STREAMING_STREAM_FIELDS
#define GR_IS_HASHED(s) UINT64_C(0)
#define GR_STREAMING_LOADER_FIELDS
#define GR_READ_ONLY_END(r) ((r)->image_end)
#define gr_takes_section(l, index, s) true
#define gr_take_pieces(...) GR_STATUS_OK
#ifdef GRAMOPHONE_NETWORKS
#define gr_have_owners(r) true
#endif
#define gr_piece_differences(...) UINT64_C(0)
#define gr_keep_body(l) ((void)0)
#define GR_LOADED_SECTIONS(l) ((l)->section_count)
#define gr_lacks_body(l) ((l)->stream.left || (l)->stream.at != (l)->stream.end)
#define gr_fetch_pieces(r, a) GR_STATUS_OK
#define GR_BEGINS_AT(r, index) ((void)0)
#define gr_ends_early(r) false
#define gr_lacks_pieces(r, index) UINT64_C(0)
#define gr_read_ahead(r, line) GR_STATUS_OK

#endif

#endif
