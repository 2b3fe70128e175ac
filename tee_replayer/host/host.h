/* SPDX-License-Identifier: BSD-2-Clause */
/* The replayer as a host library: the port's four functions are callbacks (as vgpu.h has them), the signed
 * trace and the carve-out are memory. Also the declarations that tee_replayer/generator/hostlib.py hands to
 * cffi. */
#ifndef GRAMOPHONE_HOST_H
#define GRAMOPHONE_HOST_H

#include "replayer.h"

struct gr_host_gpu {
    void *ctx;
    uint32_t (*read32)(void *ctx, uint32_t offset);
    void (*write32)(void *ctx, uint32_t offset, uint32_t value);
    bool (*interrupt_level)(void *ctx, unsigned line);
    void (*advance)(void *ctx, uint64_t now_ns); /* may be NULL */
};

struct gr_host;

/* One replayer over one carve-out of `bytes` at `base`, which the GPU sees at `phys`. NULL: out of memory. */
struct gr_host *gr_host_new(const struct gr_host_gpu *gpu, uint8_t *base, uint64_t phys, uint64_t bytes);
void gr_host_free(struct gr_host *host);

uint32_t gr_host_load(struct gr_host *host, const uint8_t *file, uint64_t bytes, const uint8_t *key,
                      const uint8_t *key_id, uint32_t min_security_version);
/* The same of a library that was built with a trust policy: platform and device_id of 16 bytes. */
uint32_t gr_host_load_trusted(struct gr_host *host, const uint8_t *file, uint64_t bytes, const uint8_t *trust,
                              const uint8_t *platform, const uint8_t *device_id, uint32_t least_trust_version,
                              uint64_t now_s, uint32_t min_security_version);
/* What encrypted traces are read with, in a library that was built for them: the device's secret and its
 * fleet's private key, of 32 bytes each, which stay where they are; NULL: none. */
void gr_host_keys(struct gr_host *host, const uint8_t *secret, const uint8_t *fleet_key);
uint32_t gr_host_bind(struct gr_host *host, uint32_t slot, void *data, uint64_t bytes);
/* Of a joint trace, in a library that takes them: how many networks, and choosing one. */
uint32_t gr_host_networks(const struct gr_host *host);
uint32_t gr_host_select(struct gr_host *host, uint32_t network);
/* gr_step, in a library that has it; without it, a replay is one step. */
bool gr_host_step(struct gr_host *host);
bool gr_host_yield(struct gr_host *host);
/* gr_submit, gr_schedule_step, gr_requests and gr_withdraw, in a library that has them; without, there is no
 * room for a request. */
struct gr_binding;
uint32_t gr_host_submit(struct gr_host *host, uint32_t network, uint64_t due_us,
                        const struct gr_binding *bindings, uint32_t count, uint32_t *id);
uint32_t gr_host_schedule_step(struct gr_host *host);
uint32_t gr_host_requests(const struct gr_host *host);
uint32_t gr_host_withdraw(struct gr_host *host, uint32_t id);
uint32_t gr_host_run(struct gr_host *host);
void gr_host_restart(struct gr_host *host);
void gr_host_unload(struct gr_host *host);
const struct gr_report *gr_host_report(const struct gr_host *host);

/* Register writes since gr_host_new. */
uint64_t gr_host_writes(const struct gr_host *host);

/* From now on each read of a file takes so long (microseconds); the file ends at `end`, unless that is 0. For
 * tests. */
void gr_host_slow(struct gr_host *host, uint64_t read_us, uint64_t end);

/* The clock; have it show another time; from now on, an access takes tick_ns, and waiting for an interrupt in
 * action i at least waits_us[i], of `count`, which stay where they are. For tests. */
uint64_t gr_host_now_ns(const struct gr_host *host);
void gr_host_set_clock(struct gr_host *host, uint64_t now_ns);
void gr_host_pace(struct gr_host *host, uint64_t tick_ns, const uint32_t *waits_us, uint32_t count);

/* Only the LZ4 decoder, over input in chunks of chunk_bytes: whether it takes it. For tests. */
bool gr_host_lz4_decode(const uint8_t *data, uint64_t stored, uint8_t *out, uint64_t out_bytes,
                        uint32_t chunk_bytes);

/* The driver's view of its page tables: carve-out offset that a GPU virtual address maps to, or UINT64_MAX. A
 * trace must be loaded. For tests. */
uint64_t gr_host_translate(const struct gr_host *host, uint32_t space, uint64_t va);

#endif
