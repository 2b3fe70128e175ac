/* SPDX-License-Identifier: BSD-2-Clause */
/* What envelope.c and one_key.c share. */
#include "loader.h"
#include "seam.h"

#define START_BYTES (HEADER_AT + GR_HEADER_BYTES)

/* What the envelope's copy takes and writes, of a trust policy. */
#ifdef GRAMOPHONE_TRUST
#define AND_TRUST(l)                                                                                         \
    , l->trace_bytes, l->envelope, l->envelope_bytes, l->trace_at, l->policies[0..1], l->workspace,          \
        l->has_signed_weights, l->r->high, l->r->memory.base[0..l->r->memory.bytes - 1]
#else
#define AND_TRUST(l)
#endif

/* What the judge writes. Not formatted, because `0..l` would be one word. */
/* clang-format off */
#ifdef GRAMOPHONE_TRUST
#define JUDGED(l) l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1], l->has_signed_weights
#else
#define JUDGED(l) l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1]
#endif
/* clang-format on */

/*@ requires ready(l) && l->trace_bytes == (uint64_t)(file_bytes - BEFORE_TRACE);
    assigns l->start[0 .. START_BYTES - 1], l->state AND_TRUST(l);
    ensures ready(l);
    ensures small: \result == GR_STATUS_OK ==> l->trace_bytes <= 1099511627776;
*/
enum gr_status gr_copy_envelope(struct loader *l);

/*@ requires table(l);
    assigns JUDGED(l);
    EACH_OF_TABLE(ensures)
    ensures \old(chunked(l)) ==> chunked(l);
*/
enum gr_status gr_judge(struct loader *l);
