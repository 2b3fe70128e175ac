/* SPDX-License-Identifier: BSD-2-Clause */
/* What a replayer keeps of a streamed trace. */
#ifndef GRAMOPHONE_STREAMING_API_H
#define GRAMOPHONE_STREAMING_API_H

#ifdef GRAMOPHONE_STREAMING

enum { GR_PIECES = 256 }; /* that a trace may have */

/* With this feature the port's `read` is called during replays, until gr_unload; it must return in bounded
 * time, and may fail. */
#define GR_STREAMING_FIELDS                                                                                  \
    struct gr_source source;                                                                                 \
    const uint8_t *pieces;        /* rows, as in the trace's file */                                         \
    const uint8_t *hashes;        /* of the body's chunks */                                                 \
    uint8_t *chunk;               /* buffer of chunk_bytes */                                                \
    uint64_t body_at, body_bytes; /* in the signed file */                                                   \
    uint64_t pieces_at;           /* of STREAM, in the body */                                               \
    uint64_t read_only_end;       /* of the last resident piece; without any, of the image */                \
    uint32_t chunk_bytes, piece_count;                                                                       \
    /* For who judges what is read: the head's rows again, the sum of their words, STREAM in the file. */    \
    const uint8_t *head_pieces;                                                                              \
    uint64_t pieces_sum, stream_at;                                                                          \
    uint32_t head_piece_count;                                                                               \
    uint32_t begun_action, next_action; /* of those that are executed: the first, the next */                \
    uint32_t pieces_read[GR_PIECES];    /* bytes of a piece that lie in memory */                            \
    uint32_t pieces_hashed[GR_PIECES];  /* the same, counted in steps */

#define GR_STREAMING_PROGRESS_FIELDS                                                                         \
    uint32_t next_job; /* behind the latest that was begun; UINT32_MAX: none */

#else

#define GR_STREAMING_FIELDS
#define GR_STREAMING_PROGRESS_FIELDS

#endif

#endif
