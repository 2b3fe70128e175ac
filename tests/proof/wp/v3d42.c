/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on: gr_fetch_action (check), the state after gr_load (load). */
#include "state.h"

/* Registers that the driver writes; MMU_CTL only as the constant that turns translation on. */
#ifdef GRAMOPHONE_NETWORKS
#define OR_FLUSH(offset)                                                                                     \
    || offset == GR_HUB_MMUC_CONTROL || offset == GR_CORE0_CTL_L2TFLSTA ||                                   \
        offset == GR_CORE0_CTL_L2TFLEND || offset == GR_CORE0_CTL_L2TCACTL || offset == GR_CORE0_CTL_SLCACTL
#define OR_CLEAR(value) || value == 0x060d0c05
#else
#define OR_FLUSH(offset)
#define OR_CLEAR(value)
#endif
/*@ requires list: offset == GR_HUB_MMU_CTL || offset == GR_HUB_MMU_PT_PA_BASE || offset ==
   GR_HUB_MMU_ADDR_CAP || offset == GR_HUB_MMU_ILLEGAL_ADDR || offset == GR_BRIDGE_SW_INIT_1 OR_FLUSH(offset);
   requires on: offset == GR_HUB_MMU_CTL ==> value == 0x060d0c01 OR_CLEAR(value);
   assigns \nothing;
*/
void gr_port_write32(uint32_t offset, uint32_t value);

/*@ assigns \nothing; */
uint32_t gr_port_read32(uint32_t offset);

/*@ requires va_bytes <= 4294967296;
    assigns \nothing;
    admit ensures shift: \result == (va_bytes + 1048575) / 1048576;
*/
static uint32_t va_mib(uint64_t va_bytes);

/*@ requires va_bytes <= 4294967296;
    assigns \nothing;
    ensures va_bytes <= \result * GR_PAGE_BYTES;
    ensures \result <= 1048576;
*/
static uint32_t table_pages(uint64_t va_bytes);

/*@ requires carveout(r);
    assigns \nothing;
    ensures room: r->va_bytes / GR_PAGE_BYTES * 4 <= \result <= 4294967296;
*/
uint64_t gr_driver_bytes(const struct gr_replayer *r);

/*@ assigns \nothing; */
bool gr_driver_reset(struct gr_replayer *r);

/*@ requires carveout(r);
    assigns \nothing;
*/
GR_INLINE uint32_t table_frame(const struct gr_replayer *r);

/*@ requires carveout(r);
    assigns \nothing;
*/
void gr_driver_set_table(struct gr_replayer *r, uint32_t space);

/*@ assigns \nothing; */
uint32_t gr_driver_fault(void);

/*@ assigns \nothing; */
uint32_t gr_driver_fault_place(uint32_t fault);

/*@ axiomatic words { logic uint32_t *words(uint8_t *base, integer at); }
    logic uint32_t *entries(struct gr_replayer *r) = words(r->memory.base, GR_DRIVER_AT(r));
*/

// A word for each page of the trace's address range: the driver's memory lies from GR_DRIVER_AT to
// GR_DRIVER_END.
/*@ requires carveout(r);
    assigns \nothing;
    admit ensures \result == entries(r);
    admit ensures cast: \valid(\result + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
*/
static volatile uint32_t *table(const struct gr_replayer *r);

/*@ requires carveout(r) && pages(r, a);
    requires \separated(a, entries(r) + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
    requires \separated(r, entries(r) + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
    assigns entries(r)[a->a .. a->a + a->value - 1];
*/
static enum gr_status set_pages(struct gr_replayer *r, const struct gr_action *a, uint32_t entry);

/*@ requires carveout(r) && pages(r, a);
    requires (a->b + a->value) * GR_PAGE_BYTES <= r->carveout_bytes;
    requires \separated(a, entries(r) + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
    requires \separated(r, entries(r) + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
    assigns entries(r)[a->a .. a->a + a->value - 1];
*/
enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a);

/*@ requires carveout(r) && pages(r, a);
    requires \separated(a, entries(r) + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
    requires \separated(r, entries(r) + (0 .. r->va_bytes / GR_PAGE_BYTES - 1));
    assigns entries(r)[a->a .. a->a + a->value - 1];
*/
enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a);

/*@ requires carveout(r);
    assigns \nothing;
    ensures page: \result == UINT64_MAX || \result % GR_PAGE_BYTES == va % GR_PAGE_BYTES;
*/
uint64_t gr_driver_translate(const struct gr_replayer *r, uint32_t space, uint64_t va);

/*@ assigns \nothing; */
bool gr_driver_is_idle(void);

/*@ requires carveout(r);
    assigns r->code;
*/
enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value);

#ifdef GRAMOPHONE_NETWORKS
/*@ assigns \nothing; */
static bool is_cleared(uint32_t offset, uint32_t bits);

/*@ assigns \nothing; */
static bool flush_caches(void);

/*@ requires carveout(r);
    assigns \nothing;
*/
bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end);

/*@ requires carveout(r);
    assigns \nothing;
*/
bool gr_driver_switch(struct gr_replayer *r);
#endif

#ifdef GRAMOPHONE_SCHEDULE
/*@ assigns \nothing; */
bool gr_driver_can_switch(void);
#endif

/*@ requires \valid_read(a);
    assigns \nothing;
*/
bool gr_driver_begins_job(const struct gr_action *a);
#include "shipped/v3d42.c"
