/* SPDX-License-Identifier: BSD-2-Clause */
/* What envelope.c and one_key.c share. */
#include "loader.h"
#include "seam.h"

#define START_BYTES (TRACE_AT + GR_HEADER_BYTES)

/*@ requires ready(l) && l->trace_bytes == (uint64_t)(file_bytes - TRACE_AT);
    assigns l->start[0 .. START_BYTES - 1], l->state;
    ensures ready(l);
    ensures small: \result == GR_STATUS_OK ==> l->trace_bytes <= 1099511627776;
*/
enum gr_status gr_copy_envelope(struct loader *l);

/*@ requires table(l);
    assigns l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    EACH_OF_TABLE(ensures)
    ensures \old(chunked(l)) ==> chunked(l);
*/
enum gr_status gr_judge(struct loader *l);
