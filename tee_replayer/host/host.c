/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Host port. Time is virtual: it advances by a fixed amount with every read of the clock, of a register or of
 * an interrupt line, so a replay on the virtual GPU always takes the same course, and a wait for something
 * that never happens ends at once.
 */
#include "host.h"
#include "crypto.h"
#include "driver.h"
#include "internal.h"

#include <stdlib.h>

enum { TICK_NS = 1000 };

struct gr_host {
    struct gr_replayer replayer; /* first: gr_wipe needs it aligned */
    struct gr_host_gpu gpu;
    struct gr_memory memory;
    uint64_t now_ns, writes;
    const uint8_t *file; /* while a trace is loaded */
    uint64_t file_bytes;
    uint64_t read_us;         /* what a read takes */
    uint64_t tick_ns;         /* what an access takes; 0: TICK_NS */
    const uint32_t *waits_us; /* what waiting takes, of each action */
    uint32_t wait_count;
#ifdef GRAMOPHONE_TRUST
    struct gr_policy policy; /* while a trace is loaded */
#else
    const uint8_t *key; /* the policy's, while a trace is loaded */
#endif
    uint32_t lowest_inverted;
    const uint8_t *secret, *fleet_key; /* NULL: none */
};

/* The replayer that is running on this thread: the port's functions carry no context. */
static _Thread_local struct gr_host *current;

static void tick(uint64_t ns)
{
    current->now_ns += ns;
    if (current->gpu.advance)
        current->gpu.advance(current->gpu.ctx, current->now_ns);
}

static void tick_once(void)
{
    tick(current->tick_ns ? current->tick_ns : TICK_NS);
}

uint32_t gr_port_read32(uint32_t offset)
{
    tick_once();
    return current->gpu.read32(current->gpu.ctx, offset);
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    current->writes++;
    current->gpu.write32(current->gpu.ctx, offset, value);
}

bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    const uint64_t end = current->now_ns + (uint64_t)timeout_us * 1000;
    const uint32_t action = current->replayer.report.action;
    if (action < current->wait_count)
        tick((uint64_t)current->waits_us[action] * 1000);
    while (!current->gpu.interrupt_level(current->gpu.ctx, line)) {
        if (current->now_ns >= end)
            return false;
        tick_once();
    }
    return true;
}

uint64_t gr_port_now_us(void)
{
    tick_once();
    return current->now_ns / 1000;
}

#ifdef GRAMOPHONE_TRUST
void gr_port_policy_again(struct gr_policy *policy)
{
    *policy = current->policy;
}
#else
const uint8_t *gr_port_key_again(void)
{
    return current->key;
}
#endif

uint32_t gr_port_lowest_inverted(void)
{
    return current->lowest_inverted;
}

#ifdef GRAMOPHONE_ENCRYPTION
static bool give(const uint8_t *from, uint8_t to[32])
{
    if (from)
        memcpy(to, from, 32);
    return from != NULL;
}

bool gr_port_secret(uint8_t secret[32])
{
    return give(current->secret, secret);
}

bool gr_port_fleet_key(uint8_t key[32])
{
    return give(current->fleet_key, key);
}
#endif

void gr_host_keys(struct gr_host *host, const uint8_t *secret, const uint8_t *fleet_key)
{
    host->secret = secret;
    host->fleet_key = fleet_key;
}

static bool read_file(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    const struct gr_host *host = ctx;
    if (offset > host->file_bytes || bytes > host->file_bytes - offset)
        return false;
    memcpy(to, host->file + offset, bytes);
    if (host->read_us)
        tick(host->read_us * 1000);
    return true;
}

struct gr_host *gr_host_new(const struct gr_host_gpu *gpu, uint8_t *base, uint64_t phys, uint64_t bytes)
{
    struct gr_host *host = calloc(1, sizeof *host);
    if (host) {
        host->gpu = *gpu;
        host->memory = (struct gr_memory){base, phys, bytes};
    }
    return host;
}

void gr_host_free(struct gr_host *host)
{
    free(host);
}

static uint32_t load(struct gr_host *host, const uint8_t *file, uint64_t bytes,
                     const struct gr_policy *policy)
{
    const struct gr_source source = {read_file, host};
    current = host;
    host->lowest_inverted = ~policy->min_security_version;
    host->file = file;
    host->file_bytes = bytes;
    return (uint32_t)gr_load(&host->replayer, &host->memory, &source, bytes, policy);
}

#ifdef GRAMOPHONE_TRUST
uint32_t gr_host_load_trusted(struct gr_host *host, const uint8_t *file, uint64_t bytes, const uint8_t *trust,
                              const uint8_t *platform, const uint8_t *device_id, uint32_t least_trust_version,
                              uint64_t now_s, uint32_t min_security_version)
{
    host->policy =
        (struct gr_policy){trust, platform, device_id, least_trust_version, now_s, min_security_version};
    return load(host, file, bytes, &host->policy);
}
#else
uint32_t gr_host_load(struct gr_host *host, const uint8_t *file, uint64_t bytes, const uint8_t *key,
                      const uint8_t *key_id, uint32_t min_security_version)
{
    const struct gr_policy policy = {key, key_id, min_security_version};
    host->key = key;
    return load(host, file, bytes, &policy);
}
#endif

