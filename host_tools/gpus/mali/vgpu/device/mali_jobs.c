/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Job slots of a Mali G71 and the chains of job descriptors that they run.
 *
 * Slots: Linux 6.1 drivers/gpu/drm/panfrost/panfrost_job.c; what each takes: JS_FEATURES, whose bits are the
 * types of job headers (Arm's kbase, mali_kbase_gpu_regmap_jm.h). Job headers: mali_descriptors.h. A chain is
 * walked whole when its slot starts and its end is reported after the latency.
 */
#include "mali_compute.h"
#include "mali_descriptors.h"
#include "mali_dispatch.h"

enum { MAX_CHAIN = MALI_JOB_HEADER_INDEX_MAX + 1 };
/* Clauses of a batch of threads that a chain may run. panfrost takes a chain for hung after half a second
 * (JOB_TIMEOUT_MS). In that time the largest G71, of 20 cores with three engines, each with a tuple of four
 * threads a cycle at 850 MHz, runs 2.5e10 of them: of 64 threads in clauses of six tuples, 2^28. */
#define CHAIN_LIMIT (UINT64_C(1) << 28)

/* One chain on its way. */
struct chain {
    struct mali_device *dev;
    unsigned slot, space;
    uint64_t va; /* of the job at hand */
    bool write_back;
    uint8_t done[MAX_CHAIN / 8]; /* by index */
};

static bool fail(const struct chain *chain, const char *what, uint32_t value)
{
    vgpu_fail(&chain->dev->base, "%s: job at GPU address 0x%llx (slot %u): %s (0x%x)", chain->dev->chip->name,
              (unsigned long long)chain->va, chain->slot, what, value);
    return false;
}

static bool check(const struct chain *chain, const uint8_t *header)
{
    uint32_t control = mali_job_header_control(header), status = mali_job_header_exception_status(header);
    unsigned depends[2] = {mali_job_header_dependency_1(header), mali_job_header_dependency_2(header)};
    if (!mali_job_header_is_64b(header))
        return fail(chain, "descriptors of 32 bits are not modelled", control);
    if (control & MALI_JOB_HEADER_CONTROL_UNNAMED)
        return fail(chain, "reserved bits of the header are set", control & MALI_JOB_HEADER_CONTROL_UNNAMED);
    if (status || mali_job_header_first_incomplete_task(header))
        return fail(chain, "the status of an earlier run is still in the header", status);
    for (unsigned i = 0; i < 2; i++) {
        unsigned index = depends[i];
        if (index && !(chain->done[index / 8] >> index % 8 & 1))
            return fail(chain, "depends on a job that is not before it in the chain", index);
    }
    return true;
}

/* 0, or the exception that ends the chain: also of what is not modelled, so that no job that was not run is
 * ever called done. */
static uint32_t write_value(struct chain *chain)
{
    uint8_t payload[MALI_WRITE_VALUE_BYTES];
    if (!mali_read(chain->dev, chain->space, chain->va + MALI_WRITE_VALUE_JOB_PAYLOAD_AT, payload,
                   sizeof(payload)))
        return MALI_JOB_READ_FAULT;
    uint64_t value = mali_write_value_immediate_value(payload), va = mali_write_value_address(payload);
    uint32_t bytes = sizeof(value);
    switch (mali_write_value_type(payload)) {
    case MALI_WRITE_VALUE_TYPE_CYCLE_COUNTER:
    case MALI_WRITE_VALUE_TYPE_SYSTEM_TIMESTAMP: value = chain->dev->base.now_ns; break;
    case MALI_WRITE_VALUE_TYPE_ZERO: value = 0; break;
    case MALI_WRITE_VALUE_TYPE_IMMEDIATE_8: bytes = 1; break;
    case MALI_WRITE_VALUE_TYPE_IMMEDIATE_16: bytes = 2; break;
    case MALI_WRITE_VALUE_TYPE_IMMEDIATE_32: bytes = 4; break;
    case MALI_WRITE_VALUE_TYPE_IMMEDIATE_64: break;
    default:
        fail(chain, "unknown type of a write-value job", mali_write_value_type(payload));
        return MALI_JOB_CONFIG_FAULT;
    }
    return mali_write(chain->dev, chain->space, va, &value, bytes) ? 0 : MALI_JOB_WRITE_FAULT;
}

/* A slot takes jobs of the types whose bits its JS_FEATURES has, where the chip's are known. */
static bool takes(const struct chain *chain, uint32_t type)
{
    const uint32_t features = *mali_reg(chain->dev, GPU_JS_FEATURES_0 + 4 * chain->slot);
    return !features || features >> type & 1;
}

static uint32_t run_job(struct chain *chain, uint32_t type)
{
    if (type && type <= MALI_JOB_HEADER_TYPE_COMPUTE && !takes(chain, type)) {
        fail(chain, "the slot takes no jobs of this type (JS_FEATURES)", type);
        return MALI_JOB_CONFIG_FAULT;
    }
    switch (type) {
    case MALI_JOB_HEADER_TYPE_NULL: return 0;
    case MALI_JOB_HEADER_TYPE_COMPUTE:
        if (!chain->dev->base.family->executes_shaders)
            return 0;
        return mali_compute(chain->dev, chain->space, chain->va, mali_dispatch_read, NULL);
    case MALI_JOB_HEADER_TYPE_CACHE_FLUSH: mali_flushed(chain->dev); return 0;
    case MALI_JOB_HEADER_TYPE_WRITE_VALUE: return write_value(chain);
    default: fail(chain, "job type is not modelled", type); return MALI_JOB_CONFIG_FAULT;
    }
}

/* The header of the job at hand. The GPU does not read the status of an earlier run: only `check` does, so it
 * decides nothing, and that the job writes it changes nothing that it consists of. */
static bool read_header(const struct chain *chain, uint8_t header[MALI_JOB_HEADER_BYTES])
{
    const uint32_t status = MALI_JOB_HEADER_WRITTEN_BYTES;

    return mali_read_data(chain->dev, chain->space, chain->va, header, status) &&
           mali_read(chain->dev, chain->space, chain->va + status, header + status,
                     MALI_JOB_HEADER_BYTES - status);
}

/* Runs one job and moves on to the next; 0, or the exception that ends the chain. */
static uint32_t step(struct chain *chain)
{
    uint8_t header[MALI_JOB_HEADER_BYTES];
    if (chain->va % MALI_JOB_HEADER_ALIGN) {
        fail(chain, "the header is not aligned to 64 bytes", (uint32_t)chain->va);
        return MALI_JOB_CONFIG_FAULT;
    }
    if (!read_header(chain, header))
        return MALI_JOB_READ_FAULT;
    if (!check(chain, header))
        return MALI_JOB_CONFIG_FAULT;
    uint32_t exception = run_job(chain, mali_job_header_type(header));
    unsigned index = mali_job_header_index(header);
    chain->done[index / 8] |= (uint8_t)(1u << index % 8);
    mali_set_job_header_exception_status(header, exception ? exception : MALI_DONE);
    if (chain->write_back &&
        !mali_write(chain->dev, chain->space, chain->va, header, MALI_JOB_HEADER_WRITTEN_BYTES))
        return MALI_JOB_WRITE_FAULT;
    if (!exception)
        chain->va = mali_job_header_next(header);
    return exception;
}

/* Status of the slot at the end of the chain. */
static uint32_t run_chain(struct mali_device *dev, unsigned slot, uint32_t config)
{
    uint32_t at = MALI_JS + slot * MALI_JS_BYTES;
    struct chain chain = {.dev = dev, .slot = slot, .space = config & JS_CONFIG_AS};
    uint64_t affinity = mali_reg64(dev, at + JS_AFFINITY_LO);
    chain.write_back = !(config & JS_CONFIG_NO_WRITE_BACK);
    chain.va = mali_reg64(dev, at + JS_HEAD_LO);
    if (!(affinity & dev->power[MALI_SHADER].present))
        return MALI_JOB_AFFINITY_FAULT;
    if (!(affinity & dev->power[MALI_SHADER].ready) || !dev->power[MALI_L2].ready)
        return MALI_JOB_POWER_FAULT;
    if (dev->base.options.fault_job && dev->chains_started == dev->base.options.fault_job) {
        mali_mmu_inject_fault(dev, chain.space, chain.va);
        return MALI_JOB_READ_FAULT;
    }
    uint32_t exception = 0;
    for (unsigned jobs = 0; chain.va && !exception && !vgpu_error(&dev->base); jobs++) {
        if (jobs < MAX_CHAIN) {
            exception = step(&chain);
        } else {
            fail(&chain, "the chain has no end", jobs);
            exception = MALI_JOB_CONFIG_FAULT;
        }
    }
    *mali_reg(dev, at + JS_TAIL_LO) = (uint32_t)chain.va;
    *mali_reg(dev, at + JS_TAIL_LO + 4) = (uint32_t)(chain.va >> 32);
    return exception ? exception : MALI_DONE;
}

/* Takes over what waits in the _NEXT registers. */
static void start(struct mali_device *dev, unsigned index)
{
    struct mali_slot *slot = &dev->slot[index];
    uint32_t at = MALI_JS + index * MALI_JS_BYTES;
    for (uint32_t offset = JS_HEAD_LO; offset <= JS_CONFIG; offset += 4)
        if (offset != JS_TAIL_LO && offset != JS_TAIL_LO + 4)
            *mali_reg(dev, at + offset) = *mali_reg(dev, at + JS_NEXT + offset);
    uint32_t config = *mali_reg(dev, at + JS_CONFIG), flush_id = *mali_reg(dev, at + JS_FLUSH_ID_NEXT);
    if ((config & JS_CONFIG_AS) >= MALI_AS_COUNT) {
        vgpu_fail(&dev->base, "%s: job in address space %u; there are %u", dev->chip->name,
                  config & JS_CONFIG_AS, (unsigned)MALI_AS_COUNT);
        return;
    }
    *mali_reg(dev, at + JS_COMMAND_NEXT) = JS_CMD_NOP;
    *slot = (struct mali_slot){.active = true};
    dev->chains_started++;
    dev->chain = (struct vgpu_budget){.limit = dev->base.options.job_limit ? dev->base.options.job_limit
                                                                           : CHAIN_LIMIT};
    /* With flush reduction, caches that were flushed since the job was made need no flush. */
    if (config & JS_CONFIG_START_FLUSH &&
        !(config & JS_CONFIG_FLUSH_REDUCTION && flush_id != *mali_reg(dev, GPU_LATEST_FLUSH)))
        mali_flushed(dev);
    dev->latest_space = config & JS_CONFIG_AS;
    mali_touched_clear(&dev->touched);
    vgpu_job_start(&dev->base, VGPU_JOB_COMPUTE);
    slot->hangs = dev->base.options.hang_job && dev->chains_started == dev->base.options.hang_job;
    if (!slot->hangs)
        slot->status = run_chain(dev, index, config);
    *mali_reg(dev, at + JS_STATUS) = MALI_ACTIVE;
    slot->due_ns = mali_due(dev);
}

static void finish(struct mali_device *dev, unsigned index, uint32_t status)
{
    struct mali_slot *slot = &dev->slot[index];
    uint32_t at = MALI_JS + index * MALI_JS_BYTES;
    slot->active = false;
    *mali_reg(dev, at + JS_STATUS) = status;
    if (*mali_reg(dev, at + JS_CONFIG) & JS_CONFIG_END_FLUSH)
        mali_flushed(dev);
    if (status == MALI_DONE)
        dev->base.counters.jobs++;
    vgpu_job_end(&dev->base, VGPU_JOB_COMPUTE);
    mali_raise(dev, JOB_IRQ_RAWSTAT, 1u << (status == MALI_DONE ? index : 16 + index));
    if (slot->queued && status == MALI_DONE) /* after a failure the driver decides */
        start(dev, index);
}

void mali_jobs_advance(struct mali_device *dev)
{
    for (unsigned i = 0; i < MALI_JS_COUNT && !vgpu_error(&dev->base); i++)
        while (dev->slot[i].active && !dev->slot[i].hangs && dev->base.now_ns >= dev->slot[i].due_ns &&
               !vgpu_error(&dev->base))
            finish(dev, i, dev->slot[i].status);
}

/* Jobs are over before a soft stop could reach them, except those that hang. */
static void stop(struct mali_device *dev, unsigned index, uint32_t value)
{
    bool flag = *mali_reg(dev, MALI_JS + index * MALI_JS_BYTES + JS_CONFIG) & JS_CONFIG_JOB_CHAIN;
    bool hard = value == JS_CMD_HARD_STOP || value == (flag ? JS_CMD_HARD_STOP_1 : JS_CMD_HARD_STOP_0);
    if (value == JS_CMD_START)
        vgpu_fail(&dev->base, "%s: START in JS%u COMMAND; jobs start by COMMAND_NEXT", dev->chip->name,
                  index);
    else if (hard && dev->slot[index].active)
        finish(dev, index, MALI_TERMINATED);
}

void mali_slot_write(struct mali_device *dev, unsigned index, uint32_t in_slot, uint32_t value)
{
    uint32_t at = MALI_JS + index * MALI_JS_BYTES;
    struct mali_slot *slot = &dev->slot[index];
    if (in_slot == JS_COMMAND) {
        stop(dev, index, value);
        return;
    }
    if (slot->queued && in_slot != JS_COMMAND_NEXT) {
        vgpu_fail(&dev->base, "%s: write to JS%u 0x%02x: a job is queued already; it would be overwritten",
                  dev->chip->name, index, in_slot);
        return;
    }
    *mali_reg(dev, at + in_slot) = value;
    if (in_slot != JS_COMMAND_NEXT)
        return;
    if (value > JS_CMD_START) {
        vgpu_fail(&dev->base, "%s: command %u in JS%u COMMAND_NEXT is not modelled", dev->chip->name, value,
                  index);
        return;
    }
    slot->queued = value == JS_CMD_START;
    if (slot->queued && !slot->active)
        start(dev, index);
}

void mali_job_irq_clear(struct mali_device *dev, uint32_t bits)
{
    uint32_t *state = mali_reg(dev, JOB_JS_STATE);
    *mali_reg(dev, JOB_IRQ_RAWSTAT) &= ~bits;
    for (unsigned i = 0; i < MALI_JS_COUNT; i++) {
        uint32_t slot_bits = 0x10001u << i;
        if (!(bits & slot_bits))
            continue;
        *state &= ~slot_bits;
        *state |= (dev->slot[i].active ? 1u << i : 0) | (dev->slot[i].queued ? 0x10000u << i : 0);
    }
}
