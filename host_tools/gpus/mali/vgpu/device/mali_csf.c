/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The firmware's contract: what panthor sees of the microcontroller, at registers and in shared memory.
 * Requests are bits that differ from the acknowledged ones. Sources: see mali_csf.h.
 *
 * The driver rings a doorbell after each interrupt, so an idle group is told once: an event at each ring
 * would never end.
 */
#include "mali_csf.h"

#include <stdlib.h>
#include <string.h>

enum { MCU_OFF, MCU_ON, MCU_HALTED };
enum { CONTROL_OFF };
enum { TYPE_RESET = 1, TYPE_FLUSH = 4, RESET_SOFT = 1, RESET_HARD = 2 };
enum { INTERFACE = 0x01010000, GLOBAL_IRQ = 31, SUSPEND_BYTES = 0x1000, FIRMWARE_SPACE = 0 };
/* Control blocks, in the section of the firmware that is shared; offsets in them and in what they lead to. */
enum {
    SHARED = 0x04000000,
    GLOBAL_INPUT = 0x8,
    GLOBAL_OUTPUT = 0xc,
    GLOBAL_GROUPS = 0x10,
    GLOBAL_STRIDE = 0x14,
    GROUP_CONTROLS = 0x1000,
    GROUP_INPUT = 0x4,
    GROUP_OUTPUT = 0x8,
    GROUP_SUSPEND = 0xc,
    GROUP_PROTECTED = 0x10,
    GROUP_STREAMS = 0x14,
    GROUP_STRIDE = 0x18,
    STREAM_CONTROLS = 0x40,
    STREAM_INPUT = 0x4,
    STREAM_OUTPUT = 0x8,
};
/* 96 registers, 8 scoreboards; compute, fragment, tiler. */
#define STREAM_FEATURES ((CSF_REGISTERS - 1) | 8 << 8 | 7 << 16)
enum { REQ = 0x0, ACK = 0x0, IRQ_MASK = 0x4, BELL_REQ = 0x8, BELL_ACK = 0x8, HALT_STATUS = 0x10 };
/* Of the global interface; events are the firmware's. */
#define GLOBAL_HALT 0x1u
#define GLOBAL_TAKEN                                                                                         \
    0x70eu /* progress timer, core mask, power-off timer, ping, configuration, idle timer                    \
            */
#define GLOBAL_EVENTS 0x04f00000u
enum { STATE = 0x7, STATE_TERMINATE = 0, STATE_START = 1, STATE_SUSPEND = 2, STATE_RESUME = 3 };
#define GROUP_TAKEN 0x37u /* state, endpoints, status update */
#define GROUP_EVENTS 0xf0000000u
#define GROUP_IDLE (1u << 29)
enum { GROUP_BUFFER = 0x40, GROUP_SPACE = 0x50, GROUP_STATE = 0x18 };
#define STREAM_TAKEN 0xf17u /* state, extract event, what counts as idle */
#define STREAM_EVENTS 0xcc000000u
enum { STREAM_CONFIG = 0x4, STREAM_RING_INPUT = 0x30, STREAM_BLOCKED = 0x60, STREAM_SCOREBOARDS = 0x5c };

/* ---- shared memory ---- */

static void fail(struct mali_device *dev, const char *what, uint64_t value)
{
    vgpu_fail(&dev->base, "%s: %s (0x%llx)", dev->chip->name, what, (unsigned long long)value);
}

uint32_t mali_csf_word(struct mali_device *dev, uint64_t va)
{
    uint32_t value = 0;

    if (!mali_read_data(dev, FIRMWARE_SPACE, va, &value, sizeof(value)))
        fail(dev, "the microcontroller reads at an address that is not mapped", va);
    return value;
}

uint64_t mali_csf_pair(struct mali_device *dev, uint64_t va)
{
    return mali_csf_word(dev, va) | (uint64_t)mali_csf_word(dev, va + 4) << 32;
}

void mali_csf_set(struct mali_device *dev, uint64_t va, uint32_t value)
{
    if (!mali_write(dev, FIRMWARE_SPACE, va, &value, sizeof(value)))
        fail(dev, "the microcontroller writes at an address that is not mapped", va);
}

void mali_csf_set_pair(struct mali_device *dev, uint64_t va, uint64_t value)
{
    mali_csf_set(dev, va, (uint32_t)value);
    mali_csf_set(dev, va + 4, (uint32_t)(value >> 32));
}

