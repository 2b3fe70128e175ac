/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_driver_translate (discharged in the drivers' units); the state after gr_load (load). */
#include "state.h"

/*@ predicate bound(struct gr_replayer *r, integer i) = r->bound[i] == \null ||
      (\valid(r->bound[i] + (0 .. dense(slot(r, i)) - 1)) &&
       \separated(r->bound[i] + (0 .. dense(slot(r, i)) - 1), r->memory.base + (0 .. r->memory.bytes - 1)) &&
       \separated(r->bound[i] + (0 .. dense(slot(r, i)) - 1), r));
*/

/*@ requires carveout(r);
    assigns \nothing;
    admit ensures page: \result == UINT64_MAX || \result % GR_PAGE_BYTES == va % GR_PAGE_BYTES;
*/
uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va);

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    assigns \nothing;
    ensures \result == slot(r, index);
    ensures \valid_read(\result + (0 .. GR_SLOT_BYTES - 1));
*/
static const uint8_t *slot_at(const struct gr_replayer *r, uint32_t index);

/*@ requires \valid_read(slot + (0 .. GR_SLOT_BYTES - 1)) && i < GR_MAX_RANK;
    assigns \nothing;
    ensures \result == dim(slot, i);
*/
GR_INLINE uint32_t dimension(const uint8_t *slot, uint32_t i);

/*@ requires \valid_read(slot + (0 .. GR_SLOT_BYTES - 1)) && i < GR_MAX_RANK;
    assigns \nothing;
*/
GR_INLINE uint32_t stride(const uint8_t *slot, uint32_t i);

/*@ requires \valid_read(slot + (0 .. GR_SLOT_BYTES - 1));
    assigns \nothing;
*/
GR_INLINE uint32_t address_space(const uint8_t *slot);

/*@ requires \valid_read(slot + (0 .. GR_SLOT_BYTES - 1));
    assigns \nothing;
*/
GR_INLINE bool is_given(const uint8_t *slot);

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    assigns \nothing;
    ensures \result ==> sized(slot(r, index));
*/
bool gr_slot_is_valid(const struct gr_replayer *r, uint32_t index);

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    assigns \nothing;
*/
static bool is_named(const struct gr_replayer *r, uint32_t index);

/*@ requires \valid_read(p + (0 .. n - 1));
    assigns \nothing;
*/
static inline uint32_t gr_is_zero(const uint8_t *p, size_t n);

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    admit requires loaded: sized(slot(r, index));
    assigns \nothing;
    admit ensures definition: \result == dense(slot(r, index));
*/
uint64_t gr_slot_bytes(const struct gr_replayer *r, uint32_t index);

/*@ requires carveout(r);
    requires \valid(data + (0 .. bytes - 1)) && bytes <= 4294967296;
    requires \separated(data + (0 .. bytes - 1), r->memory.base + (0 .. r->memory.bytes - 1));
    requires \separated(data + (0 .. bytes - 1), r);
    assigns data[0 .. bytes - 1], r->memory.base[r->image_end .. r->carveout_bytes - 1];
*/
static enum gr_status copy_run(const struct gr_replayer *r, uint32_t space, uint64_t va, uint8_t *data,
                               uint64_t bytes, bool to_gpu);

#ifdef GRAMOPHONE_LOG_HASHES
// A log writes its own memory only (unit log).
/*@ assigns \nothing; */
void gr_log_slot(struct gr_log *log, uint32_t slot, uint64_t bytes, bool to_gpu);
/*@ requires \valid_read(data + (0 .. bytes - 1));
    assigns \nothing;
*/
void gr_log_bytes(struct gr_log *log, const uint8_t *data, uint64_t bytes, bool to_gpu);
#endif

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    admit requires loaded: slots(r) && bound(r, index);
    assigns r->memory.base[r->image_end .. r->carveout_bytes - 1], r->bound[index][0 .. dense(slot(r, index))
   - 1];
*/
enum gr_status gr_copy_slot(struct gr_replayer *r, uint32_t index, bool to_gpu);

/*@ requires carveout(r) && tables(r);
    requires index < r->slot_count;
    assigns \nothing;
*/
bool gr_lacks_data(const struct gr_replayer *r, uint32_t index);
/*@ requires \valid_read(r);
    assigns \nothing;
*/
uint32_t gr_slot_count(const struct gr_replayer *r);
#include "shipped/slots.c"
