/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_check_envelope (envelope), gr_stream_take (stream), gr_lz4_decode (lz4), gr_fetch_action
 * (check), gr_driver_bytes (the drivers' units). */
#define PROOF_OPAQUE_LOADS
#include "loader.h"
#include "state.h"
/* Here they take structures. */
#undef gr_wipe
#undef memset

/* l->image_bytes before each section of the table, and after the last. */
//@ ghost uint64_t proof_images[GR_MAX_SECTIONS + 1];

/* What the copied section table says. */
/*@ predicate readable(struct loader *l) = \valid_read(l) && \valid_read(l->head + (0 .. l->head_bytes - 1))
   && counted(l);

    logic uint8_t *entry(uint8_t *head, integer i) = head + GR_HEADER_BYTES + i * GR_SECTION_BYTES;
    logic integer type(uint8_t *head, integer i) = le16(entry(head, i) + GR_SECTION_AT_TYPE);
    logic integer codec(uint8_t *head, integer i) = *(entry(head, i) + GR_SECTION_AT_CODEC);
    logic integer offset(uint8_t *head, integer i) = le64(entry(head, i) + GR_SECTION_AT_OFFSET);
    logic integer stored(uint8_t *head, integer i) = le64(entry(head, i) + GR_SECTION_AT_STORED_BYTES);
    logic integer raw(uint8_t *head, integer i) = le64(entry(head, i) + GR_SECTION_AT_RAW_BYTES);

    // What is not compressed is as long as it will be.
    predicate section(uint8_t *head, integer i) = raw(head, i) <= 4294967296 &&
      (codec(head, i) != GR_CODEC_LZ4 ==> stored(head, i) == raw(head, i));

    predicate each(uint8_t *head, integer count) = \forall integer k; 0 <= k < count ==> section(head, k);

    // The first ones lie in the head.
    predicate contained(uint8_t *head, integer head_bytes, integer count) =
      \forall integer k; 0 <= k < count && k < HEAD_SECTIONS ==> offset(head, k) + stored(head, k) <=
   head_bytes;

    predicate added(uint8_t *head, integer count) = \forall integer k; 0 <= k < count ==>
      proof_images[k + 1] == proof_images[k] + (type(head, k) == GR_SECTION_TYPE_IMAGE ? raw(head, k) : 0);

    predicate below(integer count, integer image_bytes) = \forall integer k; 0 <= k <= count ==>
      proof_images[k] <= image_bytes;

    // Of the sections that every trace has.
    predicate fixed(struct loader *l) = codec(l->head, MANIFEST) != GR_CODEC_LZ4 &&
      raw(l->head, MANIFEST) == GR_MANIFEST_BYTES && raw(l->head, SLOTS) % GR_SLOT_BYTES == 0 &&
      raw(l->head, IN_HEAD(l)) % GR_ACTION_BYTES == 0;
*/
#define EACH_OF_SECTIONS(clause)                                                                             \
    clause each(l->head, l->section_count);                                                                  \
    clause contained(l->head, l->head_bytes, l->section_count);                                              \
    clause added(l->head, l->section_count);                                                                 \
    clause below(l->section_count, l->image_bytes);                                                          \
    clause fixed(l);

/* The carve-out, in ascending order: image, what the GPU uses, actions, slots, the stream's buffer, the head.
 */
/*@ logic integer place(struct loader *l, uint8_t *at) = at - l->r->memory.base;

    // At an offset of the carve-out between two others.
    predicate inside(struct loader *l, uint8_t *at, integer bytes, integer low, integer end) =
      \base_addr(at) == \base_addr(l->r->memory.base) && low <= place(l, at) && place(l, at) + bytes <= end;

    predicate buffer(struct loader *l) =
      inside(l, l->stream.chunk, l->stream.chunk_bytes, 0, place(l, l->head)) &&
      GR_MIN_CHUNK_BYTES <= l->stream.chunk_bytes <= GR_MAX_CHUNK_BYTES;

    predicate hashed(struct loader *l) = l->stream.left > 0 ==>
      inside(l, l->stream.hashes, 32, place(l, l->head), l->r->memory.bytes);

    // From the buffer to the head's end.
    predicate window(struct loader *l) = proof_window == l->stream.chunk &&
      proof_window_bytes == place(l, l->head) + l->head_bytes - place(l, l->stream.chunk);

    predicate placed(struct loader *l) =
      inside(l, l->r->actions, l->r->action_count * GR_ACTION_BYTES, l->r->low_bytes, place(l, l->r->slots))
   && inside(l, l->r->slots, l->r->slot_count * GR_SLOT_BYTES, 0, place(l, l->stream.chunk)) && 0 <= place(l,
   l->r->high) <= place(l, l->r->actions);

    predicate manifest(struct gr_replayer *r) = \valid_read(r->manifest + (0 .. GR_MANIFEST_BYTES - 1));
*/
#define EACH_OF_STREAM(clause)                                                                               \
    clause buffer(l);                                                                                        \
    clause more(&l->stream);                                                                                 \
    clause window(l);                                                                                        \
    clause held(&l->stream);

/* What runs rely on, beside the place where they begin. */
#define EACH_OF_STATE(clause, r)                                                                             \
    clause carveout(r);                                                                                      \
    clause tables(r);                                                                                        \
    clause manifest(r);

/*@ requires readable(l) && index < l->section_count;
    assigns \nothing;
    ensures \result == entry(l->head, index);
    ensures \valid_read(\result + (0 .. GR_SECTION_BYTES - 1));
*/
GR_INLINE const uint8_t *section_at(const struct loader *l, uint32_t index);

/*@ requires readable(l) && index < l->section_count;
    assigns \nothing;
    ensures \result == l->head + offset(l->head, index);
*/
GR_INLINE const uint8_t *section_data(const struct loader *l, uint32_t index);

/*@ requires readable(l) && index < l->section_count;
    assigns \nothing;
    ensures \result == raw(l->head, index);
*/
GR_INLINE uint64_t section_bytes(const struct loader *l, uint32_t index);

/*@ requires readable(l) && index < l->section_count;
    assigns \nothing;
    ensures \result == stored(l->head, index);
*/
GR_INLINE uint64_t stored_bytes(const struct loader *l, uint32_t index);

/*@ requires \valid_read(l);
    assigns \nothing;
*/
static bool is_in_order(const struct loader *l, uint32_t i, uint32_t type, uint32_t flags, uint32_t before);

#ifdef GRAMOPHONE_STREAMING
// As proved of streaming.c.
/*@ requires \valid(l) && \valid_read(s + (0 .. GR_SECTION_BYTES - 1));
    assigns l->pieces_section, l->pieces_at, l->pieces_bytes;
*/
bool gr_takes_section(struct loader *l, uint32_t index, const uint8_t *s);
#endif

/*@ requires table(l) && chunked(l) && l->trace_bytes <= 1099511627776 && l->image_bytes == 0;
    assigns l->r->report.offset, l->image_bytes, l->stream.hashes, l->state, proof_images[0 ..
   GR_MAX_SECTIONS] AND_STREAM(l); EACH_OF_SECTIONS(ensures \result == GR_STATUS_OK ==>) admit ensures hash:
   \result == GR_STATUS_OK ==> hashed(l);
*/
static enum gr_status check_sections(struct loader *l);

/*@ assigns \nothing; */
uint32_t gr_port_read32(uint32_t offset);

/*@ requires \valid(l) && \valid(l->r) && \separated(l, l->r);
    requires \valid_read(m + (0 .. GR_MANIFEST_BYTES - 1));
    assigns l->r->report.expected, l->r->report.seen, l->state;
*/
static enum gr_status check_identity(struct loader *l, const uint8_t *m);

/*@ requires table(l) && index < l->section_count && section(l->head, index);
    EACH_OF_STREAM(requires)
    requires out == \null || inside(l, out, raw(l->head, index), 0, place(l, l->stream.chunk));
    assigns TAKEN((&l->stream)), out[0 .. (out == \null ? 0 : raw(l->head, index)) - 1];
    ensures stream(&l->stream);
    ensures held(&l->stream);
*/
static void take_section(struct loader *l, uint32_t index, uint8_t *out);

// See check.c and slots.c.
/*@ requires carveout(r) && tables(r);
    requires index < r->action_count;
    requires \valid(action) && \separated(action, r) &&
      \separated(action, r->memory.base + (0 .. r->memory.bytes - 1));
    assigns *action, r->report.action, r->report.op, r->report.offset, r->limits;
*/
enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *action);

