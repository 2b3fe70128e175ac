/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a dispatch of a command stream asks for: by the stream's registers, and descriptors of Valhall.
 * Sources: Mesa 25.0.7 src/panfrost/lib/genxml/v10.xml, src/panfrost/vulkan/csf.
 */
#include "mali_csf.h"
#include "mali_dispatch.h"
#include "mali_valhall.h"
#include "mali_valhall_descriptors.h"

/* Registers that RUN_COMPUTE reads; four kinds of pairs, of which the instruction selects one each. */
enum {
    REG_TABLES = 0,
    REG_UNIFORMS = 8,
    REG_SHADER = 16,
    REG_STORAGE = 24,
    REG_ATTRIBUTES = 32,
    REG_SIZE = 33,
    REG_FIRST = 34,
    REG_GROUPS = 37,
};
enum { SELECT_TABLES = 40, SELECT_SHADER = 42, SELECT_STORAGE = 44, SELECT_UNIFORMS = 46 };
enum { MAX_STORAGE = 16 };
#define UNIFORMS_ADDRESS UINT64_C(0x00ffffffffffffff) /* above: how many */
/* Suppressed NaN and infinities, flushed small numbers. */
#define SHADER_FLOAT_MODES                                                                                   \
    (VALHALL_SHADER_PROGRAM_SUPPRESS_NAN_MASK | VALHALL_SHADER_PROGRAM_FLUSH_TO_ZERO_MASK |                  \
     VALHALL_SHADER_PROGRAM_SUPPRESS_INF_MASK)
#define PRELOAD_LOCAL_XY (1u << (MALI_FIRST_PRELOADED - 48))
#define PRELOAD_KNOWN (0xffu * PRELOAD_LOCAL_XY) /* r55 to r62 */

static uint64_t selected(const struct mali_csf_dispatch *from, unsigned first, unsigned at)
{
    const uint32_t *reg = from->reg + first + 2 * (from->word >> at & 3);

    return reg[0] | (uint64_t)reg[1] << 32;
}

static uint32_t read_shader(struct mali_dispatch *d, const struct mali_csf_dispatch *from, uint64_t *code)
{
    uint8_t shader[VALHALL_SHADER_PROGRAM_BYTES];
    uint64_t va = selected(from, REG_SHADER, SELECT_SHADER);

    if (!mali_read(d->dev, d->space, va, shader, sizeof(shader)))
        return MALI_JOB_READ_FAULT;
    uint32_t head = valhall_shader_program_modes(shader), preload = valhall_shader_program_preload(shader);
    if (valhall_shader_program_type(shader) != VALHALL_SHADER_PROGRAM_TYPE_SHADER ||
        valhall_shader_program_stage(shader) != VALHALL_SHADER_PROGRAM_STAGE_COMPUTE)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "a descriptor that is no compute shader's",
                                    head);
    if (head & SHADER_FLOAT_MODES)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT,
                                    "a shader with a float mode that is not modelled", head);
    if (preload & ~PRELOAD_KNOWN)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "preloaded registers that are not modelled",
                                    preload);
    /* The bits of a renderer state, which follow one another in the same order. */
    d->preload = preload / PRELOAD_LOCAL_XY * MALI_PRELOAD_LOCAL_XY;
    d->program.given = (uint64_t)preload << 48;
    *code = valhall_shader_program_program(shader);
    return 0;
}

static uint32_t read_storage(struct mali_dispatch *d, uint64_t va)
{
    uint8_t storage[VALHALL_THREAD_STORAGE_BYTES];
    struct bifrost_environment *environment = &d->environment;

    if (!va)
        return 0;
    if (!mali_read(d->dev, d->space, va, storage, sizeof(storage)))
        return MALI_JOB_READ_FAULT;
    unsigned size = valhall_thread_storage_tls_size(storage),
             mode = valhall_thread_storage_tls_address_mode(storage);
    if (size > MAX_STORAGE)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "an unknown size of thread storage", size);
    if (size && mode != VALHALL_THREAD_STORAGE_TLS_ADDRESS_MODE_PACKED)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT,
                                    "thread storage by an address mode that is not modelled", mode);
    environment->thread_storage = valhall_thread_storage_tls_base_pointer(storage) << 8; /* packed */
    environment->thread_bytes = size || environment->thread_storage ? 16u << size : 0;
    environment->group_storage = valhall_thread_storage_wls_base_pointer(storage);
    environment->has_group_storage =
        valhall_thread_storage_wls_instances(storage) != VALHALL_THREAD_STORAGE_WLS_INSTANCES_NONE &&
        environment->group_storage;
    return 0;
}

