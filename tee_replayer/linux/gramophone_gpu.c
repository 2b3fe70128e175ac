/* SPDX-License-Identifier: BSD-2-Clause */
/* The replayer and what a process calls, as one file for the compiler. */
#include "replayer.c"

#include "crypto.c"

#include "gramophone_gpu.h"
#include "source.h"
#include "uio.h"

/* What is mapped of the carve-out at first: mapping costs by the page. A trace that needs more is loaded
 * again with all of it. */
#define FIRST_BYTES (UINT64_C(16) << 20)

static struct {
    struct gr_replayer replayer;
    const uint8_t *trace; /* NULL: it is in a file */
    uint64_t trace_bytes;
    bool is_open, is_loaded;
} gpu;

static bool read_trace(void *ctx, uint64_t offset, uint8_t *to, uint32_t bytes)
{
    (void)ctx;
    if (offset > gpu.trace_bytes || bytes > gpu.trace_bytes - offset)
        return false;
    if (gpu.trace)
        memcpy(to, gpu.trace + offset, bytes);
    for (uint32_t done = 0; done < bytes && !gpu.trace;) {
        const uint32_t part = bytes - done < GR_PART_BYTES ? bytes - done : GR_PART_BYTES;
        const uint8_t *const data = gr_source_part(offset + done, part);
        if (!data)
            return false;
        memcpy(to + done, data, part);
        done += part;
    }
    return true;
}

static int result_of(enum gr_status status)
{
#define TEXT(name, value, text) {GR_STATUS_##name, text},
    static const struct {
        enum gr_status status;
        const char *text;
    } texts[] = {GR_STATUS_LIST(TEXT)};
#undef TEXT
    const struct gr_report *report = &gpu.replayer.report;
    if (status == GR_STATUS_OK)
        return GRAMOPHONE_GPU_OK;
    const char *text = "an unknown status";
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (texts[i].status == status)
            text = texts[i].text;
    const char *why = status == GR_STATUS_READ && !gpu.trace ? gr_source_error() : "";
    if (report->phase <= GR_PHASE_LOAD)
        gr_fail("%s (status %#x, item %u)%s%s", text, (unsigned)status, report->offset, *why ? ": " : "",
                why);
    else if (status == GR_STATUS_READ || status == GR_STATUS_CHUNK || status == GR_STATUS_CODEC)
        gr_fail("%s (status %#x, action %u, piece %u, chunk %u)%s%s", text, (unsigned)status, report->action,
                report->offset, report->seen, *why ? ": " : "", why);
    else
        gr_fail("%s (status %#x, action %u, opcode %#x, operand %#x: expected %#x, found %#x)", text,
                (unsigned)status, report->action, report->op, report->offset, report->expected, report->seen);
    return GRAMOPHONE_GPU_REFUSED;
}

int gramophone_gpu_open(void)
{
    gpu.is_open = gr_uio_open();
    return gpu.is_open ? GRAMOPHONE_GPU_OK : GRAMOPHONE_GPU_FAILED;
}

static void unload(void)
{
    if (gpu.is_loaded)
        gr_unload(&gpu.replayer);
    gpu.is_loaded = false;
    gr_source_close();
}

static int load_from(const uint8_t *trace, uint64_t bytes)
{
    const struct gr_policy policy = gr_device_policy();
    const struct gr_source source = {read_trace, NULL};
    struct gr_memory memory = {0};
    uint64_t all;
    gr_uio_carveout(&memory.phys, &all);
    gpu.trace = trace;
    gpu.trace_bytes = bytes;
    enum gr_status status = GR_STATUS_MEMORY;
    for (uint64_t part = all < FIRST_BYTES ? all : FIRST_BYTES; status == GR_STATUS_MEMORY; part = all) {
        memory.base = gr_uio_map_carveout(part);
        memory.bytes = part;
        if (!memory.base)
            return GRAMOPHONE_GPU_FAILED;
        status = gr_load(&gpu.replayer, &memory, &source, bytes, &policy);
        if (part == all)
            break;
    }
    gpu.is_loaded = status == GR_STATUS_OK;
    return result_of(status);
}

static bool may_load(void)
{
    unload();
    return gpu.is_open || gr_fail("the GPU is not open");
}

int gramophone_gpu_load(const void *trace, size_t bytes)
{
    return may_load() ? load_from(trace, bytes) : GRAMOPHONE_GPU_FAILED;
}

int gramophone_gpu_load_file(const char *path)
{
    uint64_t bytes;
    return may_load() && gr_source_open(path, &bytes) ? load_from(NULL, bytes) : GRAMOPHONE_GPU_FAILED;
}

uint32_t gramophone_gpu_slot_count(void)
{
    return gpu.is_loaded ? gr_slot_count(&gpu.replayer) : 0;
}

