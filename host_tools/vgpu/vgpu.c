/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts that all virtual GPUs share: choice by name, counters, interrupt lines, observer, error state. */
#include "vgpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgpu_device.h"

/* Where the linker put the section of VGPU_FAMILIES. */
extern const struct vgpu_family *const __start_vgpu_families[] __attribute__((visibility("hidden")));
extern const struct vgpu_family *const __stop_vgpu_families[] __attribute__((visibility("hidden")));

enum { STOPPED_READ = (int)0xdeadbeef };

static const struct vgpu_family *find_family(const char *name)
{
    for (const struct vgpu_family *const *at = __start_vgpu_families; at != __stop_vgpu_families; at++)
        if (strcmp((*at)->name, name) == 0)
            return *at;
    return NULL;
}

static const char *unknown_name(void)
{
    static char text[256];
    size_t used = (size_t)snprintf(text, sizeof(text), "unknown GPU name (known: ");
    for (const struct vgpu_family *const *at = __start_vgpu_families; at != __stop_vgpu_families; at++)
        if (used < sizeof(text))
            used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", (*at)->name,
                                     at + 1 != __stop_vgpu_families ? ", " : ")");
    return text;
}

vgpu *vgpu_create(const char *name, const struct vgpu_host *host, const struct vgpu_options *options,
                  const char **error)
{
    const struct vgpu_family *family = find_family(name);
    if (!family) {
        *error = unknown_name();
        return NULL;
    }
    if (options->meter && options->track_access) {
        *error = "meter and track_access: one at a time";
        return NULL;
    }
    struct vgpu *gpu = family->create();
    if (!gpu) {
        *error = "out of memory";
        return NULL;
    }
    gpu->family = family;
    gpu->host = *host;
    gpu->options = *options;
    gpu->family->start(gpu);
    return gpu;
}

bool vgpu_executes_shaders(const char *name)
{
    const struct vgpu_family *family = find_family(name);
    return family && family->executes_shaders;
}

bool vgpu_follows_data(const char *name)
{
    const struct vgpu_family *family = find_family(name);
    return family && family->follows_data;
}

void vgpu_destroy(vgpu *gpu)
{
    if (!gpu)
        return;
    access_map_clear(&gpu->access);
    free(gpu->dispatch);
    gpu->family->destroy(gpu);
}

static bool offset_is_good(struct vgpu *gpu, const char *what, uint32_t offset)
{
    if (offset % 4 == 0 && offset < gpu->family->window_bytes)
        return true;
    vgpu_fail(gpu, "%s: %s at window offset 0x%x: not a register (window of 0x%x bytes, 32-bit words)",
              gpu->family->name, what, offset, gpu->family->window_bytes);
    return false;
}

uint32_t vgpu_read32(vgpu *gpu, uint32_t offset)
{
    uint32_t value = (uint32_t)STOPPED_READ;
    if (!gpu->error[0] && offset_is_good(gpu, "read", offset)) {
        gpu->counters.reads++;
        value = gpu->family->read32(gpu, offset);
        if (gpu->error[0])
            value = (uint32_t)STOPPED_READ;
        else if (gpu->observer.read)
            gpu->observer.read(gpu->observer.ctx, offset, value);
    }
    return value;
}

void vgpu_write32(vgpu *gpu, uint32_t offset, uint32_t value)
{
    if (gpu->error[0] || !offset_is_good(gpu, "write", offset))
        return;
    gpu->counters.writes++;
    if (gpu->observer.write)
        gpu->observer.write(gpu->observer.ctx, offset, value);
    gpu->family->write32(gpu, offset, value);
}

uint32_t vgpu_window_bytes(const vgpu *gpu)
{
    return gpu->family->window_bytes;
}

unsigned vgpu_interrupt_lines(const vgpu *gpu)
{
    return gpu->family->interrupt_lines;
}

bool vgpu_interrupt_level(const vgpu *gpu, unsigned line)
{
    return line < gpu->family->interrupt_lines && gpu->level[line];
}

void vgpu_advance(vgpu *gpu, uint64_t now_ns)
{
    if (gpu->error[0])
        return;
    if (now_ns < gpu->now_ns) {
        vgpu_fail(gpu, "%s: time went backwards, from %llu ns to %llu ns", gpu->family->name,
                  (unsigned long long)gpu->now_ns, (unsigned long long)now_ns);
        return;
    }
    gpu->now_ns = now_ns;
    gpu->family->advance(gpu);
}

