/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What stands between vgpu.h and a GPU family: the state that every virtual GPU has, and the operations that
 * a family provides. A family's device struct begins with struct vgpu.
 */
#ifndef GRAMOPHONE_VGPU_DEVICE_H
#define GRAMOPHONE_VGPU_DEVICE_H

#include "access_map.h"
#include "vgpu.h"

enum { VGPU_MAX_INTERRUPT_LINES = 4 };

/* Job kinds of vgpu_observer. */
enum { VGPU_JOB_COMPUTE = 0, VGPU_JOB_BIN = 1, VGPU_JOB_RENDER = 2 };

/* A run of pages for vgpu_walk that grows as long as pages continue it. */
struct vgpu_run {
    uint64_t va, pa, bytes;
    uint32_t flags;
    size_t pages; /* of all runs */
    vgpu_visit *visit;
    void *ctx;
};

enum { VGPU_PAGE_BYTES = 4096 };

struct vgpu_family {
    const char *name;
    uint32_t window_bytes;
    unsigned interrupt_lines;
    bool executes_shaders, follows_data;
    bool reads_shaders; /* keeps access_varies */
    /* Allocate the device, zeroed except for its private parts; NULL when memory is short. */
    struct vgpu *(*create)(void);
    /* host and options are in place: bring the device to its reset state. */
    void (*start)(struct vgpu *gpu);
    void (*destroy)(struct vgpu *gpu);
    /* offset is a multiple of four inside the window, and the GPU has not failed. */
    uint32_t (*read32)(struct vgpu *gpu, uint32_t offset);
    void (*write32)(struct vgpu *gpu, uint32_t offset, uint32_t value);
    /* gpu->now_ns has advanced: complete what is due. */
    void (*advance)(struct vgpu *gpu);
    /* NULL for a family that keeps no pointers of the host's. */
    void (*memory_changed)(struct vgpu *gpu);
    /* vgpu_walk: call vgpu_add_page for each page that is mapped, in ascending order. */
    void (*walk)(struct vgpu *gpu, struct vgpu_run *run);
};

/* Makes a family's GPUs known by their names: vgpu.c looks through what all families put into the section. */
#define VGPU_FAMILIES(...)                                                                                   \
    __attribute__((used, section("vgpu_families"),                                                           \
                   aligned(sizeof(void *)))) static const struct vgpu_family *const registered[] = {         \
        __VA_ARGS__}

struct vgpu {
    const struct vgpu_family *family;
    struct vgpu_host host;
    struct vgpu_options options;
    struct vgpu_observer observer;
    struct vgpu_counters counters;
    struct vgpu_dispatch *dispatch; /* rows, dispatches of them in room for dispatch_room; NULL: none yet */
    size_t dispatches, dispatch_room;
    struct access_map access;
    bool access_varies;     /* see vgpu_access_varies */
    struct vgpu_flow *flow; /* or NULL */
    uint64_t now_ns;
    bool level[VGPU_MAX_INTERRUPT_LINES];
    char error[384];
};

/* Stop the GPU with an error; the first one stays. */
__attribute__((format(printf, 2, 3))) void vgpu_fail(struct vgpu *gpu, const char *format, ...);
void vgpu_set_level(struct vgpu *gpu, unsigned line, bool level);
void vgpu_add_page(struct vgpu_run *run, uint64_t va, uint64_t pa, uint32_t flags);
/* Keep the row of a dispatch; stops the GPU where the host's memory is exhausted. */
void vgpu_keep_dispatch(struct vgpu *gpu, const struct vgpu_dispatch *row);
void vgpu_job_start(struct vgpu *gpu, unsigned kind);
/* Before vgpu_job_start, of a GPU with command streams. */
void vgpu_job_call(struct vgpu *gpu, const struct vgpu_call *call);
void vgpu_job_end(struct vgpu *gpu, unsigned kind);

#endif
