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

#ifdef GRAMOPHONE_LOG
struct gr_log;
#endif

/* Whom and what the device accepts. */
struct gr_policy {
#ifdef GRAMOPHONE_TRUST
    const uint8_t *trust;         /* the device's own trust policy, at a multiple of 8 */
    const uint8_t *platform;      /* 16 bytes: board or environment, and zeros */
    const uint8_t *device_id;     /* 16 bytes; zeros: it has none */
    uint32_t least_trust_version; /* older policies are refused */
    uint64_t now_s; /* seconds since 1970 (UTC); 0: there is no clock; GR_NO_TIME: it is not set */
#else
    const uint8_t *key;    /* 65 bytes: P-256 public key, 04 || x || y */
    const uint8_t *key_id; /* 16 bytes */
#endif
    uint32_t min_security_version; /* the rollback counter: older traces are refused */
#ifdef GRAMOPHONE_LOG
    struct gr_log *log; /* that is told what is loaded and replayed; NULL: none is kept */
#endif
};

/* A slot, for callers that describe or validate what they bind. */
struct gr_slot_info {
    char name[33];
    uint8_t kind, dtype, rank;
    bool bound; /* the trace holds a value */
    uint32_t dims[6];
    uint64_t bytes; /* of dense data */
};

#ifdef GRAMOPHONE_NETWORKS
enum { GR_NETWORKS = GRAMOPHONE_NETWORKS }; /* that a trace may have here */

/* What is a network's: of a trace of one network, all there is. Offsets in the carve-out. */
struct gr_own {
    uint32_t first_action, replay_start, end_action; /* the actions before replay_start are the prologue */
    uint32_t first_slot, end_slot, retry_limit;
    uint64_t time_budget_us;
    uint64_t work_at, work_end;     /* working memory */
    uint64_t driver_at, driver_end; /* page tables, scratch page */
};
#endif

#ifdef GRAMOPHONE_STEPS
/* A replay that is under way, of gr_step. */
struct gr_under_way {
    uint64_t spent_us; /* of the time budget: in this code, not between steps */
    uint64_t actions;  /* done so far, in all attempts */
    uint32_t next;     /* action that the next step begins with; 0: no step has ended */
    uint32_t retries, jobs;
    bool is_begun;
    bool can_repeat; /* what has been done since the checkpoint, for all that the trace says */
};
#endif

#ifdef GRAMOPHONE_NETWORKS
/* How far a network has come. */
struct gr_progress {
    uint64_t tables; /* page tables in use, of drivers that take them as needed */
#ifdef GRAMOPHONE_STEPS
    struct gr_under_way under_way;
#endif
    uint32_t kept[8];
    bool started; /* the prologue is done */
#ifdef GRAMOPHONE_STEPS
    bool is_away; /* memory is as the latest step has left it, registers are not */
#endif
};

/* A network, for callers that choose one. */
struct gr_network_info {
    char name[33];
    uint32_t first_slot, slot_count;
    uint32_t predicted_us, longest_job_us, period_us, priority; /* as the trace says; 0: not known */
};
#endif

enum { GR_SLOTS = 256, GR_KEPT = 8 };

#ifdef GRAMOPHONE_SCHEDULE
enum { GR_REQUESTS = GRAMOPHONE_SCHEDULE }; /* that wait at the same time */

/* Data for a slot, of as many bytes as it has. */
struct gr_binding {
    void *data;
    uint64_t bytes;
    uint32_t slot;
};

struct gr_request {
    const struct gr_binding *bindings; /* the caller's */
    uint64_t due_us, within_us;        /* by the port's clock; after it was submitted */
    uint64_t given_us;                 /* time that it may spend until it has to let others go first */
    uint64_t left_us;                  /* of that, after its latest step */
    uint32_t id, network, count;
    bool is_begun;
    bool can_interleave; /* its replay goes on where it was after another network's job */
};

