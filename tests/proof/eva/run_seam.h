/* SPDX-License-Identifier: BSD-2-Clause */
/* What run.c meets, with networks: any actions that gr_fetch_action lets pass (unit check), a GPU and a clock
 * that say anything, any state of a loaded trace. The carve-out is a few words. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "__fc_builtin.h"
#include "driver.h"
#include "gr_target.h"
#include "internal.h"
#include "string.h"

enum { ACTIONS = 3, IMAGE = 16, WORK = 64, END = 128, BUDGET_US = 1000000 };
static uint64_t memory[END / 8];
static uint32_t actions[ACTIONS * GR_ACTION_BYTES / 4];
static struct gr_limits limits;

/*@ assigns \result \from offset; */
uint32_t gr_port_read32(uint32_t offset);
/*@ assigns \nothing; */
void gr_port_write32(uint32_t offset, uint32_t value);
/*@ requires line: line < GR_INTERRUPT_LINES;
    assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_port_wait_irq(unsigned line, uint32_t timeout_us);
/*@ assigns \result \from \nothing; */
uint32_t gr_driver_fault(void);
/*@ assigns \result \from fault; */
uint32_t gr_driver_fault_place(uint32_t fault);
/*@ assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_driver_is_idle(void);
/*@ requires \valid(r); assigns \result, r->code, r->locked \from value; */
enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value);
/*@ assigns \nothing; */
void gr_driver_set_table(struct gr_replayer *r, uint32_t space);
/*@ requires \valid_read(a) && \initialized(a); assigns \result \from *a; */
enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a);
/*@ requires \valid_read(a) && \initialized(a); assigns \result \from *a; */
enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a);
/*@ assigns \result, r->locked \from \nothing; ensures 0 <= \result <= 1; */
bool gr_driver_reset(struct gr_replayer *r);
/*@ requires \valid_read(a); assigns \result \from a->op; ensures 0 <= \result <= 1; */
bool gr_driver_begins_job(const struct gr_action *a);
/*@ requires slot: index < GR_SLOTS;
    assigns \result \from index; ensures 0 <= \result <= 1; */
bool gr_lacks_data(const struct gr_replayer *r, uint32_t index);
/*@ requires slot: index < GR_SLOTS; assigns \result \from index; */
enum gr_status gr_copy_slot(struct gr_replayer *r, uint32_t index, bool to_gpu);
/*@ assigns \result \from action->arg; */
uint32_t gr_action_address_space(const struct gr_action *action);
#ifdef GRAMOPHONE_OPERATORS
// An element lies in what an operator may write (unit operate).
/*@ requires \valid_read(a) && \initialized(a);
    assigns \result, memory[IMAGE / 8 .. END / 8 - 1] \from *a; */
enum gr_status gr_operate(struct gr_replayer *r, const struct gr_action *a);
#endif
#ifdef GRAMOPHONE_STORE
/*@ requires \valid(r); assigns \result, r->is_kept \from \nothing;
    ensures 0 <= r->is_kept <= 1; */
enum gr_status gr_store_keep(struct gr_replayer *r);
#endif

uint64_t gr_port_now_us(void)
{
    return Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
}

const struct gr_limits *gr_find_register(uint32_t index, uint32_t access)
{
    (void)index;
    (void)access;
    return Frama_C_nondet_ptr(&limits, NULL);
}

/* Where replays can stop between jobs. */
#ifdef GRAMOPHONE_STEPS
#define LOSE_STEPS(progress)                                                                                 \
    (progress.is_away = Frama_C_interval(0, 1), progress.under_way.is_begun = Frama_C_interval(0, 1))
#define FORGET_STEPS(progress)                                                                               \
    (LOSE_STEPS(progress), progress.under_way.can_repeat = Frama_C_interval(0, 1),                           \
     progress.under_way.next = Frama_C_unsigned_int_interval(0, ACTIONS - 1),                                \
     progress.under_way.spent_us = Frama_C_unsigned_long_long_interval(0, BUDGET_US))
