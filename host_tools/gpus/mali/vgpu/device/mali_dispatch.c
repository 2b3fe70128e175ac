/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Descriptors of compute jobs: mali_descriptors.h (Mesa 22.3.6 src/panfrost/lib/genxml); what their fields
 * mean was found by running recorded jobs.
 */
#include "mali_dispatch.h"

#include <string.h>

#include "mali_descriptors.h"

enum { MAX_STORAGE = 16 }; /* 16 << n bytes of storage a thread */

#define PRELOAD_REGISTERS (2 * MALI_RENDERER_STATE_PRELOAD_GLOBAL_INVOCATION_Z_MASK - MALI_PRELOAD_LOCAL_XY)
#define PRELOAD_REFUSED (MALI_RENDERER_STATE_PRELOAD_UNNAMED | MALI_RENDERER_STATE_PRELOAD_PC_MASK)

uint32_t mali_dispatch_refuse(const struct mali_dispatch *d, uint32_t status, const char *what,
                              uint64_t value)
{
    vgpu_fail(&d->dev->base, "%s: compute job at GPU address 0x%llx: %s (0x%llx)", d->dev->chip->name,
              (unsigned long long)d->va, what, (unsigned long long)value);
    return status;
}

uint32_t mali_dispatch_size(struct mali_dispatch *d, const uint32_t size[3], const uint32_t groups[3])
{
    uint64_t group = (uint64_t)size[0] * size[1] * size[2];

    if (group > d->dev->chip->workgroup)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT,
                                    "a workgroup of more threads than the GPU holds", group);
    memcpy(d->size, size, sizeof(d->size));
    memcpy(d->groups, groups, sizeof(d->groups));
    d->group_threads = (uint32_t)group;
    d->threads = group * groups[0] * groups[1] * groups[2];
    return 0;
}

/* Six values, each stored less one, from a bit to the next one's. */
static uint32_t read_invocation(struct mali_dispatch *d, const uint8_t *invocation)
{
    uint32_t packed = mali_invocation_invocations(invocation), shifts = mali_invocation_shifts(invocation);
    unsigned starts[7] = {0,
                          mali_invocation_size_y_shift(invocation),
                          mali_invocation_size_z_shift(invocation),
                          mali_invocation_workgroups_x_shift(invocation),
                          mali_invocation_workgroups_y_shift(invocation),
                          mali_invocation_workgroups_z_shift(invocation),
                          32};
    uint32_t values[6];

    for (unsigned i = 0; i < 6; i++) {
        if (starts[i] > starts[i + 1])
            return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "fields of the invocation overlap", shifts);
        uint64_t field = ((UINT64_C(1) << (starts[i + 1] - starts[i])) - 1) & (uint64_t)packed >> starts[i];
        if (field == UINT32_MAX)
            return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "a dispatch of 2^32 threads in a row",
                                        packed);
        values[i] = (uint32_t)field + 1;
    }
    return mali_dispatch_size(d, values, values + 3);
}

static uint32_t read_storage(struct mali_dispatch *d, uint64_t va)
{
    uint8_t storage[MALI_LOCAL_STORAGE_BYTES];

    if (!va)
        return 0;
    if (!mali_read(d->dev, d->space, va, storage, sizeof(storage)))
        return MALI_JOB_READ_FAULT;
    unsigned size = mali_local_storage_tls_size(storage);
    if (size > MAX_STORAGE)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "an unknown size of thread storage",
                                    mali_local_storage_tls(storage));
    d->environment.thread_storage = mali_local_storage_tls_base_pointer(storage);
    /* The smallest size is 0, too, and has an address (Mesa 25.0.7 src/panfrost/lib/pan_scratch.c,
     * pan_desc.c). */
    d->environment.thread_bytes = size || d->environment.thread_storage ? 16u << size : 0;
    d->environment.group_storage = mali_local_storage_wls_base_pointer(storage);
    d->environment.has_group_storage =
        mali_local_storage_wls_instances(storage) != MALI_LOCAL_STORAGE_WLS_INSTANCES_NONE &&
        d->environment.group_storage;
    return 0;
}