struct gr_queue {
    struct gr_request requests[GR_REQUESTS]; /* in the order in which they are served */
    uint64_t takes_us[GR_NETWORKS]; /* a replay, as the trace says; where it does not, all that it may take */
    uint64_t latest_us;             /* that the clock has shown */
    uint32_t length, last_id;
};
#endif

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
    uint64_t tables;                /* page tables in use, of drivers that take them as needed */
    uint8_t *bound[GR_SLOTS];       /* the caller's data */
    const struct gr_limits *limits; /* of the register that the latest action writes; NULL: it writes none */
    uint32_t kept[GR_KEPT];
#ifdef GRAMOPHONE_TRUST
    uint32_t trust_version; /* of the policy under which the loaded trace was accepted */
#endif
    uint32_t code; /* GPU address of the next job's code, of drivers that check where it lies */
#ifdef GRAMOPHONE_STORE
    bool is_kept; /* the loaded trace's versions are in the rollback store */
#endif
#ifdef GRAMOPHONE_NETWORKS
    const uint8_t *rows; /* of the networks, as in the trace's file; NULL: it has one, and no section */
    uint32_t network_count, network; /* the latter: that is checked, or was selected */
    uint32_t running;                /* whose page tables the GPU uses, once one has started */
    bool is_exclusive;               /* all have the same working memory */
    struct gr_own networks[GR_NETWORKS];
    struct gr_progress progress[GR_NETWORKS];
#endif
#ifdef GRAMOPHONE_STEPS
    struct gr_under_way under_way; /* of a trace of one network */
#endif
#ifdef GRAMOPHONE_SCHEDULE
    struct gr_queue queue;
#endif
    bool touched; /* the GPU has been written to */
    bool started; /* the prologue is done */
#ifdef GRAMOPHONE_STEPS
    bool is_away; /* memory is as the latest step has left it, registers are not */
#endif
    uint16_t locked; /* address spaces that have a locked region, of drivers that let no job start then */
#ifdef GRAMOPHONE_LOG
    struct gr_log *log;
#endif
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

#ifdef GRAMOPHONE_NETWORKS
/* Networks of a joint trace. The one that was selected is what gr_run replays and gr_restart forgets; after
 * gr_load it is the first. Each has its own memory and page tables, its own prologue, retries and time. A
 * reset after a divergence makes all of them start again, but for those that go on (gr_yield). ARGUMENT:
 * there are not so many. */
GR_API uint32_t gr_network_count(const struct gr_replayer *r);
GR_API bool gr_network_info(const struct gr_replayer *r, uint32_t network, struct gr_network_info *info);
GR_API enum gr_status gr_select(struct gr_replayer *r, uint32_t network);
#endif

/* Replay once. On a divergence the GPU is reset and the replay tried again, as often as the trace allows. */
GR_API enum gr_status gr_run(struct gr_replayer *r);

#ifdef GRAMOPHONE_STEPS
/* Replay as far as the next job that can wait: no job runs then, and memory is kept. True: there is more to
 * do, so call it again; false: it is over, and the report says how. Other networks of a joint trace may have
 * steps in between; whoever lets others drive the GPU calls gr_yield before.
 * Until it is over, gr_bind refuses (STATE) what is the network's: inputs may have been copied, outputs not
 * yet. After gr_restart it takes it, and the replay begins again; gr_run gives up the one that is under way.
 * Time between steps does not count against the time budget. */
GR_API bool gr_step(struct gr_replayer *r);

/* Before others drive the GPU: what runs stops, and no page table of the replayer's is in use. With the next
 * step comes a reset, and a replay goes on where it was if its trace says that it can (ReplayStart's flag);
 * if not, the network begins again. No register is written until then. False: the reset does not complete, so
 * the GPU cannot be given away. */
GR_API bool gr_yield(struct gr_replayer *r);
#endif

