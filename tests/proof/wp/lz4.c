/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_stream_ready, gr_stream_take (stream). */
#include "stream.h"

/*@ requires stream(s) && held(s);
    assigns TAKEN(s);
    ensures stream(s);
    ensures \result <= 255;
    ensures held(s);
*/
static uint32_t next_byte(struct gr_stream *s);

/*@ requires stream(s) && held(s);
    requires length <= 15;
    assigns TAKEN(s);
    ensures stream(s);
    ensures held(s);
*/
static uint64_t take_length(struct gr_stream *s, uint64_t length);
#include "shipped/lz4.c"