uint32_t gr_host_bind(struct gr_host *host, uint32_t slot, void *data, uint64_t bytes)
{
    return (uint32_t)gr_bind(&host->replayer, slot, data, bytes);
}

uint32_t gr_host_networks(const struct gr_host *host)
{
#ifdef GRAMOPHONE_NETWORKS
    return gr_network_count(&host->replayer);
#else
    return host->replayer.state == GR_STATE_LOADED;
#endif
}

uint32_t gr_host_select(struct gr_host *host, uint32_t network)
{
#ifdef GRAMOPHONE_NETWORKS
    return (uint32_t)gr_select(&host->replayer, network);
#else
    return (uint32_t)(network < gr_host_networks(host) ? GR_STATUS_OK : GR_STATUS_ARGUMENT);
#endif
}

bool gr_host_step(struct gr_host *host)
{
    current = host;
#ifdef GRAMOPHONE_STEPS
    return gr_step(&host->replayer);
#else
    gr_run(&host->replayer);
    return false;
#endif
}

bool gr_host_yield(struct gr_host *host)
{
    current = host;
#ifdef GRAMOPHONE_STEPS
    return gr_yield(&host->replayer);
#else
    return false;
#endif
}

uint32_t gr_host_submit(struct gr_host *host, uint32_t network, uint64_t due_us,
                        const struct gr_binding *bindings, uint32_t count, uint32_t *id)
{
    current = host;
#ifdef GRAMOPHONE_SCHEDULE
    return (uint32_t)gr_submit(&host->replayer, network, due_us, bindings, count, id);
#else
    (void)network, (void)due_us, (void)bindings, (void)count, (void)id;
    return (uint32_t)GR_STATUS_QUEUE;
#endif
}

uint32_t gr_host_schedule_step(struct gr_host *host)
{
    current = host;
#ifdef GRAMOPHONE_SCHEDULE
    return gr_schedule_step(&host->replayer);
#else
    return 0;
#endif
}

uint32_t gr_host_requests(const struct gr_host *host)
{
#ifdef GRAMOPHONE_SCHEDULE
    return gr_requests(&host->replayer);
#else
    (void)host;
    return 0;
#endif
}

uint32_t gr_host_withdraw(struct gr_host *host, uint32_t id)
{
#ifdef GRAMOPHONE_SCHEDULE
    return (uint32_t)gr_withdraw(&host->replayer, id);
#else
    (void)host, (void)id;
    return (uint32_t)GR_STATUS_ARGUMENT;
#endif
}

uint32_t gr_host_run(struct gr_host *host)
{
    current = host;
    return (uint32_t)gr_run(&host->replayer);
}

void gr_host_restart(struct gr_host *host)
{
    gr_restart(&host->replayer);
}

void gr_host_unload(struct gr_host *host)
{
    current = host;
    gr_unload(&host->replayer);
}

const struct gr_report *gr_host_report(const struct gr_host *host)
{
    return &host->replayer.report;
}

uint64_t gr_host_writes(const struct gr_host *host)
{
    return host->writes;
}

void gr_host_slow(struct gr_host *host, uint64_t read_us, uint64_t end)
{
    host->read_us = read_us;
    if (end)
        host->file_bytes = end;
}

uint64_t gr_host_now_ns(const struct gr_host *host)
{
    return host->now_ns;
}

void gr_host_set_clock(struct gr_host *host, uint64_t now_ns)
{
    host->now_ns = now_ns;
}

void gr_host_pace(struct gr_host *host, uint64_t tick_ns, const uint32_t *waits_us, uint32_t count)
{
    host->tick_ns = tick_ns;
    host->waits_us = waits_us;
    host->wait_count = count;
}

uint64_t gr_host_translate(const struct gr_host *host, uint32_t space, uint64_t va)
{
    return gr_driver_translate(&host->replayer, space, va);
}

bool gr_host_lz4_decode(const uint8_t *data, uint64_t stored, uint8_t *out, uint64_t out_bytes,
                        uint32_t chunk_bytes)
{
    const uint64_t chunks = (stored + chunk_bytes - 1) / chunk_bytes;
    uint8_t *hashes = malloc((size_t)chunks * 32 + 1), *chunk = malloc(chunk_bytes);
    struct gr_host host = {.file = data, .file_bytes = stored};
    const struct gr_source source = {read_file, &host};
    bool good = false;
    current = &host; /* for the clock */
    if (hashes && chunk) {
        for (uint64_t i = 0; i < chunks; i++) {
            const uint64_t at = i * chunk_bytes;
            (void)gr_sha256(data + at, (size_t)(stored - at < chunk_bytes ? stored - at : chunk_bytes),
                            hashes + i * 32);
        }
        struct gr_stream stream = {.source = &source,
                                   .left = stored,
                                   .deadline_us = UINT64_MAX,
                                   .section = stored,
                                   .hashes = hashes,
                                   .chunk = chunk,
                                   .chunk_bytes = chunk_bytes,
                                   .status = GR_STATUS_OK};
        gr_lz4_decode(&stream, out, out_bytes);
        good = stream.status == GR_STATUS_OK;
    }
    free(hashes);
    free(chunk);
    return good;
}