static uint32_t read_uniforms(struct mali_dispatch *d, uint64_t va, uint32_t count)
{
    d->environment.uniforms = count;
    d->environment.uniform = d->uniform;
    return !d->environment.uniforms ||
                   mali_read(d->dev, d->space, va, d->uniform, 8 * d->environment.uniforms)
               ? 0
               : MALI_JOB_READ_FAULT;
}

/* The table of uniform buffers, of a program that loads from them. */
static uint32_t read_buffers(struct mali_dispatch *d, uint64_t va, uint32_t count)
{
    uint8_t entry[MALI_UNIFORM_BUFFER_BYTES];

    for (uint32_t i = 0; i < count; i++) {
        if (!mali_read(d->dev, d->space, va + i * sizeof(entry), entry, sizeof(entry)))
            return MALI_JOB_READ_FAULT;
        uint64_t at = mali_uniform_buffer_pointer(entry);
        if (at) /* 0: there is none */
            d->buffer[i] = (struct bifrost_uniform_buffer){at, 16 * mali_uniform_buffer_entries(entry)};
    }
    d->environment.buffer = d->buffer;
    d->environment.buffers = count;
    return 0;
}

uint32_t mali_dispatch_read(struct mali_dispatch *d)
{
    uint8_t invocation[MALI_INVOCATION_BYTES], draw[MALI_DRAW_BYTES], state[MALI_RENDERER_STATE_BYTES];
    const char *reason;

    if (!mali_read(d->dev, d->space, d->va + MALI_COMPUTE_JOB_INVOCATION_AT, invocation,
                   sizeof(invocation)) ||
        !mali_read(d->dev, d->space, d->va + MALI_COMPUTE_JOB_DRAW_AT, draw, sizeof(draw)) ||
        !mali_read(d->dev, d->space, mali_draw_state(draw), state, sizeof(state)))
        return MALI_JOB_READ_FAULT;
    uint32_t exception = read_invocation(d, invocation);
    d->preload = mali_renderer_state_preload(state);
    if (!exception && d->preload & PRELOAD_REFUSED)
        exception = mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT,
                                         "preloaded registers that are not modelled", d->preload);
    if (!exception)
        exception = read_storage(d, mali_draw_thread_storage(draw));
    if (!exception)
        exception = read_uniforms(d, mali_draw_push_uniforms(draw), mali_renderer_state_uniform_count(state));
    if (exception)
        return exception;
    uint64_t shader = mali_renderer_state_shader(state);
    const bool built = bifrost_program_build(&d->program, &d->memory, shader, &d->environment, &reason);
    /* The first batch finds that it was too much. */
    (void)vgpu_budget_spend(&d->dev->chain, d->program.clauses);
    if (!built)
        return mali_dispatch_refuse(d, MALI_INSTR_INVALID_ENC, reason, shader);
    d->program.given = (uint64_t)((d->preload & PRELOAD_REGISTERS) / MALI_PRELOAD_LOCAL_XY)
                       << MALI_FIRST_PRELOADED;
    if (d->program.uses_uniform_buffers)
        exception =
            read_buffers(d, mali_draw_uniform_buffers(draw), mali_renderer_state_uniform_buffer_count(state));
    if (exception)
        return exception;
    /* The threads of a warp are in one batch only where a workgroup begins a batch. */
    d->may_wait = d->program.uses_barrier || d->program.exchanges;
    if (d->program.uses_barrier && !mali_renderer_state_shader_contains_barrier(state))
        return mali_dispatch_refuse(d, MALI_INSTR_BARRIER_FAULT,
                                    "a barrier in a shader whose state says that it has none",
                                    mali_renderer_state_properties(state));
    return 0;
}