const char *vgpu_error(const vgpu *gpu)
{
    return gpu->error[0] ? gpu->error : NULL;
}

void vgpu_counters_get(const vgpu *gpu, struct vgpu_counters *out)
{
    *out = gpu->counters;
}

void vgpu_memory_changed(vgpu *gpu)
{
    if (gpu->family->memory_changed)
        gpu->family->memory_changed(gpu);
}

size_t vgpu_dispatches(const vgpu *gpu, struct vgpu_dispatch *rows, size_t count)
{
    if (rows && gpu->dispatches)
        memcpy(rows, gpu->dispatch, (count < gpu->dispatches ? count : gpu->dispatches) * sizeof(*rows));
    return gpu->dispatches;
}

void vgpu_dispatches_clear(vgpu *gpu)
{
    gpu->dispatches = 0;
}

void vgpu_keep_dispatch(struct vgpu *gpu, const struct vgpu_dispatch *row)
{
    if (gpu->dispatches == gpu->dispatch_room) {
        size_t room = gpu->dispatch_room ? 2 * gpu->dispatch_room : 64;
        struct vgpu_dispatch *more = realloc(gpu->dispatch, room * sizeof(*more));
        if (!more) {
            vgpu_fail(gpu, "%s: out of memory for what dispatches cost", gpu->family->name);
            return;
        }
        gpu->dispatch = more;
        gpu->dispatch_room = room;
    }
    gpu->dispatch[gpu->dispatches++] = *row;
}

size_t vgpu_access_pages(const vgpu *gpu, uint64_t *pages, size_t count)
{
    return access_map_pages(&gpu->access, pages, count);
}

bool vgpu_access(const vgpu *gpu, uint64_t pa, uint8_t map[4096])
{
    const uint8_t *flags = access_map_find(&gpu->access, pa);
    if (flags)
        memcpy(map, flags, 4096);
    return flags != NULL;
}

void vgpu_access_clear(vgpu *gpu)
{
    access_map_clear(&gpu->access);
    gpu->access_varies = false;
}

bool vgpu_access_varies(const vgpu *gpu)
{
    return !gpu->family->reads_shaders || gpu->access_varies;
}

bool vgpu_follow(vgpu *gpu, struct vgpu_flow *flow)
{
    if (!gpu->family->follows_data)
        return false;
    gpu->flow = flow;
    return true;
}

void vgpu_observe(vgpu *gpu, const struct vgpu_observer *observer)
{
    gpu->observer = *observer;
}

void vgpu_add_page(struct vgpu_run *run, uint64_t va, uint64_t pa, uint32_t flags)
{
    run->pages++;
    if (run->bytes && run->va + run->bytes == va && run->pa + run->bytes == pa && run->flags == flags) {
        run->bytes += VGPU_PAGE_BYTES;
        return;
    }
    if (run->bytes)
        run->visit(run->ctx, run->va, run->pa, run->bytes, run->flags);
    run->va = va;
    run->pa = pa;
    run->flags = flags;
    run->bytes = VGPU_PAGE_BYTES;
}

size_t vgpu_walk(vgpu *gpu, vgpu_visit *visit, void *ctx)
{
    struct vgpu_run run = {.visit = visit, .ctx = ctx};
    gpu->family->walk(gpu, &run);
    if (run.bytes)
        visit(ctx, run.va, run.pa, run.bytes, run.flags);
    return run.pages;
}

void vgpu_fail(struct vgpu *gpu, const char *format, ...)
{
    if (gpu->error[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(gpu->error, sizeof(gpu->error), format, args);
    va_end(args);
}

void vgpu_set_level(struct vgpu *gpu, unsigned line, bool level)
{
    if (gpu->level[line] == level)
        return;
    gpu->level[line] = level;
    gpu->counters.interrupts += level;
    if (gpu->observer.interrupt)
        gpu->observer.interrupt(gpu->observer.ctx, line, level);
    if (gpu->host.interrupt)
        gpu->host.interrupt(gpu->host.ctx, line, level);
}

void vgpu_job_start(struct vgpu *gpu, unsigned kind)
{
    if (gpu->observer.job_start)
        gpu->observer.job_start(gpu->observer.ctx, kind);
}

void vgpu_job_call(struct vgpu *gpu, const struct vgpu_call *call)
{
    if (gpu->observer.call)
        gpu->observer.call(gpu->observer.ctx, call);
}

void vgpu_job_end(struct vgpu *gpu, unsigned kind)
{
    if (gpu->observer.job_end)
        gpu->observer.job_end(gpu->observer.ctx, kind);
}
