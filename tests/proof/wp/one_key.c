/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_is_same and gr_is_low (stream), and that the source and the crypto seam write where they are
 * told. */
#include "envelope.h"

/*@ requires \valid_read(l) && from <= to <= SIGNATURE_AT;
    assigns \nothing;
*/
static bool is_expected(const struct loader *l, uint32_t from, uint32_t to);

/*@ assigns \nothing;
    ensures \valid_read(\result + (0 .. 64));
*/
const uint8_t *gr_port_key_again(void);

/*@ assigns \nothing; */
uint32_t gr_known_answer(void);

/*@ requires table(l) && \valid_read(key + (0 .. 64));
    assigns l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    EACH_OF_TABLE(ensures)
    ensures \old(chunked(l)) ==> chunked(l);
*/
static enum gr_status check_signature(struct loader *l, const uint8_t *key, uint32_t good);

/*@ requires table(l);
    assigns l->state, l->r->memory.base[0 .. l->r->memory.bytes - 1];
    EACH_OF_TABLE(ensures)
*/
enum gr_status gr_check_signature_again(struct loader *l);

#include "shipped/one_key.c"
