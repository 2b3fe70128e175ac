/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_check_envelope (envelope). */
#include "loader.h"
/* Here they are defined, or take structures. */
#undef gr_wipe
#undef memset

/*@ predicate table(struct loader *l) = ready(l) && copied(l) &&
      HEAD_SECTIONS < l->section_count <= GR_MAX_SECTIONS &&
      GR_HEADER_BYTES + l->section_count * GR_SECTION_BYTES <= l->head_bytes;
*/

/*@ requires ready(l) && bytes <= 4294967296;
    assigns l->r->high;
    ensures room: l->r->high == \old(l->r->high) ||
      l->r->high - l->r->memory.base + bytes <= l->r->memory.bytes;
    ensures taken: \result == \null || \result == l->r->high;
    ensures ready(l);
*/
void *gr_take_memory(struct loader *l, uint64_t bytes);

/*@ requires table(l) && index < l->section_count;
    assigns \nothing;
    ensures \result == l->head + GR_HEADER_BYTES + index * GR_SECTION_BYTES;
    ensures \valid_read(\result + (0 .. GR_SECTION_BYTES - 1));
*/
GR_INLINE const uint8_t *section_at(const struct loader *l, uint32_t index);

/*@ requires table(l) && index < l->section_count;
    assigns \nothing;
*/
GR_INLINE const uint8_t *section_data(const struct loader *l, uint32_t index);

/*@ requires table(l) && index < l->section_count;
    assigns \nothing;
*/
GR_INLINE uint64_t section_bytes(const struct loader *l, uint32_t index);

/*@ requires table(l) && index < l->section_count;
    assigns \nothing;
*/
GR_INLINE uint64_t stored_bytes(const struct loader *l, uint32_t index);

/*@ assigns \nothing; */
static bool is_in_order(uint32_t i, uint32_t type, uint32_t flags, uint32_t before);

/*@ requires table(l) && l->head_bytes <= l->trace_bytes <= 1099511627776;
    assigns l->r->report.offset, l->image_bytes, l->stream.hashes, l->state;
*/
static enum gr_status check_sections(struct loader *l);

/*@ assigns \nothing; */
uint32_t gr_port_read32(uint32_t offset);

/*@ requires \valid(l) && \valid(l->r) && \separated(l, l->r);
    requires \valid_read(m + (0 .. GR_MANIFEST_BYTES - 1));
    assigns l->r->report.expected, l->r->report.seen, l->state;
*/
static enum gr_status check_identity(struct loader *l, const uint8_t *m);
#include "shipped/load.c"