#ifdef GRAMOPHONE_SCHEDULE
/* Ask for a replay of a network that is to be done at `due_us` of the port's clock; GR_NO_DEADLINE: whenever
 * there is time. The request that is due first is served first, those of one time in their order; one of a
 * network that is under way ends before the next one of that network. Where going to another network loses
 * what was done (joint traces with one working memory for all; on Malis traces that do not say that they go
 * on after a reset), a replay that has begun ends before any other begins.
 *
 * `bindings` names data of slots, which is bound when the replay begins, and unbound when it is over (for
 * parameters, that takes the prologue each time); slots that it does not name are as gr_bind left them. Array
 * and data stay where they are, and are not changed, until then. `id`: number of the request, not 0.
 *
 * ARGUMENT: no such network; a slot that is not its, or has other bytes. QUEUE: too many wait. DEADLINE: it
 * is over, or by the times that the trace predicts (where it does not: by time budgets) this request, or one
 * that was accepted before, would be late. Prologues are not predicted: the first replay takes longer, and so
 * does each after a reset. */
GR_API enum gr_status gr_submit(struct gr_replayer *r, uint32_t network, uint64_t due_us,
                                const struct gr_binding *bindings, uint32_t count, uint32_t *id);
#define GR_NO_DEADLINE UINT64_MAX

/* One step (gr_step) of the request that is first; its network is selected then. The id of the request that
 * is over by that, and the report says how; otherwise 0. A request that takes longer than predicted is due
 * later by as much as it had at first, each time. Callers do this as long as gr_requests is not 0, and may
 * submit in between; they leave gr_step, gr_run and gr_restart to it. */
GR_API uint32_t gr_schedule_step(struct gr_replayer *r);

/* How many requests wait or are under way. */
GR_API uint32_t gr_requests(const struct gr_replayer *r);

/* Take a request back, whose network begins again with its prologue if it was under way, and is selected.
 * ARGUMENT: there is none of this id. */
GR_API enum gr_status gr_withdraw(struct gr_replayer *r, uint32_t id);
#endif

/* Reset the GPU if it was used, and wipe the carve-out and *r, except the report. */
GR_API void gr_unload(struct gr_replayer *r);

/* The port: the GPU's registers by byte offset in its window, its interrupt lines, and a clock that only
 * grows. gr_port_write32 orders earlier memory writes before the register's. */
GR_API uint32_t gr_port_read32(uint32_t offset);
GR_API void gr_port_write32(uint32_t offset, uint32_t value);
GR_API bool gr_port_wait_irq(unsigned line, uint32_t timeout_us); /* true once the line is active */
GR_API uint64_t gr_port_now_us(void);
/* The policy once more, not by way of a pointer that the caller has, and not where the first one lies: one
 * fault does not exchange both. 65 bytes of key; and the lowest security version, inverted. */
#ifdef GRAMOPHONE_TRUST
GR_API void gr_port_policy_again(struct gr_policy *policy);
#else
GR_API const uint8_t *gr_port_key_again(void);
#endif
GR_API uint32_t gr_port_lowest_inverted(void);
#ifdef GRAMOPHONE_ENCRYPTION
/* The device's secret, from which its private key follows; a private key of P-256, the most significant byte
 * first, that it has in common with others. False: there is none. */
GR_API bool gr_port_secret(uint8_t secret[32]);
GR_API bool gr_port_fleet_key(uint8_t key[32]);
#endif

#ifdef GRAMOPHONE_CLOCK
/* Seconds since 1970 (UTC), of a clock that the normal world cannot set; 0: it is not set. */
GR_API uint64_t gr_port_utc_s(void);
#define GR_NO_TIME UINT64_MAX
#endif

#ifdef GRAMOPHONE_STORE
/* What outlives a reboot, where the replayer has a place for it (store/store.c, or a port's own): the highest
 * version of the trust policy, and of each name of a trace (64 bytes), under which a trace was replayed. The
 * core calls these. False: nothing can be kept. */
GR_API bool gr_store_open(void);
/* The policy's; UINT32_MAX: it is not known. */
GR_API uint32_t gr_store_least_policy(void);
/* ROLLBACK: a higher one is kept. STORE: that is not known, or there is no room for this name. */
GR_API enum gr_status gr_store_check(const uint8_t name[64], uint32_t version);
/* Keep those of the loaded trace, whose replay went well; STORE: they cannot be kept. */
GR_API enum gr_status gr_store_keep(struct gr_replayer *r);
#endif

#endif
