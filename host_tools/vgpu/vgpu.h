/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Virtual GPU: the one interface that every virtual GPU implements.
 *
 * The same library is loaded by Python (cffi), by the QEMU device plugin and by the recorder. A virtual GPU
 * behaves as hardware does at the register, MMU, job and interrupt level, executes the GPU's real machine
 * code, and fails loudly: an unknown register, opcode or bit sets an error that names it and stops the GPU.
 * The variant "mali_g71-noshaders" executes none: its jobs end without having touched more than their
 * headers.
 *
 * Threading: all calls come from one thread (QEMU holds its big lock). The library starts worker threads of
 * its own for compute; of the callbacks they make only `memory`, one at a time, while a call is under way.
 */
#ifndef GRAMOPHONE_VGPU_H
#define GRAMOPHONE_VGPU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gramophone_counters.h" /* struct vgpu_counters */

#ifdef __cplusplus
extern "C" {
#endif

typedef struct vgpu vgpu;

/* What the virtual GPU requires of the machine it sits in. */
struct vgpu_host {
    void *ctx;
    /* Host pointer for physical address `pa`. On return *len is the number of bytes that are
     * contiguous from there (at least one). NULL: nothing is there, the access is a bus error. The
     * pointer stays valid until vgpu_memory_changed(). */
    uint8_t *(*memory)(void *ctx, uint64_t pa, uint64_t *len);
    /* Level of interrupt line `line` (index in the GPU profile's order) changed. */
    void (*interrupt)(void *ctx, unsigned line, bool level);
    /* Ask for vgpu_advance() no earlier than delay_ns from now; NULL: the owner polls vgpu_advance(). */
    void (*schedule)(void *ctx, uint64_t delay_ns);
};

struct vgpu_options {
    uint64_t latency_ns; /* from job start to completion interrupt, and of each busy bit; 0: at once */
    uint32_t threads;    /* worker threads for compute; 0: one per host core */
    bool track_access;   /* keep the per-byte access map (vgpu_access) */
    uint32_t hang_job;   /* test aid: this compute job (1-based) never completes; 0: none */
    uint32_t fault_job;  /* test aid: this compute job (1-based) reports an MMU fault; 0: none */
    /* What a compute job may execute before it counts as hung, over all its threads: a V3D's instructions, a
     * Mali's clauses (of a whole chain), each once for a batch of threads; a list's packets and rows of
     * tiles. 0: what the GPU gets through before its driver resets it. */
    uint64_t job_limit;
    bool meter; /* keep a row a dispatch (vgpu_dispatches), with one thread for compute; not with track_access
                 */
};

/* Create the GPU named as its profile ("v3d42", "mali_g71"). NULL with *error set (static text)
 * on an unknown name. */
vgpu *vgpu_create(const char *gpu, const struct vgpu_host *host, const struct vgpu_options *options,
                  const char **error);
void vgpu_destroy(vgpu *gpu);

/* Whether the GPU of that name executes shaders: where it does not, what jobs compute is not computed. And
 * whether it can follow data (vgpu_follow). */
bool vgpu_executes_shaders(const char *gpu);
bool vgpu_follows_data(const char *gpu);

/* Register access by byte offset in the register window (layout: trace_format/gpus/NAME.toml). */
uint32_t vgpu_read32(vgpu *gpu, uint32_t offset);
void vgpu_write32(vgpu *gpu, uint32_t offset, uint32_t value);

/* Size of the register window in bytes, and number of interrupt lines. */
uint32_t vgpu_window_bytes(const vgpu *gpu);
unsigned vgpu_interrupt_lines(const vgpu *gpu);
bool vgpu_interrupt_level(const vgpu *gpu, unsigned line);

/* Complete what is due at the virtual time now_ns (monotonic, chosen by the owner). */
void vgpu_advance(vgpu *gpu, uint64_t now_ns);

/* NULL, or what was requested that the virtual GPU does not model: names register / opcode / bit and where.
 * Once set, the GPU has stopped: reads give 0xdeadbeef, writes are ignored. */
const char *vgpu_error(const vgpu *gpu);

void vgpu_counters_get(const vgpu *gpu, struct vgpu_counters *out);

/*
 * What a compute dispatch does that takes time, a row each (meter only). A group is what runs one instruction
 * together: a V3D's batch of sixteen lanes, a Mali's quad or warp of four. An access of a group touches lines
 * of 64 bytes, each counted once; what of them the chip's caches would miss is a model's answer (meter.h).
 */
struct vgpu_dispatch {
    uint64_t instructions;  /* of groups: a V3D's instructions, a Mali's tuples */
    uint64_t clauses;       /* of groups, of a Mali; 0 of a V3D */
    uint64_t loads, stores; /* accesses of groups; an atomic operation is one of each, a prefetch a load */
    uint64_t loaded_words, stored_words; /* 32-bit words a lane of each, added up */
    uint64_t loaded_lines, stored_lines;
    uint64_t first_misses;        /* of the loaded lines, in the cache next to the shader cores */
    uint64_t second_misses;       /* of those, in the one behind */
    uint64_t stored_misses;       /* of the stored lines, in that one */
    uint64_t spills;              /* accesses of groups to a thread's own memory, of a Mali */
    uint64_t workgroups, threads; /* threads: lanes that exist */
    uint64_t groups;              /* of threads that run together */
    uint32_t registers;           /* that the code names: the highest number + 1 */
    uint32_t resident;            /* threads a core of a V3D holds at once: 2 or 4; 0 of a Mali */
};
/* Rows since creation or vgpu_dispatches_clear: returns how many there are, and copies up to `count` of them,
 * the earliest first, where `rows` is not NULL. A dispatch that failed has a row, too. */
size_t vgpu_dispatches(const vgpu *gpu, struct vgpu_dispatch *rows, size_t count);
void vgpu_dispatches_clear(vgpu *gpu);

/* The owner's memory callback now gives other pointers: forget the earlier ones. */
void vgpu_memory_changed(vgpu *gpu);

/*
 * Access map of one physical 4 KiB page since creation (track_access only): one byte a byte of the page,
 * made of VGPU_ACCESS_*. Returns the number of pages with any access; fills up to `count` page addresses in
 * ascending order when pages is not NULL.
 */
#define VGPU_ACCESS_READ_FIRST 1u /* read by the GPU before the GPU wrote it: its initial content matters */
#define VGPU_ACCESS_READ 2u
#define VGPU_ACCESS_WRITTEN 4u
/* Read as what decides what jobs do: a Mali's descriptor; code; a V3D's uniforms; what a shader loads to find
 * its buffers. */
#define VGPU_ACCESS_COMMAND 8u
size_t vgpu_access_pages(const vgpu *gpu, uint64_t *pages, size_t count);
bool vgpu_access(const vgpu *gpu, uint64_t pa, uint8_t map[4096]); /* false: page was not accessed */
void vgpu_access_clear(vgpu *gpu);                                 /* forget; a new observation begins */
/* Whether other data may lead to other accesses, as far as code tells: since creation or vgpu_access_clear,
 * shaders have run that let words they load, other than those of VGPU_ACCESS_COMMAND, decide an address or a
 * branch; or a V3D's lists (track_access only). True for a GPU whose shaders are not looked through. */
bool vgpu_access_varies(const vgpu *gpu);

/*
 * Where data comes from: what each byte of memory depends on, as a set of labels (bits), which follow what
 * compute jobs do. What a label stands for is the owner's to say; he sets those of what he writes to memory.
 *
 * A byte has the labels of all that it was computed from. Those in `implicit` count also where they decide an
 * address, or whether a lane or a branch is taken: for what is loaded from or stored to the address, and for
 * what is written from there on. Where they decide whether a lane is written, or which of two conditions
 * counts, a result has the labels of what it is and of what it would be otherwise. That nothing was written,
 * because of a branch or to another address, leaves no label: `addresses` and `control` say whether that is
 * possible.
 */
struct vgpu_flow {
    uint32_t *labels; /* one a byte of physical memory, from address 0 on */
    uint64_t bytes;   /* of memory */
    uint32_t implicit;
    uint32_t
        registers; /* label of a register that the thread has not written; 0: such registers are ignored */
    /* Added to by jobs, cleared by the owner: labels of all that was read from memory; those in `implicit`
     * that have decided an address; a branch, the code, or which lanes access memory; those of code, uniforms
     * and lists themselves. */
    uint32_t read, addresses, control, commands;
    /* A branch that a label in `implicit` decides: where the instruction lies, whether it was taken.
     * Optional. */
    void (*branch)(void *ctx, uint32_t va, bool taken);
    void *ctx;
};
/* Follow data from now on; `flow` stays the owner's and in use. NULL: no longer. False: the GPU cannot. */
bool vgpu_follow(vgpu *gpu, struct vgpu_flow *flow);

/* A call of a command stream, or the rest of one that has waited. */
struct vgpu_call {
    uint64_t va;
    uint32_t bytes, queue;
    bool is_rest;
    const uint32_t *registers; /* as it finds them */
};

/* Observer for the recorder; all are optional (NULL). Called on the owner's thread, in order. */
struct vgpu_observer {
    void *ctx;
    void (*read)(void *ctx, uint32_t offset, uint32_t value);
    void (*write)(void *ctx, uint32_t offset, uint32_t value);
    void (*interrupt)(void *ctx, unsigned line, bool level);
    /* A job is about to run (compute: kind 0; bin list: 1; render list: 2): before it touches memory. */
    void (*job_start)(void *ctx, unsigned kind);
    void (*job_end)(void *ctx, unsigned kind);
    /* The job that starts next is this. */
    void (*call)(void *ctx, const struct vgpu_call *call);
};
void vgpu_observe(vgpu *gpu, const struct vgpu_observer *observer);

/* Walk the current GPU address space as the GPU sees it (after its last job started: changes that the GPU has
 * not been notified of do not show). Calls visit for each run of pages that are contiguous in both address
 * spaces and alike in flags (VGPU_PAGE_*). Returns the number of mapped pages. */
#define VGPU_PAGE_READABLE 1u
#define VGPU_PAGE_WRITABLE 2u
#define VGPU_PAGE_READ 4u    /* read by the latest job */
#define VGPU_PAGE_WRITTEN 8u /* written by the latest job */
#define VGPU_PAGE_EXECUTABLE 16u
typedef void vgpu_visit(void *ctx, uint64_t va, uint64_t pa, uint64_t bytes, uint32_t flags);
size_t vgpu_walk(vgpu *gpu, vgpu_visit *visit, void *ctx);

#ifdef __cplusplus
}
#endif
#endif
