/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Instructions of command streams, of 64 bits: opcode 63:56, destination 55:48, sources 47:40 and 39:32. A
 * register of 64 bits is an even one and the next. Each instruction is done when the next one begins, so
 * scoreboards, waits for them and flushes do nothing here. Sources: see mali_csf.h.
 */
#include "mali_compute.h"
#include "mali_csf.h"
#include "mali_csf_instructions.h"
#include "mali_dispatch.h"

#include <string.h>

enum { RESOURCE_COMPUTE = 1 };
enum { GREATER_AT = 28, SCOPE_AT = 1, SCOPE_SYSTEM = 0, CONDITION_AT = 28 };
enum { SPACE = 0x50, RING_BASE = 0x10, RING_BYTES = 0x18, RING_INPUT = 0x30, RING_OUTPUT = 0x38 };
enum { WAIT_STATUS = 0x48, SYNC_ADDRESS = 0x50, SYNC_VALUE = 0x58, BLOCKED = 0x60, SYNC_VALUE_HIGH = 0x64 };
enum { BLOCKED_BY_SYNC = 3 };
#define SYNC_EVENT (1u << 28)
/* A loop of a stream would never end: no stream of a driver has so many. */
#define STREAM_LIMIT (UINT64_C(1) << 22)
/* As of a chain: mali_jobs.c. */
#define DISPATCH_LIMIT (UINT64_C(1) << 28)

/* A stream at work. */
struct run {
    struct mali_device *dev;
    struct csf_stream *stream;
    unsigned group, number, space;
    uint64_t pc, word; /* of the instruction at hand */
};

static bool fail(const struct run *run, const char *what)
{
    vgpu_fail(&run->dev->base, "%s: command stream %u.%u at GPU address 0x%llx: %s (0x%016llx)",
              run->dev->chip->name, run->group, run->number, (unsigned long long)run->pc, what,
              (unsigned long long)run->word);
    return false;
}

static unsigned op_of(const struct run *run)
{
    return (unsigned)(run->word >> 56);
}

static unsigned byte_of(const struct run *run, unsigned at)
{
    return (unsigned)(run->word >> at & 0xff);
}

/* A register by where its number is; those of 64 bits are even. False: there is none. */
static bool reg(const struct run *run, unsigned at, unsigned words, uint32_t **found)
{
    unsigned number = byte_of(run, at);

    *found = &run->stream->reg[number % CSF_REGISTERS];
    if (number + words > CSF_REGISTERS || (words == 2 && number % 2))
        return fail(run, "a register that is not there");
    return true;
}

static uint64_t pair(const uint32_t *words)
{
    return words[0] | (uint64_t)words[1] << 32;
}

static void set_pair(uint32_t *words, uint64_t value)
{
    words[0] = (uint32_t)value;
    words[1] = (uint32_t)(value >> 32);
}

static bool is_known(const struct run *run)
{
    unsigned op = op_of(run);
    uint64_t bits = op < 64 ? fields[op] : 0;

    if (op == OP_ERROR_BARRIER)
        bits = 0;
    else if (op != OP_NOP && !bits)
        return fail(run, "an instruction that is not modelled");
    if (run->word & ~bits & ((UINT64_C(1) << 56) - 1))
        return fail(run, "reserved bits of an instruction");
    return true;
}

/* ---- memory ---- */

static bool read_memory(const struct run *run, uint64_t va, void *data, uint32_t bytes)
{
    return mali_read(run->dev, run->space, va, data, bytes) ||
           fail(run, "a read of memory that is not mapped");
}

static bool write_memory(const struct run *run, uint64_t va, const void *data, uint32_t bytes)
{
    return mali_write(run->dev, run->space, va, data, bytes) ||
           fail(run, "a write to memory that is not mapped");
}

static bool move_words(const struct run *run)
{
    uint32_t *address, *words;
    unsigned mask = (unsigned)(run->word >> 16 & 0xffff),
             count = mask ? 32 - (unsigned)__builtin_clz(mask) : 0;

    if (!reg(run, 40, 2, &address) || !reg(run, 48, count ? count : 1, &words))
        return false;
    uint64_t va = pair(address) + (uint64_t)(int64_t)(int16_t)run->word;
    for (unsigned i = 0; i < 16; i++) {
        if (!(mask >> i & 1))
            continue;
        if (op_of(run) == OP_LOAD ? !read_memory(run, va + 4 * i, &words[i], 4)
                                  : !write_memory(run, va + 4 * i, &words[i], 4))
            return false;
    }
    return true;
}

