/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_stream_ready (stream). */
#include "stream.h"

/*@ predicate clear(struct gr_stream *s, uint8_t *p, integer bytes) =
      \separated(s, p + (0 .. bytes - 1)) && \separated(s->source, p + (0 .. bytes - 1)) &&
      \separated(proof_window + (0 .. proof_window_bytes - 1), p + (0 .. bytes - 1));
    predicate lengths_are_short(uint8_t *lengths, integer end) =
      \forall integer i; 0 <= i < end ==> lengths[i] <= GR_MAX_CODE_BITS;
*/

/*@ requires stream(s) && held(s);
    assigns TAKEN(s);
    ensures stream(s);
    ensures \result <= 255;
    ensures held(s);
*/
static uint32_t take_byte(struct gr_stream *s);

/*@ requires stream(s) && held(s);
    requires \valid(lengths + (0 .. 255)) && clear(s, lengths, 256);
    assigns TAKEN(s), lengths[0 .. 255];
    ensures stream(s);
    ensures held(s);
    ensures \result ==> lengths_are_short(lengths, 256);
*/
static bool take_lengths(struct gr_stream *s, uint8_t *lengths);

/*@ requires \valid(table + (0 .. 1023)) && \valid_read(lengths + (0 .. 255));
    requires \separated(table + (0 .. 1023), lengths + (0 .. 255));
    requires lengths_are_short(lengths, 256);
    assigns table[0 .. 1023];
*/
static bool make_table(uint16_t *table, const uint8_t *lengths);

/* Whatever the table holds. */
/*@ requires stream(s) && held(s);
    requires \valid_read(table + (0 .. 1023)) && count <= 536870912;
    requires count > 0 ==> \valid(out + (0 .. 8 * count - 8)) && apart(s, out, 8 * count - 7);
    assigns TAKEN(s), out[0 .. 8 * count - 8];
    ensures stream(s);
    ensures held(s);
*/
static void take_codes(struct gr_stream *s, const uint16_t *table, uint32_t bytes, uint8_t *out,
                       uint64_t count);

/*@ requires stream(s) && held(s);
    requires count <= 536870912;
    requires count > 0 ==> \valid(out + (0 .. 8 * count - 8)) && apart(s, out, 8 * count - 7);
    assigns TAKEN(s), out[0 .. 8 * count - 8];
    ensures stream(s);
    ensures held(s);
*/
static void take_values(struct gr_stream *s, uint8_t *out, uint64_t count);

/*@ requires stream(s) && held(s);
    requires \valid(out + (0 .. out_bytes - 1)) && out_bytes <= 4294967296;
    requires apart(s, out, out_bytes);
    assigns TAKEN(s), out[0 .. out_bytes - 1];
    ensures stream(s);
    ensures held(s);
*/
void gr_planes_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes);
#include "shipped/planes.c"