static uint32_t read_uniforms(struct mali_dispatch *d, uint64_t named)
{
    uint32_t count = (uint32_t)(named >> 56);

    if (8u * count > sizeof(d->uniform))
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "too many push uniforms", count);
    d->environment.uniform = d->uniform;
    d->environment.uniforms = count;
    return !count || mali_read(d->dev, d->space, named & UNIFORMS_ADDRESS, d->uniform, 8 * count)
               ? 0
               : MALI_JOB_READ_FAULT;
}

static uint32_t add_buffer(struct mali_dispatch *d, uint64_t va, uint64_t bytes)
{
    const uint32_t number = d->environment.buffers;

    if (number == BIFROST_UNIFORM_BUFFERS || bytes > UINT32_MAX)
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "too many descriptors", number);
    d->buffer[number] = (struct bifrost_uniform_buffer){va, (uint32_t)bytes};
    d->environment.buffers++;
    return 0;
}

/* Descriptors of one table; those that are no buffers have no bytes. */
static uint32_t read_table(struct mali_dispatch *d, uint64_t va, uint64_t bytes)
{
    uint8_t buffer[VALHALL_BUFFER_BYTES];
    uint32_t exception = 0;

    for (uint64_t at = 0; at + sizeof(buffer) <= bytes && !exception; at += sizeof(buffer)) {
        if (!mali_read(d->dev, d->space, va + at, buffer, sizeof(buffer)))
            return MALI_JOB_READ_FAULT;
        bool is_buffer = valhall_buffer_type(buffer) == VALHALL_BUFFER_TYPE_BUFFER;
        exception = is_buffer ? add_buffer(d, valhall_buffer_address(buffer), valhall_buffer_size(buffer))
                              : add_buffer(d, 0, 0);
    }
    return exception;
}

/* A shader reads the tables' own bytes, descriptors, as buffers of one table more: it looks for the size of a
 * buffer there (Mesa 25.0.7 panvk_vX_nir_lower_descriptors.c, VALHALL_RESOURCE_TABLE_IDX). */
static uint32_t read_tables(struct mali_dispatch *d, uint64_t named)
{
    uint8_t entry[VALHALL_RESOURCE_TABLE_BYTES];
    uint32_t count = (uint32_t)(named & MALI_MAX_TABLES), exception = 0;
    uint64_t va = named & ~(uint64_t)MALI_MAX_TABLES;

    d->environment.buffer = d->buffer;
    d->environment.table = d->table;
    d->environment.tables = count;
    for (uint32_t i = 0; i < count && !exception; i++) {
        if (!mali_read(d->dev, d->space, va + i * sizeof(entry), entry, sizeof(entry)))
            return MALI_JOB_READ_FAULT;
        exception = add_buffer(d, valhall_resource_table_address(entry), valhall_resource_table_size(entry));
    }
    for (uint32_t i = 0; i < count && !exception; i++) {
        d->table[i] = d->environment.buffers;
        exception = read_table(d, d->buffer[i].va, d->buffer[i].bytes);
    }
    d->table[count] = d->environment.buffers;
    return exception;
}

static uint32_t read_size(struct mali_dispatch *d, const struct mali_csf_dispatch *from)
{
    uint32_t packed = from->reg[REG_SIZE];
    const uint32_t size[3] = {(packed & 1023) + 1, (packed >> 10 & 1023) + 1, (packed >> 20 & 1023) + 1};
    const uint32_t *first = from->reg + REG_FIRST, *groups = from->reg + REG_GROUPS;

    if (first[0] | first[1] | first[2] | from->reg[REG_ATTRIBUTES])
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT,
                                    "a dispatch that does not begin at the first thread", first[0]);
    if (!groups[0] || !groups[1] || !groups[2])
        return mali_dispatch_refuse(d, MALI_JOB_CONFIG_FAULT, "a dispatch of no workgroups", groups[0]);
    return mali_dispatch_size(d, size, groups);
}

uint32_t mali_csf_dispatch_read(struct mali_dispatch *d)
{
    const struct mali_csf_dispatch *from = d->from;
    const char *reason;
    uint64_t code = 0;
    uint32_t exception = read_size(d, from);

    if (!exception)
        exception = read_storage(d, selected(from, REG_STORAGE, SELECT_STORAGE));
    if (!exception)
        exception = read_uniforms(d, selected(from, REG_UNIFORMS, SELECT_UNIFORMS));
    if (!exception)
        exception = read_tables(d, selected(from, REG_TABLES, SELECT_TABLES));
    if (!exception)
        exception = read_shader(d, from, &code);
    if (exception)
        return exception;
    uint64_t given = d->program.given;
    const bool built = valhall_program_build(&d->program, &d->memory, code, &d->environment, &reason);
    (void)vgpu_budget_spend(&d->dev->chain, d->program.clauses);
    if (!built)
        return mali_dispatch_refuse(d, MALI_INSTR_INVALID_ENC, reason, code);
    d->program.given = given;
    d->may_wait = d->program.uses_barrier || d->program.exchanges;
    return 0;
}
