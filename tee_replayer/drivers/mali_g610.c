/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Nano driver for the Arm Mali G610, whose jobs a microcontroller takes from rings of instructions. Order and
 * layout: Linux 6.12 drivers/gpu/drm/panthor (panthor_fw.h, panthor_fw.c, panthor_mmu.c, panthor_sched.c).
 *
 * A trace writes no register. It names streams, each of which is judged here and then called by the ring's
 * only queue. A trace's address space 0 is the GPU's 1; the GPU's 0, the microcontroller's, is the root
 * FIRMWARE. Behind the tables lie pages that no trace can map: the ring, what the ring signals to, the ring's
 * interface, buffers for what is suspended, the firmware's sections.
 */
#include "crypto.h"
#include "gpu_firmware.h"
#include "mali.h"
#include "mali_mcu.h"

/* The microcontroller is off, and stays so. */
bool gr_driver_reset(struct gr_replayer *r)
{
    (void)r;
    gr_port_write32(GR_GPU_MCU_CONTROL, CONTROL_OFF);
    return reset_gpu(SOFT_RESET, HARD_RESET) && gr_port_read32(GR_GPU_MCU_STATUS) == STATUS_OFF;
}

/* Other address spaces are no trace's: what is set there, a call finds and refuses. */
void gr_driver_set_table(struct gr_replayer *r, uint32_t space)
{
    if (space == SPACE)
        set_table(r, space);
}

/* Whether an action's pages are a trace's. */
static bool may_change(const struct gr_action *a)
{
    return gr_action_address_space(a) == SPACE && gr_action_va_page(a) + a->value <= RING_VA / GR_PAGE_BYTES;
}

enum gr_status gr_driver_map(struct gr_replayer *r, const struct gr_action *a)
{
    return may_change(a) ? map_pages(r, a) : GR_STATUS_RANGE;
}

enum gr_status gr_driver_unmap(struct gr_replayer *r, const struct gr_action *a)
{
    return may_change(a) ? set_pages(r, a, 0) : GR_STATUS_RANGE;
}

uint32_t gr_driver_fault(void)
{
    const uint32_t fault = gr_port_read32(GR_MMU_IRQ_RAWSTAT);
    return fault ? fault : (gr_port_read32(GR_GPU_IRQ_RAWSTAT) & GPU_FAULTS) << GPU_REPORT_SHIFT;
}

uint32_t gr_driver_fault_place(uint32_t fault)
{
    return fault_place(fault, SPACE_FAULT);
}

#ifdef GRAMOPHONE_NETWORKS
/* The firmware keeps what a queue has. */
bool gr_driver_switch(struct gr_replayer *r)
{
    (void)r;
    return false;
}
#endif

#ifdef GRAMOPHONE_SCHEDULE
bool gr_driver_can_switch(void)
{
    return false;
}
#endif

/* A call has ended when it returns, or the GPU is reset. */
bool gr_driver_is_idle(void)
{
    return true;
}

enum gr_status gr_driver_check_write(struct gr_replayer *r, uint32_t offset, uint32_t value)
{
    (void)r;
    (void)offset;
    (void)value;
    return GR_STATUS_REGISTER;
}

#ifdef GRAMOPHONE_STEPS
bool gr_driver_begins_job(const struct gr_action *a)
{
    return a->op == GR_OP_JOB;
}
#endif

/* ---- calls ---- */

enum gr_status gr_check_stream(const struct gr_replayer *r, const struct gr_action *a)
{
    if (a->op != GR_OP_RUN_STREAM)
        return GR_STATUS_OK;
    const uint64_t stream = gr_action_stream(a),
                   bytes = (uint64_t)gr_action_instructions(a) * INSTRUCTION_BYTES;
    if (!a->value || !bytes || stream % INSTRUCTION_BYTES)
        return GR_STATUS_ACTION;
    return gr_action_address_space(a) == SPACE && stream + bytes <= r->va_bytes ? GR_STATUS_OK
                                                                                : GR_STATUS_RANGE;
}

/* Bits that an instruction may have, by its opcode. */
static const uint64_t rules[] = {GR_STREAM_RULES};