static uint64_t group_control(struct mali_device *dev, unsigned group)
{
    return SHARED + GROUP_CONTROLS + (uint64_t)group * mali_csf_word(dev, SHARED + GLOBAL_STRIDE);
}

static uint64_t stream_control(struct mali_device *dev, unsigned group, unsigned stream)
{
    uint64_t control = group_control(dev, group);

    return control + STREAM_CONTROLS + (uint64_t)stream * mali_csf_word(dev, control + GROUP_STRIDE);
}

uint64_t mali_csf_group_input(struct mali_device *dev, unsigned group)
{
    return mali_csf_word(dev, group_control(dev, group) + GROUP_INPUT);
}

uint64_t mali_csf_group_output(struct mali_device *dev, unsigned group)
{
    return mali_csf_word(dev, group_control(dev, group) + GROUP_OUTPUT);
}

uint64_t mali_csf_stream_input(struct mali_device *dev, unsigned group, unsigned stream)
{
    return mali_csf_word(dev, stream_control(dev, group, stream) + STREAM_INPUT);
}

uint64_t mali_csf_stream_output(struct mali_device *dev, unsigned group, unsigned stream)
{
    return mali_csf_word(dev, stream_control(dev, group, stream) + STREAM_OUTPUT);
}

/* ---- requests ---- */

/* What is requested, as far as it is `taken`, is acknowledged; an interrupt, if the driver wants one of it.
 * False: something is requested that is not known. */
static bool acknowledge(struct mali_device *dev, uint64_t input, uint64_t output, uint32_t taken,
                        uint32_t events, unsigned line)
{
    uint32_t wanted = mali_csf_word(dev, input + REQ), before = mali_csf_word(dev, output + ACK);
    uint32_t after = (before & ~taken) | (wanted & taken);

    if ((wanted ^ before) & ~(taken | events)) {
        fail(dev, "a request to the microcontroller that is not modelled", wanted ^ before);
        return false;
    }
    mali_csf_set(dev, output + ACK, after);
    if ((before ^ after) & mali_csf_word(dev, input + IRQ_MASK))
        mali_raise(dev, JOB_IRQ_RAWSTAT, 1u << line);
    return true;
}

void mali_csf_event(struct mali_device *dev, unsigned group, uint32_t bit)
{
    uint64_t input = mali_csf_group_input(dev, group), output = mali_csf_group_output(dev, group);

    if (!(mali_csf_word(dev, input + IRQ_MASK) & bit))
        return;
    uint32_t other = ~mali_csf_word(dev, input + REQ) & bit;
    mali_csf_set(dev, output + ACK, (mali_csf_word(dev, output + ACK) & ~bit) | other);
    mali_raise(dev, JOB_IRQ_RAWSTAT, 1u << group);
}

/* All streams of a group, until none goes on. */
static void run_group(struct mali_device *dev, unsigned number)
{
    struct mali_csf *csf = dev->csf;
    struct csf_group *group = &csf->group[number];
    uint64_t before;

    do {
        before = csf->instructions;
        for (unsigned i = 0; i < CSF_STREAMS; i++)
            if (group->stream[i].is_on && !group->stream[i].is_blocked)
                mali_csf_run(dev, number, i);
    } while (csf->instructions != before && !dev->base.error[0]);
    if (dev->base.error[0])
        return;
    mali_csf_set(dev, mali_csf_group_output(dev, number) + GROUP_STATE, 1);
    if (group->told != csf->instructions + 1)
        mali_csf_event(dev, number, GROUP_IDLE);
    group->told = csf->instructions + 1;
}

static void take_stream(struct mali_device *dev, unsigned group, unsigned number)
{
    struct csf_stream *stream = &dev->csf->group[group].stream[number];
    uint64_t input = mali_csf_stream_input(dev, group, number),
             output = mali_csf_stream_output(dev, group, number);
    uint32_t state = mali_csf_word(dev, input + REQ) & STATE;

    if (state > STATE_START)
        fail(dev, "a state of a stream that is not modelled", state);
    if (state == STATE_START && !stream->is_on) {
        *stream = (struct csf_stream){
            .extract = mali_csf_pair(dev, mali_csf_pair(dev, input + STREAM_RING_INPUT) + 8)};
        mali_csf_set(dev, output + STREAM_BLOCKED, 0);
        mali_csf_set(dev, output + STREAM_SCOREBOARDS, 0);
    }
    stream->is_on = state == STATE_START;
    uint32_t wanted = mali_csf_word(dev, input + REQ), before = mali_csf_word(dev, output + ACK);
    if ((wanted ^ before) & ~(STREAM_TAKEN | STREAM_EVENTS))
        fail(dev, "a request to a stream that is not modelled", wanted ^ before);
    mali_csf_set(dev, output + ACK, (before & ~STREAM_TAKEN) | (wanted & STREAM_TAKEN));
}