/* Add to or set a word, of 32 or 64 bits, that others wait for. */
static bool signal(const struct run *run)
{
    unsigned op = op_of(run), bytes = op == OP_SYNC_ADD64 || op == OP_SYNC_SET64 ? 8 : 4;
    bool adds = op == OP_SYNC_ADD64 || op == OP_SYNC_ADD32;
    uint32_t *address, *data;
    uint64_t value = 0;

    if (!reg(run, 40, 2, &address) || !reg(run, 32, bytes / 4, &data))
        return false;
    if (adds && !read_memory(run, pair(address), &value, bytes))
        return false;
    value += bytes == 8 ? pair(data) : *data;
    if (!write_memory(run, pair(address), &value, bytes))
        return false;
    if ((run->word >> SCOPE_AT & 3) == SCOPE_SYSTEM)
        mali_csf_event(run->dev, run->group, SYNC_EVENT);
    for (unsigned i = 0; i < CSF_STREAMS; i++)
        run->dev->csf->group[run->group].stream[i].is_blocked = false;
    return true;
}

/* Go on, or say what the stream waits for. */
static bool wait_for(const struct run *run)
{
    unsigned bytes = op_of(run) == OP_SYNC_WAIT64 ? 8 : 4;
    bool greater = run->word >> GREATER_AT & 1;
    uint32_t *address, *data;
    uint64_t value = 0, limit, output = mali_csf_stream_output(run->dev, run->group, run->number);

    if (!reg(run, 40, 2, &address) || !reg(run, 32, bytes / 4, &data))
        return false;
    if (!read_memory(run, pair(address), &value, bytes))
        return false;
    limit = bytes == 8 ? pair(data) : *data;
    run->stream->is_blocked = greater ? value <= limit : value > limit;
    mali_csf_set(run->dev, output + BLOCKED, run->stream->is_blocked ? BLOCKED_BY_SYNC : 0);
    if (!run->stream->is_blocked)
        return true;
    mali_csf_set(run->dev, output + WAIT_STATUS,
                 1u << 31 | (uint32_t)(bytes == 8) << 30 | (uint32_t)greater << 24);
    mali_csf_set_pair(run->dev, output + SYNC_ADDRESS, pair(address));
    mali_csf_set(run->dev, output + SYNC_VALUE, (uint32_t)limit);
    mali_csf_set(run->dev, output + SYNC_VALUE_HIGH, (uint32_t)(limit >> 32));
    return true;
}

/* ---- control ---- */

static bool branch(const struct run *run, uint64_t *next)
{
    uint32_t *word;

    if (!reg(run, 40, 1, &word))
        return false;
    int32_t value = (int32_t)*word;
    bool taken[8] = {value <= 0, value > 0, value == 0, value != 0, value < 0, value >= 0, true, false};
    unsigned condition = (unsigned)(run->word >> CONDITION_AT & 7);
    if (condition == 7)
        return fail(run, "a branch with a condition that is not known");
    if (!run->stream->depth)
        return fail(run, "a branch of a ring");
    if (taken[condition])
        *next += (uint64_t)(int64_t)(int16_t)run->word * 8;
    return true;
}

/* A job is what runs of a call without a wait. */
static void start_job(const struct run *run, uint64_t va, uint32_t bytes, bool is_rest)
{
    const uint32_t queue = run->group * CSF_STREAMS + run->number;

    run->dev->latest_space = run->space;
    mali_touched_clear(&run->dev->touched);
    vgpu_job_call(&run->dev->base, &(struct vgpu_call){va, bytes, queue, is_rest, run->stream->reg});
    vgpu_job_start(&run->dev->base, VGPU_JOB_COMPUTE);
}

static bool call(const struct run *run, uint64_t *next)
{
    struct csf_stream *stream = run->stream;
    uint32_t *address, *bytes;

    if (!reg(run, 40, 2, &address) || !reg(run, 32, 1, &bytes))
        return false;
    if (*bytes % 8 || pair(address) % 8)
        return fail(run, "a call of a stream that is no whole number of instructions");
    if (op_of(run) == OP_JUMP && !stream->depth)
        return fail(run, "a jump of a ring");
    if (op_of(run) == OP_CALL) {
        if (stream->depth == CSF_CALLS)
            return fail(run, "calls that are nested deeper than 8");
        stream->caller[stream->depth++] = (struct csf_range){*next, stream->now.end};
        if (stream->depth == 1)
            start_job(run, pair(address), *bytes, false);
    }
    *next = pair(address);
    stream->now.end = pair(address) + *bytes;
    return true;
}

static bool dispatch(const struct run *run)
{
    struct mali_device *dev = run->dev;
    struct mali_csf_dispatch from = {run->stream->reg, run->word};

    dev->chain = (struct vgpu_budget){.limit = DISPATCH_LIMIT};
    dev->latest_space = run->space;
    uint32_t exception = mali_compute(dev, run->space, run->pc, mali_csf_dispatch_read, &from);
    if (exception && !dev->base.error[0]) {
        uint32_t space = MALI_AS + run->space * MALI_AS_BYTES;
        vgpu_fail(
            &dev->base,
            "%s: dispatch at GPU address 0x%llx: the MMU stopped it at 0x%llx (exception 0x%x, status 0x%x)",
            dev->chip->name, (unsigned long long)run->pc,
            (unsigned long long)mali_reg64(dev, space + AS_FAULTADDRESS_LO), exception,
            *mali_reg(dev, space + AS_FAULTSTATUS));
    }
    return !exception;
}

