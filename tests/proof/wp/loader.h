/* SPDX-License-Identifier: BSD-2-Clause */
/* The loader's state: what it was given, and what it has copied. */
#include "stream.h"

#include "load.h"

/* The one key, which a replayer with a trust policy has not. */
#ifdef GRAMOPHONE_TRUST
#define AND_KEY(l)
#define AND_KEY_APART(l, memory, bytes)
#else
#define AND_KEY(l)                                                                                           \
    &&\valid_read(l->policy->key + (0..64)) && \valid_read(l->policy->key_id + (0..KID_BYTES - 1))
#define AND_KEY_APART(l, memory, bytes)                                                                      \
    &&\separated(memory + (0..bytes - 1), l->policy->key + (0..64)) &&                                   \
        \separated(l, l->policy->key + (0..64)) && \separated(l->r, l->policy->key + (0..64)) &&          \
        \separated(l, l->policy->key_id + (0..KID_BYTES - 1))
#endif

/* How many sections the head has. */
#define BROUGHT(l, flag) (flag != 0 && (l->flags & flag) != 0 ? 1 : 0)
#define IN_HEAD(l)                                                                                           \
    (HEAD_SECTIONS + BROUGHT(l, GR_STREAMING_FLAG) + BROUGHT(l, GR_NETWORKS_FLAG) +                          \
     BROUGHT(l, GR_ENCRYPTION_FLAG))

/* Where the section STREAM lies, of traces with pieces. */
#ifdef GRAMOPHONE_STREAMING
#define AND_STREAM(l) , l->pieces_section, l->pieces_at, l->pieces_bytes
#else
#define AND_STREAM(l)
#endif

/* The loader, what it was given, and the carve-out do not overlap; what is taken of the carve-out grows
 * downwards from its end. */
/*@ predicate loader(struct loader *l) =
      \valid(l) && \valid(l->r) && \separated(l, l->r) &&
      \valid_read(l->stream.source) && l->stream.source->read == &source_read &&
      \valid_read(l->policy) AND_KEY(l) &&
      \valid(l->r->memory.base + (0 .. l->r->memory.bytes - 1)) && l->r->memory.bytes <= 1099511627776 &&
      \base_addr(l->r->high) == \base_addr(l->r->memory.base) &&
      0 <= l->r->high - l->r->memory.base <= l->r->memory.bytes;

    predicate alone{L}(struct loader *l, uint8_t *memory, integer bytes) =
      \separated(memory + (0 .. bytes - 1), l) && \separated(memory + (0 .. bytes - 1), l->r) &&
      \separated(memory + (0 .. bytes - 1), l->policy) &&
      \separated(memory + (0 .. bytes - 1), l->stream.source) &&
      \separated(l, l->policy) && \separated(l, l->stream.source) && \separated(l->r, l->policy) &&
      \separated(l->r, l->stream.source) AND_KEY_APART(l, memory, bytes);

    predicate ready(struct loader *l) = loader(l) && alone(l, l->r->memory.base, l->r->memory.bytes);

    // The head's copy, with room before it; what is taken later lies below that.
    predicate copied(struct loader *l) = GR_HEADER_BYTES < l->head_bytes <= GR_MAX_HEAD_BYTES &&
      \base_addr(l->head) == \base_addr(l->r->memory.base) &&
      l->r->high - l->r->memory.base + BEFORE_HEAD_BYTES <= l->head - l->r->memory.base &&
      l->head - l->r->memory.base + l->head_bytes <= l->r->memory.bytes;

    // The head has room for its section table, in which actions come next.
    predicate counted(struct loader *l) = IN_HEAD(l) < l->section_count <= GR_MAX_SECTIONS &&
      GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES <= l->head_bytes;

    predicate chunked(struct loader *l) = GR_MIN_CHUNK_BYTES <= l->stream.chunk_bytes <= GR_MAX_CHUNK_BYTES &&
      l->stream.left + l->head_bytes == l->trace_bytes;

    predicate table(struct loader *l) = loader(l) && alone(l, l->r->memory.base, l->r->memory.bytes) &&
   copied(l) && counted(l);
*/

/* One clause each, which is easier to prove than all at once. */
#define EACH_OF_TABLE(clause)                                                                                \
    clause loader(l);                                                                                        \
    clause alone(l, l->r->memory.base, l->r->memory.bytes);                                                  \
    clause copied(l);                                                                                        \
    clause counted(l);

/*@ requires \valid_read(p + (0 .. n - 1));
    assigns \nothing;
*/
static inline uint32_t gr_is_zero(const uint8_t *p, size_t n);
