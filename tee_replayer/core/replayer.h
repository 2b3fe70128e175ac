/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The replayer: verifies a signed trace, loads it into a carve-out of secure memory, replays it on the GPU.
 *
 * Freestanding C11: no heap, no libc (memcpy and memset come from the port), no recursion; every loop is
 * bounded and every wait has a timeout. All state lies in one struct gr_replayer. A caller does
 *
 *     gr_load, then as often as wanted { gr_bind for each slot, gr_run }, then gr_unload
 *
 * and reads r->report when a status is not GR_STATUS_OK. What the caller must provide:
 *   - the replayer, the stack and the carve-out lie in secure memory; only this code and the GPU reach
 *     the carve-out;
 *   - the GPU's clock and power are on, and nobody else drives it;
 *   - CPU and GPU see the same bytes in the carve-out: it is mapped without caches, or as memory that the GPU
 *     snoops. Page tables and job descriptors lie in it, and the core has no cache maintenance of its own;
 *   - the four gr_port functions, and the crypto seam (gr_sha256, gr_signature_verify).
 * The memory that struct gr_source and bound slots lead to may be anyone's: each byte is
 * copied once, then used.
 */
#ifndef GRAMOPHONE_REPLAYER_H
#define GRAMOPHONE_REPLAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gramophone_report.h"

/* `static` where replayer.c, the port and the caller are compiled as one file, which makes them smaller. */
#ifndef GR_API
#define GR_API
#endif

/* The carve-out. */
struct gr_memory {
    uint8_t *base;  /* as the CPU sees it */
    uint64_t phys;  /* as the GPU sees it, a multiple of 4096 */
    uint64_t bytes; /* size */
};

/* Where the signed trace comes from: copies `bytes` bytes from `offset`; false when it cannot. */
struct gr_source {
    bool (*read)(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes);
    void *ctx;
};

enum { GR_SLOTS = 256, GR_KEPT = 8 };

struct gr_policy;
struct gr_replayer;
#include "features_api.h"

/* Whom and what the device accepts. */
struct gr_policy {
    GR_SIGNER_FIELDS
    uint32_t min_security_version; /* the rollback counter: older traces are refused */
    GR_POLICY_FIELDS
};

/* A slot, for callers that describe or validate what they bind. */
struct gr_slot_info {
    char name[33];
    uint8_t kind, dtype, rank;
    bool bound; /* the trace holds a value */
    uint32_t dims[6];
    uint64_t bytes; /* of dense data */
};

/* How far a network has come; a trace that is not joint has one. */
struct gr_progress {
    uint64_t tables; /* page tables in use, of drivers that take them as needed */
    uint32_t kept[GR_KEPT];
    bool started; /* the prologue is done */
    GR_PROGRESS_FIELDS
};

/* State; its fields are the replayer's own, except `report`. */
struct gr_replayer {
    struct gr_report report;
    struct gr_memory memory;
    uint8_t *high;      /* from here to the carve-out's end: head, actions, workspace */
    uint64_t low_bytes; /* from its start: the trace's memory, page table, scratch page */
    const uint8_t *actions;
    const uint8_t *slots;
    const uint8_t *manifest; /* of the loaded trace, as in its file */
    uint32_t action_count, replay_start, slot_count, retry_limit;
    uint32_t state;
    uint64_t carveout_bytes, image_bytes, va_bytes, time_budget_us;
    uint64_t image_end; /* of the image's last page: nothing writes below it */
    uint64_t deadline_us;
    uint8_t *bound[GR_SLOTS];       /* the caller's data */
    const struct gr_limits *limits; /* of the register that the latest action writes; NULL: it writes none */
    struct gr_progress progress[GR_NETWORKS];
    uint32_t code;   /* GPU address of the next job's code, of drivers that check where it lies */
    bool touched;    /* the GPU has been written to */
    uint16_t locked; /* address spaces that have a locked region, of drivers that let no job start then */
    GR_REPLAYER_FIELDS
};

/* Verify a signed trace and load it. No register is written; the GPU's identity is read. A failed load leaves
 * nothing in the carve-out. `signed_bytes` is the file's size, at most 2^40; `source` must refuse what lies
 * behind it. Both keep sums of the trace's sizes from wrapping. */
GR_API enum gr_status gr_load(struct gr_replayer *r, const struct gr_memory *memory,
                              const struct gr_source *source, uint64_t signed_bytes,
                              const struct gr_policy *policy);

GR_API uint32_t gr_slot_count(const struct gr_replayer *r);
GR_API bool gr_slot_info(const struct gr_replayer *r, uint32_t slot, struct gr_slot_info *info);

/* Bind dense data in C order to a slot, for all following runs; NULL with 0 bytes unbinds. The memory
 * must not overlap the carve-out. An input that is not bound keeps the recording's value, an output is
 * not copied. Parameters are copied in the prologue: binding one makes the next gr_run start with a
 * reset and the prologue. */
GR_API enum gr_status gr_bind(struct gr_replayer *r, uint32_t slot, void *data, uint64_t bytes);

/* Forget what earlier runs left: the next one starts as the first did, with a reset GPU, cleared memory and
 * the prologue. What is bound stays so. For callers that serve several users with one loaded trace. */
GR_API void gr_restart(struct gr_replayer *r);

/* Replay once. On a divergence the GPU is reset and the replay tried again, as often as the trace allows. */
GR_API enum gr_status gr_run(struct gr_replayer *r);

/* Reset the GPU if it was used, and wipe the carve-out and *r, except the report. */
GR_API void gr_unload(struct gr_replayer *r);

/* The port: the GPU's registers by byte offset in its window, its interrupt lines, and a clock that only
 * grows. gr_port_write32 orders earlier memory writes before the register's. */
GR_API uint32_t gr_port_read32(uint32_t offset);
GR_API void gr_port_write32(uint32_t offset, uint32_t value);
GR_API bool gr_port_wait_irq(unsigned line, uint32_t timeout_us); /* true once the line is active */
GR_API uint64_t gr_port_now_us(void);
/* The lowest security version once more, inverted; not by way of a pointer that the caller has, and not where
 * the policy's lies: one fault does not exchange both. */
GR_API uint32_t gr_port_lowest_inverted(void);

#endif