#else
#define LOSE_STEPS(progress) ((void)0)
#define FORGET_STEPS(progress) ((void)0)
#endif

/* What networks.c does (unit networks), as far as it is seen here. */
static void lose(struct gr_replayer *r)
{
    //@ loop unroll 4;
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        r->progress[i].started = Frama_C_interval(0, 1);
        LOSE_STEPS(r->progress[i]);
    }
}

void gr_take_over(struct gr_replayer *r)
{
    lose(r);
    r->running = r->network;
}

bool gr_needs_reset(struct gr_replayer *r)
{
    lose(r);
    return Frama_C_interval(0, 1);
}

/*@ requires \valid_read(r); assigns \nothing; */
void gr_wipe_tables(const struct gr_replayer *r);

/* An action as check.c lets it pass: any, with operands that all of them may have; or any operands, of those
 * whose operands lead nowhere. */
static bool is_any_action;

enum gr_status gr_fetch_action(struct gr_replayer *r, uint32_t index, struct gr_action *a)
{
    //@ assert action: index < ACTIONS;
    r->limits = Frama_C_nondet_ptr(&limits, NULL);
    a->flags = (uint8_t)Frama_C_interval(0, 255);
    if (is_any_action) {
        a->op = (uint8_t)Frama_C_interval(0, 255);
        a->arg = (uint16_t)Frama_C_interval(0, GR_INTERRUPT_LINES - 1);
        a->value = Frama_C_unsigned_int_interval(1, IMAGE);
        a->a = Frama_C_unsigned_int_interval(IMAGE, WORK - IMAGE);
        a->b = 0;
    } else {
        a->op = (uint8_t)Frama_C_nondet(
            Frama_C_nondet(Frama_C_nondet(GR_OP_REG_READ_ONCE, GR_OP_REG_READ_WAIT), GR_OP_REG_WRITE),
            Frama_C_nondet(Frama_C_nondet(GR_OP_INTERVAL, GR_OP_JOB), GR_OP_REPLAY_START));
        a->arg = (uint16_t)Frama_C_interval(0, UINT16_MAX);
        a->value = Frama_C_unsigned_int_interval(0, UINT32_MAX);
        a->a = Frama_C_unsigned_int_interval(0, UINT32_MAX);
        a->b = Frama_C_unsigned_int_interval(0, UINT32_MAX);
    }
    return Frama_C_nondet(GR_STATUS_OK, GR_STATUS_ACTION);
}

static void forget(struct gr_replayer *r)
{
    Frama_C_make_unknown((char *)memory, sizeof memory);
    Frama_C_make_unknown((char *)&limits, sizeof limits);
    Frama_C_make_unknown((char *)actions, sizeof actions);
    Frama_C_make_unknown((char *)r, sizeof *r);
    r->actions = (const uint8_t *)actions;
    r->memory.base = (uint8_t *)memory;
    r->state = Frama_C_nondet(0, GR_STATE_LOADED);
    r->touched = Frama_C_interval(0, 1);
    r->network_count = GR_NETWORKS;
    r->network = Frama_C_unsigned_int_interval(0, GR_NETWORKS - 1);
    //@ loop unroll 4;
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        r->networks[i].first_action = Frama_C_unsigned_int_interval(0, ACTIONS);
        r->networks[i].replay_start = Frama_C_unsigned_int_interval(0, ACTIONS - 1);
        r->networks[i].end_action = Frama_C_unsigned_int_interval(0, ACTIONS);
        r->networks[i].first_slot = Frama_C_unsigned_int_interval(0, GR_SLOTS);
        r->networks[i].end_slot = Frama_C_unsigned_int_interval(0, GR_SLOTS);
        r->networks[i].time_budget_us = BUDGET_US;
        r->progress[i].started = Frama_C_interval(0, 1);
        FORGET_STEPS(r->progress[i]);
    }
}

/* Eva keeps the rounds of gr_leave's loop apart only if it sees how many there are: see `forget`. */
#undef GR_COUNT
#define GR_COUNT(r) GR_NETWORKS