bool gramophone_gpu_slot(uint32_t slot, struct gramophone_gpu_slot *info)
{
    struct gr_slot_info found;
    if (!gpu.is_loaded || !gr_slot_info(&gpu.replayer, slot, &found))
        return gr_fail("no slot %u", slot);
    *info = (struct gramophone_gpu_slot){.kind = found.kind,
                                         .dtype = found.dtype,
                                         .rank = found.rank,
                                         .bound = found.bound,
                                         .bytes = found.bytes};
    memcpy(info->name, found.name, sizeof info->name);
    memcpy(info->dims, found.dims, sizeof info->dims);
    return true;
}

int gramophone_gpu_bind(uint32_t slot, void *data, size_t bytes)
{
    return result_of(gr_bind(&gpu.replayer, slot, data, bytes));
}

int gramophone_gpu_run(void)
{
    return result_of(gr_run(&gpu.replayer));
}

#ifdef GRAMOPHONE_NETWORKS
bool gramophone_gpu_network(uint32_t network, struct gramophone_gpu_network *info)
{
    struct gr_network_info found;
    if (!gpu.is_loaded || gr_network_count(&gpu.replayer) < 2 ||
        !gr_network_info(&gpu.replayer, network, &found))
        return gr_fail("no network %u", network);
    *info = (struct gramophone_gpu_network){.first_slot = found.first_slot,
                                            .slot_count = found.slot_count,
                                            .predicted_us = found.predicted_us,
                                            .longest_job_us = found.longest_job_us,
                                            .period_us = found.period_us,
                                            .priority = found.priority};
    memcpy(info->name, found.name, sizeof info->name);
    return true;
}

int gramophone_gpu_choose(uint32_t network)
{
    return result_of(gr_select(&gpu.replayer, network));
}
#else
bool gramophone_gpu_network(uint32_t network, struct gramophone_gpu_network *info)
{
    (void)info;
    return gr_fail("no network %u: this build takes no joint traces (feature 'networks')", network);
}

int gramophone_gpu_choose(uint32_t network)
{
    return gramophone_gpu_network(network, NULL) ? GRAMOPHONE_GPU_OK : GRAMOPHONE_GPU_FAILED;
}
#endif

#ifdef GRAMOPHONE_SCHEDULE
int gramophone_gpu_submit(uint32_t network, uint64_t within_us, uint32_t *id)
{
    const uint64_t now = gr_port_now_us(),
                   due = within_us < GR_NO_DEADLINE - now ? now + within_us : GR_NO_DEADLINE;
    return result_of(gr_submit(&gpu.replayer, network, due, NULL, 0, id));
}

int gramophone_gpu_step(uint32_t *over)
{
    *over = gr_schedule_step(&gpu.replayer);
    return *over ? result_of(gpu.replayer.report.status) : GRAMOPHONE_GPU_OK;
}

uint32_t gramophone_gpu_waiting(void)
{
    return gr_requests(&gpu.replayer);
}

int gramophone_gpu_withdraw(uint32_t id)
{
    return result_of(gr_withdraw(&gpu.replayer, id));
}
#else
static int no_queue(void)
{
    return gr_fail("this build has no queue (feature 'schedule')"), GRAMOPHONE_GPU_FAILED;
}

int gramophone_gpu_submit(uint32_t network, uint64_t within_us, uint32_t *id)
{
    (void)network, (void)within_us;
    *id = 0;
    return no_queue();
}

int gramophone_gpu_step(uint32_t *over)
{
    *over = 0;
    return no_queue();
}

uint32_t gramophone_gpu_waiting(void)
{
    return 0;
}

int gramophone_gpu_withdraw(uint32_t id)
{
    (void)id;
    return no_queue();
}
#endif

void gramophone_gpu_report(struct gramophone_gpu_report *report)
{
    const struct gr_report *found = &gpu.replayer.report;
    *report = (struct gramophone_gpu_report){
        .status = (uint32_t)found->status,
        .phase = (uint32_t)found->phase,
        .action = found->action,
        .op = found->op,
        .offset = found->offset,
        .expected = found->expected,
        .seen = found->seen,
        .retries = found->retries,
        .jobs = found->jobs,
        .actions = found->actions,
        .secure_bytes = found->secure_bytes,
        .verify_us = found->verify_us,
        .load_us = found->load_us,
        .replay_us = found->replay_us,
    };
}

/* A process that was killed may have left a job on the GPU, and its data. */
static bool clean(void)
{
    struct gr_memory memory;
    if (!gr_uio_open())
        return false;
    gr_uio_carveout(&memory.phys, &memory.bytes);
    memory.base = gr_uio_map_carveout(memory.bytes);
    const bool good =
        memory.base && (gr_driver_reset(&gpu.replayer) || gr_fail("the GPU does not come out of a reset"));
    if (good)
        gr_wipe(memory.base, memory.bytes);
    gr_uio_close();
    return good;
}

int gramophone_gpu_give_back(char driver[64])
{
    bool is_taken = false;
    if (!gr_may_give_back(&is_taken) || (is_taken && !clean()) || !gr_give_back(driver))
        return GRAMOPHONE_GPU_FAILED;
    return GRAMOPHONE_GPU_OK;
}

void gramophone_gpu_close(void)
{
    unload();
    if (gpu.is_open)
        gr_uio_close();
    gpu.is_open = false;
}