/* Streams keep their registers in the group's buffer; here by its address. */
static struct csf_saved *saved_at(struct mali_csf *csf, uint64_t buffer, bool make)
{
    for (unsigned i = 0; i < CSF_SAVED; i++)
        if (csf->saved[i].buffer == buffer || (make && !csf->saved[i].buffer))
            return &csf->saved[i];
    return NULL;
}

static void change_state(struct mali_device *dev, unsigned number, uint32_t state)
{
    struct csf_group *group = &dev->csf->group[number];
    uint64_t buffer = mali_csf_pair(dev, mali_csf_group_input(dev, number) + GROUP_BUFFER);
    struct csf_saved *saved =
        state >= STATE_SUSPEND && buffer ? saved_at(dev->csf, buffer, state == STATE_SUSPEND) : NULL;

    if (state > STATE_RESUME || (state >= STATE_SUSPEND && !saved)) {
        fail(dev, "a state of a group that is not known, or whose buffer is not", buffer);
        return;
    }
    if (state == STATE_SUSPEND) {
        saved->buffer = buffer;
        memcpy(saved->stream, group->stream, sizeof(saved->stream));
    } else if (state == STATE_RESUME) {
        for (unsigned i = 0; i < CSF_STREAMS; i++) {
            bool is_on = group->stream[i].is_on;
            group->stream[i] = saved->stream[i];
            group->stream[i].is_on = is_on;
        }
    }
    group->is_active = state == STATE_START || state == STATE_RESUME;
    group->told = 0;
    for (unsigned i = 0; i < CSF_STREAMS; i++)
        group->stream[i].is_on &= group->is_active;
}

static void take_group(struct mali_device *dev, unsigned number)
{
    uint64_t input = mali_csf_group_input(dev, number), output = mali_csf_group_output(dev, number);
    uint32_t wanted = mali_csf_word(dev, input + REQ) & STATE,
             state = mali_csf_word(dev, output + ACK) & STATE;

    for (unsigned i = 0; i < CSF_STREAMS; i++)
        take_stream(dev, number, i);
    mali_csf_set(dev, output + BELL_ACK, mali_csf_word(dev, input + BELL_REQ));
    if (wanted != state)
        change_state(dev, number, wanted);
    if (acknowledge(dev, input, output, GROUP_TAKEN, GROUP_EVENTS, number) &&
        dev->csf->group[number].is_active)
        run_group(dev, number);
}

static void take_global(struct mali_device *dev)
{
    uint64_t input = mali_csf_word(dev, SHARED + GLOBAL_INPUT),
             output = mali_csf_word(dev, SHARED + GLOBAL_OUTPUT);

    if (mali_csf_word(dev, input + REQ) & GLOBAL_HALT) { /* which is not acknowledged */
        *mali_reg(dev, CSF_GPU_MCU_STATUS) = MCU_HALTED;
        mali_csf_set(dev, output + HALT_STATUS, 0);
        return;
    }
    if (!acknowledge(dev, input, output, GLOBAL_TAKEN, GLOBAL_EVENTS, GLOBAL_IRQ))
        return;
    uint32_t bells = mali_csf_word(dev, input + BELL_REQ), taken = mali_csf_word(dev, output + BELL_ACK);
    mali_csf_set(dev, output + BELL_ACK, bells);
    for (unsigned i = 0; i < CSF_GROUPS; i++)
        if ((bells ^ taken) >> i & 1)
            take_group(dev, i);
}

/* A doorbell of user space: the streams whose configuration has it. */
static void take_rung(struct mali_device *dev, uint64_t rung)
{
    for (unsigned g = 0; g < CSF_GROUPS; g++) {
        struct csf_group *group = &dev->csf->group[g];
        bool is_meant = false;

        for (unsigned i = 0; group->is_active && i < CSF_STREAMS; i++) {
            uint32_t config = group->stream[i].is_on
                                  ? mali_csf_word(dev, mali_csf_stream_input(dev, g, i) + STREAM_CONFIG)
                                  : 0;
            is_meant |= group->stream[i].is_on && rung >> (config >> 8 & 63) & 1;
        }
        if (is_meant)
            run_group(dev, g);
    }
}