// At most 2^28 actions, of which each needs at most 2^23 tables of 4 KiB (mali_g71.c).
/*@ requires carveout(r) && tables(r);
    assigns \nothing;
    admit ensures bound: \result <= 9223372036854775808;
*/
uint64_t gr_driver_bytes(const struct gr_replayer *r);

// Both numbers are the caller's own; what the driver needs comes behind what there was.
/*@ requires \valid(r) && \valid(jobs) && \valid(low_bytes) && \separated(r, jobs, low_bytes);
    requires \separated(jobs, r->memory.base + (0 .. r->memory.bytes - 1));
    requires \separated(low_bytes, r->memory.base + (0 .. r->memory.bytes - 1));
    requires *low_bytes <= 1099511627776;
    EACH_OF_STATE(requires, r)
    assigns r->report.action, r->report.op, r->report.offset, r->limits, r->replay_start, *jobs, *low_bytes;
    EACH_OF_STATE(ensures, r)
    ensures added: \result == GR_STATUS_OK ==> \old(*low_bytes) <= *low_bytes;
    ensures r->replay_start == \old(r->replay_start) || r->replay_start < r->action_count;
*/
static enum gr_status check_network(struct gr_replayer *r, uint32_t *jobs, uint64_t *low_bytes);

/*@ requires ready(l) && placed(l) && l->r->low_bytes == l->r->carveout_bytes;
    EACH_OF_STATE(requires, l->r)
    assigns l->r->report, l->r->limits, l->r->replay_start, l->r->low_bytes, l->state;
    EACH_OF_STATE(ensures \result == GR_STATUS_OK ==>, l->r)
    ensures l->r->low_bytes <= l->r->memory.bytes;
    ensures l->r->replay_start == \old(l->r->replay_start) || l->r->replay_start < l->r->action_count;
*/
static enum gr_status check_actions(struct loader *l);
#include "shipped/load.c"