/* Judge a stream: it lies in the image, which nothing can write, and each instruction is one of few. */
static enum gr_status judge(struct gr_replayer *r, const struct gr_action *a)
{
    const uint32_t count = gr_action_instructions(a);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t at =
            gr_driver_translate(r, SPACE, gr_action_stream(a) + (uint64_t)i * INSTRUCTION_BYTES);
        r->report.expected = i;
        if (at >= r->image_end)
            return GR_STATUS_STREAM;
        const uint64_t word = gr_load64(gr_aligned(r->memory.base + at)), op = word >> OPCODE_SHIFT;
        r->report.seen = (uint32_t)(word >> 32);
        const uint64_t bits = op < sizeof rules / sizeof rules[0] ? rules[op] : 0;
        if (!bits || word & ~bits & ((UINT64_C(1) << OPCODE_SHIFT) - 1) ||
            (word >> REGISTER_SHIFT & 0xff) >= GR_STREAM_REGISTERS)
            return GR_STATUS_STREAM;
    }
    return GR_STATUS_OK;
}

/* Let the GPU see the tables as they are now. */
static bool flush_tables(void)
{
    const uint32_t at = hardware(SPACE) * SPACE_BYTES;
    write64(GR_AS0_LOCKADDR_LO + at, WHOLE_SPACE);
    gr_port_write32(GR_AS0_COMMAND + at, LOCK);
    const bool is_locked = register_is(GR_AS0_STATUS + at, 1, 0);
    gr_port_write32(GR_AS0_COMMAND + at, FLUSH_MEM);
    return register_is(GR_AS0_STATUS + at, 1, 0) && is_locked;
}

/* Whether the two address spaces have our tables and no other has any: one skipped instruction could have
 * left one another's. */
static bool has_own_tables(const struct gr_replayer *r)
{
    for (uint32_t space = 0; space < GR_ADDRESS_SPACES; space++)
        if (!has_table(hardware(space), table_phys(r, space)))
            return false;
    return true;
}

/* Put a call into the ring, as the kernel's driver does; what its end adds to is `count` then. */
static uint32_t put_call(const struct gr_replayer *r, const struct gr_action *a)
{
    const uint64_t call[CALLING] = {
        INSTRUCTION(1, 92, gr_action_stream(a)),
        INSTRUCTION(2, 94, gr_action_instructions(a) * INSTRUCTION_BYTES),
        CALL_92,
        INSTRUCTION(1, 92, RING_VA + GR_PAGE_BYTES),
        INSTRUCTION(1, 94, 1),
        WAIT_ALL,
        SYNC_ADD_92,
        INSTRUCTION(0, 0, 0),
    };
    volatile uint64_t *inserted = own64(r, INTERFACE_PAGES, 0);
    const uint64_t at = *inserted & ~(uint64_t)(sizeof call - 1);
    memcpy(own_page(r, RING_PAGE) + at % GR_PAGE_BYTES, call, sizeof call);
    *inserted = at + sizeof call;
    return (uint32_t)(at / sizeof call) + 1;
}

enum gr_status gr_run_stream(struct gr_replayer *r, const struct gr_action *a)
{
    if (a->op != GR_OP_RUN_STREAM)
        return GR_STATUS_OK;
    const struct gr_gpu_firmware *f = &gr_gpu_firmware;
    enum gr_status status = judge(r, a);
    if (status == GR_STATUS_OK && gr_port_read32(GR_GPU_MCU_STATUS) != STATUS_ON)
        status = boot(r);
    if (status != GR_STATUS_OK)
        return status;
    if (!flush_tables() || !has_own_tables(r))
        return GR_STATUS_DIVERGED;
    const uint32_t count = put_call(r, a);
    const uint64_t now = gr_port_now_us(), left = now < r->deadline_us ? r->deadline_us - now : 0;
    volatile uint32_t *sync = (volatile uint32_t *)(void *)own_page(r, SYNC_PAGE);
    gr_port_write32(GR_DOORBELL1_RING, 1);
    const bool is_done = answers(sync, UINT32_MAX, count, a->value < left ? a->value : left);
    /* Events that were told can be told again. */
    const uint32_t told = *shared(r, f->group_output + REQUEST) & ~(uint32_t)(GROUP_STATE | ENDPOINT_REQUEST);
    *shared(r, f->group_input + REQUEST) = told | START | ENDPOINT_REQUEST;
    r->report.expected = 0;
    r->report.seen =
        *shared(r, f->stream_output + STREAM_FAULT) | *shared(r, f->stream_output + STREAM_FATAL);
    if (gr_driver_fault() || r->report.seen || sync[2])
        return GR_STATUS_FAULT;
    return is_done ? GR_STATUS_OK : a->value < left ? GR_STATUS_TIMEOUT : GR_STATUS_BUDGET;
}