/* Fill in what the firmware fills in. */
static void start(struct mali_device *dev)
{
    if (mali_csf_word(dev, SHARED + GLOBAL_GROUPS) != CSF_GROUPS) {
        fail(dev, "a firmware of another number of groups than 8",
             mali_csf_word(dev, SHARED + GLOBAL_GROUPS));
        return;
    }
    mali_csf_set(dev, SHARED, INTERFACE);
    for (unsigned g = 0; g < CSF_GROUPS; g++) {
        uint64_t control = group_control(dev, g);
        if (mali_csf_word(dev, control + GROUP_STREAMS) != CSF_STREAMS)
            fail(dev, "a firmware of another number of streams than 8",
                 mali_csf_word(dev, control + GROUP_STREAMS));
        mali_csf_set(dev, control, 0);
        mali_csf_set(dev, control + GROUP_SUSPEND, SUSPEND_BYTES);
        mali_csf_set(dev, control + GROUP_PROTECTED, SUSPEND_BYTES);
        for (unsigned s = 0; s < CSF_STREAMS; s++)
            mali_csf_set(dev, stream_control(dev, g, s), STREAM_FEATURES);
    }
    memset(dev->csf->group, 0, sizeof(dev->csf->group));
    *mali_reg(dev, CSF_GPU_MCU_STATUS) = MCU_ON;
    mali_raise(dev, JOB_IRQ_RAWSTAT, 1u << GLOBAL_IRQ);
}

/* ---- registers ---- */

uint32_t mali_csf_command(uint32_t value)
{
    uint32_t payload = value >> 8;

    switch (value & 0xff) {
    case GPU_CMD_NOP: return payload ? UINT32_MAX : (uint32_t)GPU_CMD_NOP;
    case TYPE_RESET:
        return payload == RESET_SOFT || payload == RESET_HARD ? (uint32_t)GPU_CMD_SOFT_RESET : UINT32_MAX;
    case TYPE_FLUSH: return GPU_CMD_CLEAN_INV;
    default: return UINT32_MAX;
    }
}

bool mali_csf_create(struct mali_device *dev)
{
    dev->csf = calloc(1, sizeof(*dev->csf));
    return dev->csf != NULL;
}

void mali_csf_reset(struct mali_device *dev)
{
    struct mali_csf *csf = dev->csf;

    csf->due_ns = csf->rung = 0;
    csf->starts = false;
    memset(csf->group, 0, sizeof(csf->group));
}

static void look_soon(struct mali_device *dev)
{
    if (!dev->csf->due_ns)
        dev->csf->due_ns = mali_due(dev) + 1;
}

static void ring(struct mali_device *dev, uint32_t offset, uint32_t value)
{
    if (value != 1)
        fail(dev, "a doorbell is rung with another value than 1", value);
    dev->csf->rung |= UINT64_C(1) << (offset - MALI_G610_DOORBELL) / MALI_G610_DOORBELL_BYTES;
    look_soon(dev);
}

bool mali_csf_write(struct mali_device *dev, uint32_t offset, uint32_t value)
{
    if (offset >= MALI_G610_DOORBELL) {
        ring(dev, offset, value);
        return true;
    }
    switch (offset) {
    case CSF_GPU_MCU_CONTROL:
        *mali_reg(dev, offset) = value;
        if (value == CONTROL_OFF) {
            *mali_reg(dev, CSF_GPU_MCU_STATUS) = MCU_OFF;
        } else {
            dev->csf->starts = true;
            look_soon(dev);
        }
        return true;
    case JOB_IRQ_CLEAR:
        *mali_reg(dev, JOB_IRQ_RAWSTAT) &= ~value;
        mali_raise(dev, JOB_IRQ_RAWSTAT, 0); /* lines follow */
        return true;
    default: return false;
    }
}

void mali_csf_advance(struct mali_device *dev)
{
    struct mali_csf *csf = dev->csf;

    if (!csf->due_ns || dev->base.now_ns + 1 < csf->due_ns)
        return;
    uint64_t rung = csf->rung;
    bool starts = csf->starts;
    csf->due_ns = csf->rung = 0;
    csf->starts = false;
    if (starts)
        start(dev);
    if (*mali_reg(dev, CSF_GPU_MCU_STATUS) != MCU_ON || dev->base.error[0])
        return;
    if (rung & 1)
        take_global(dev);
    if (rung >> 1 && !dev->base.error[0])
        take_rung(dev, rung & ~UINT64_C(1));
}
