/* SPDX-License-Identifier: BSD-2-Clause */
/* What all harnesses share: memcpy and memset on bytes, loads of the format, the state of a loaded trace. */
#ifndef PROOF_COMMON_H
#define PROOF_COMMON_H

#include <stddef.h>
#include <stdint.h>

/* A hint to the compiler; the places are aligned, see gr_load and take_memory. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
#include "internal.h"

/*@ requires room: \valid(to + (0 .. bytes - 1));
    requires source: \valid_read(from + (0 .. bytes - 1));
    requires apart: \separated(to + (0 .. bytes - 1), from + (0 .. bytes - 1));
    assigns to[0 .. bytes - 1] \from from[0 .. bytes - 1];
*/
void proof_copy(uint8_t *to, const uint8_t *from, uint64_t bytes);
#define memcpy proof_copy

/*@ requires room: \valid(to + (0 .. bytes - 1));
    assigns to[0 .. bytes - 1] \from \nothing;
*/
void proof_fill(uint8_t *to, int byte, uint64_t bytes);
#define memset proof_fill

/*@ requires room: \valid(to + (0 .. bytes - 1));
    assigns to[0 .. bytes - 1] \from \nothing;
*/
void proof_wipe(uint8_t *to, uint64_t bytes);
#define gr_wipe proof_wipe

/*@ assigns \nothing; */
uint64_t gr_port_now_us(void);

#ifndef PROOF_OPAQUE_LOADS
/*@ logic integer le16(uint8_t *p) = p[0] + 256 * p[1];
    logic integer le32(uint8_t *p) = p[0] + 256 * p[1] + 65536 * p[2] + 16777216 * p[3];
    logic integer le64(uint8_t *p) = le32(p) + 4294967296 * le32(p + 4);
*/
#else
/* The same, for a unit in which the solver need not look inside. */
/*@ axiomatic loads {
      logic integer le16{L}(uint8_t *p) reads p[0 .. 1];
      logic integer le32{L}(uint8_t *p) reads p[0 .. 3];
      logic integer le64{L}(uint8_t *p) reads p[0 .. 7];

      axiom le32_low{L}: \forall uint8_t *p; le32(p) < 256 ==> le32(p) == p[0];
    }
*/
#endif

/*@ requires \valid_read(p + (0 .. 1));
    assigns \nothing;
    admit ensures \result == le16(p);
*/
uint16_t gr_load16(const uint8_t *p);

/*@ requires \valid_read(p + (0 .. 3));
    assigns \nothing;
    admit ensures \result == le32(p);
*/
uint32_t gr_load32(const uint8_t *p);

/*@ requires \valid_read(p + (0 .. 7));
    assigns \nothing;
    admit ensures \result == le64(p);
*/
uint64_t gr_load64(const uint8_t *p);

/*@ assigns \nothing;
    ensures \result == p;
*/
const uint8_t *gr_aligned(const uint8_t *p);

/*@ axiomatic types { logic integer element(integer dtype); }
 */

/*@ assigns \nothing;
    ensures \result <= 4;
    admit ensures \result == element(dtype);
*/
uint32_t gr_dtype_bytes(uint8_t dtype);

#endif