/* False: the GPU has stopped. */
static bool step(struct run *run, uint64_t *next)
{
    uint32_t *to, *a, *b;

    if (!is_known(run))
        return false;
    switch (op_of(run)) {
    case OP_MOVE:
        if (!reg(run, 48, 2, &to))
            return false;
        set_pair(to, run->word & UINT64_C(0xffffffffffff));
        return true;
    case OP_MOVE32:
        if (!reg(run, 48, 1, &to))
            return false;
        *to = (uint32_t)run->word;
        return true;
    case OP_ADD32:
        if (!reg(run, 48, 1, &to) || !reg(run, 40, 1, &a))
            return false;
        *to = *a + (uint32_t)run->word;
        return true;
    case OP_ADD64:
        if (!reg(run, 48, 2, &to) || !reg(run, 40, 2, &a))
            return false;
        set_pair(to, pair(a) + (uint64_t)(int64_t)(int32_t)run->word);
        return true;
    case OP_UMIN32:
        if (!reg(run, 48, 1, &to) || !reg(run, 40, 1, &a) || !reg(run, 32, 1, &b))
            return false;
        *to = *a < *b ? *a : *b;
        return true;
    case OP_LOAD:
    case OP_STORE: return move_words(run);
    case OP_BRANCH: return branch(run, next);
    case OP_CALL:
    case OP_JUMP: return call(run, next);
    case OP_RUN_COMPUTE: return dispatch(run);
    case OP_FLUSH: mali_flushed(run->dev); return true;
    case OP_SYNC_ADD32:
    case OP_SYNC_SET32:
    case OP_SYNC_ADD64:
    case OP_SYNC_SET64: return signal(run);
    case OP_SYNC_WAIT32:
    case OP_SYNC_WAIT64: return wait_for(run);
    case OP_HEAP_SET: return reg(run, 40, 2, &a);
    default: return true; /* what only orders others: waits, scoreboards, resources */
    }
}

/* Ends of calls, back to the ring. */
static void return_to(struct run *run, uint64_t output)
{
    struct csf_stream *stream = run->stream;

    while (stream->depth && stream->now.pc >= stream->now.end) {
        stream->now = stream->caller[--stream->depth];
        if (stream->depth)
            continue;
        run->dev->base.counters.jobs++;
        vgpu_job_end(&run->dev->base, VGPU_JOB_COMPUTE);
        stream->extract += 8;
        mali_csf_set_pair(run->dev, output, stream->extract);
    }
}

void mali_csf_run(struct mali_device *dev, unsigned group, unsigned number)
{
    uint64_t input = mali_csf_stream_input(dev, group, number);
    uint64_t ring = mali_csf_pair(dev, input + RING_BASE), from = mali_csf_pair(dev, input + RING_INPUT),
             output = mali_csf_pair(dev, input + RING_OUTPUT);
    uint32_t bytes = mali_csf_word(dev, input + RING_BYTES);
    struct csf_stream *stream = &dev->csf->group[group].stream[number];
    struct run run = {.dev = dev, .stream = stream, .group = group, .number = number};
    uint64_t last = dev->csf->instructions + STREAM_LIMIT;

    run.space = mali_csf_word(dev, mali_csf_group_input(dev, group) + SPACE) & 0xf;
    if (!bytes || bytes & (bytes - 1) || run.space >= MALI_AS_COUNT || dev->base.error[0]) {
        fail(&run, "a ring whose size is no power of two, or no address space");
        return;
    }
    if (stream->has_waited) {
        stream->has_waited = false;
        start_job(&run, stream->now.pc, (uint32_t)(stream->now.end - stream->now.pc), true);
    }
    while (!stream->is_blocked) {
        return_to(&run, output);
        if (!stream->depth) {
            if (stream->extract >= mali_csf_pair(dev, from))
                break;
            stream->now = (struct csf_range){ring + stream->extract % bytes, ring + bytes};
        }
        run.pc = stream->now.pc;
        if (!read_memory(&run, run.pc, &run.word, sizeof(run.word)))
            return;
        if (++dev->csf->instructions > last) {
            fail(&run, "a stream that does not end");
            return;
        }
        unsigned depth = stream->depth;
        uint64_t next = run.pc + 8;
        if (!step(&run, &next))
            return;
        if (stream->is_blocked) {
            stream->has_waited = stream->depth;
            if (stream->depth)
                vgpu_job_end(&dev->base, VGPU_JOB_COMPUTE);
            break;
        }
        stream->now.pc = next;
        if (depth || stream->depth)
            continue; /* a call of the ring counts when it returns */
        stream->extract += 8;
        mali_csf_set_pair(dev, output, stream->extract);
    }
}
