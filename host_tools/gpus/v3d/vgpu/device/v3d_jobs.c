/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Jobs of a virtual V3D: compute dispatches and control lists, their faults and their completion.
 *
 * A job does its work when it starts; its completion interrupt comes latency_ns later. Sequences: Linux 6.1
 * drivers/gpu/drm/v3d/v3d_sched.c; the queued and the current dispatch: the register names in v3d_regs.h.
 */
#include <string.h>

#include "meter.h"
#include "v3d_device.h"
#include "v3d_list.h"
#include "v3d_qpu.h"
#include "v3d_translate.h"
#include "workers.h"

/* Who made the access that faulted, as MMU_VIO_ID bits 7:5 (v3d_irq.c). */
enum { CLIENT_L2T = 0, CLIENT_TLB = 3, CLIENT_CLE = 4, CLIENT_SHIFT = 5 };

/* Caches that a meter has: a slice's for the TMU, and the L2T. No public source has their sizes: guesses,
 * which host_tools/gpus/v3d/timing.toml gives the effect of. */
enum { TMU_CACHE_BYTES = 8 << 10, L2_BYTES = 128 << 10 };

/* The address that an injected fault reports, as in the recordings of the real driver. */
enum { INJECTED_FAULT_VA = 0x00dead00 };

static const struct {
    uint32_t status, abort, interrupt, hub_interrupt;
    const char *name;
} violations[] = {
    [V3D_FAULT_CAP] = {HUB_MMU_CTL_CAP_EXCEEDED, HUB_MMU_CTL_CAP_EXCEEDED_ABORT, HUB_MMU_CTL_CAP_EXCEEDED_INT,
                       HUB_INT_STS_MMU_CAP, "address above the cap"},
    [V3D_FAULT_INVALID] = {HUB_MMU_CTL_PT_INVALID,
                           HUB_MMU_CTL_PT_INVALID_ABORT | HUB_MMU_CTL_PT_INVALID_ENABLE,
                           HUB_MMU_CTL_PT_INVALID_INT, HUB_INT_STS_MMU_PTI, "page table entry not valid"},
    [V3D_FAULT_READ_ONLY] = {HUB_MMU_CTL_WRITE_VIOLATION, HUB_MMU_CTL_WRITE_VIOLATION_ABORT,
                             HUB_MMU_CTL_WRITE_VIOLATION_INT, HUB_INT_STS_MMU_WRV,
                             "write to a read-only page"},
};

static void raise_violation(struct v3d_device *dev, enum v3d_fault fault, uint32_t client, uint32_t va)
{
    uint32_t *control = v3d_reg(dev, HUB_MMU_CTL);
    if (~*control & violations[fault].abort) {
        vgpu_fail(&dev->base,
                  "%s: %s at GPU address 0x%08x: MMU_CTL is 0x%08x; only aborts are modelled, bits "
                  "0x%08x are off",
                  dev->chip->name, violations[fault].name, va, *control, violations[fault].abort & ~*control);
        return;
    }
    dev->base.counters.faults++;
    *control |= violations[fault].status;
    *v3d_reg(dev, HUB_MMU_VIO_ID) = client << CLIENT_SHIFT;
    /* The register holds the highest of the address's bits, of which there are 30 + VA_WIDTH. */
    uint32_t width = (*v3d_reg(dev, HUB_MMU_DEBUG_INFO) >> 4 & 0xf) + 30;
    *v3d_reg(dev, HUB_MMU_VIO_ADDR) = va >> (width - 32);
    if (*control & violations[fault].interrupt)
        *v3d_reg(dev, HUB_INT_STS) |= violations[fault].hub_interrupt;
    v3d_update_interrupt(dev);
}

static void raise_fault(struct v3d_device *dev, uint32_t client, uint32_t va, bool write)
{
    uint64_t pa;
    enum v3d_fault fault = v3d_mmu_explain(&dev->mmu, va, write, &pa);
    if (fault == V3D_FAULT_BUS)
        vgpu_fail(&dev->base,
                  "%s: bus error: %s of GPU address 0x%08x goes to physical 0x%llx, where the GPU has "
                  "no memory",
                  dev->chip->name, write ? "write" : "read", va, (unsigned long long)pa);
    else if (fault == V3D_FAULT_NONE)
        vgpu_fail(&dev->base, "%s: the engine reports a fault at GPU address 0x%08x, which is mapped",
                  dev->chip->name, va);
    else
        raise_violation(dev, fault, client, va);
}

/* The GPU's address space as of now. False: the GPU has failed. */
static bool load_page_table(struct v3d_device *dev)
{
    if (!(*v3d_reg(dev, HUB_MMU_CTL) & HUB_MMU_CTL_ENABLE)) {
        vgpu_fail(&dev->base, "%s: a job starts with the MMU off; only translated accesses are modelled",
                  dev->chip->name);
        return false;
    }
    if (dev->mmu_stale) {
        uint32_t cap = *v3d_reg(dev, HUB_MMU_ADDR_CAP);
        /* The cap counts megabytes, of 256 pages each. */
        uint32_t pages = cap & HUB_MMU_ADDR_CAP_ENABLE ? (cap & HUB_MMU_ADDR_CAP_MPAGE) << 8 : V3D_PAGES;
        if (!v3d_mmu_load(&dev->mmu, (uint64_t)*v3d_reg(dev, HUB_MMU_PT_PA_BASE) << V3D_PAGE_SHIFT, pages))
            return false;
        dev->mmu_stale = dev->mmuc_clean = false;
    }
    v3d_mmu_begin_job(&dev->mmu);
    dev->mmu.flow = dev->base.flow;
    return true;
}

/* The job has done its work: it completes after the latency, at once if there is none and no
 * callback to schedule with. */
static void complete_later(struct v3d_device *dev, unsigned engine)
{
    struct vgpu *gpu = &dev->base;
    dev->pending[dev->pending_count].engine = engine;
    dev->pending[dev->pending_count].due_ns = gpu->now_ns + gpu->options.latency_ns;
    dev->pending_count++;
    if (gpu->host.schedule && dev->pending_count == 1)
        gpu->host.schedule(gpu->host.ctx, gpu->options.latency_ns);
}

static void run_csd(struct v3d_device *dev, const uint32_t config[V3D_CSD_WORDS])
{
    struct vgpu *gpu = &dev->base;
    struct v3d_csd_result result;
    memset(&result, 0, sizeof(result));
    dev->mmu.meter = gpu->options.meter ? vgpu_meter_create(TMU_CACHE_BYTES, L2_BYTES) : NULL;
    if (gpu->options.meter && !dev->mmu.meter) {
        vgpu_fail(gpu, "%s: out of memory", dev->chip->name);
        return;
    }
    /* Labels, as the access map, are kept by the calling thread. */
    v3d_csd_run(&dev->mmu, dev->chip->version, config, gpu->flow ? 1 : vgpu_worker_threads(&gpu->options),
                gpu->options.job_limit, &result);
    gpu->counters.instructions += result.instructions;
    gpu->counters.bytes_read += result.bytes_read;
    gpu->counters.bytes_written += result.bytes_written;
    gpu->access_varies |= result.varies;
    if (dev->mmu.meter)
        vgpu_keep_dispatch(gpu, &dev->mmu.meter->row);
    vgpu_meter_free(dev->mmu.meter);
    dev->mmu.meter = NULL;
    vgpu_job_end(gpu, VGPU_JOB_COMPUTE);
    if (result.error[0])
        vgpu_fail(gpu, "%s: compute job %u: %s", dev->chip->name, dev->compute_jobs_started, result.error);
    else if (result.faulted) /* the dispatch stays current until the GPU is reset */
        raise_fault(dev, CLIENT_L2T, result.fault_va, result.fault_write);
    else
        complete_later(dev, VGPU_JOB_COMPUTE);
}

/* Move the queued dispatch to the current one and run it. */
static void start_csd(struct v3d_device *dev)
{
    struct vgpu *gpu = &dev->base;
    uint32_t *status = v3d_reg(dev, CORE_CSD_STATUS), config[V3D_CSD_WORDS];
    size_t bytes = 4 * (size_t)dev->chip->config_words;
    memcpy(config, v3d_reg(dev, dev->chip->queued_config), bytes);
    memcpy(v3d_reg(dev, dev->chip->current_config), config, bytes);
    /* Counts the batches that are still to be handed out; the model hands out all of them at once. */
    *v3d_reg(dev, dev->chip->current_config + 16) = 0;
    *status = (*status & ~CORE_CSD_STATUS_HAVE_QUEUED) | CORE_CSD_STATUS_HAVE_CURRENT |
              1u << CORE_CSD_STATUS_NUM_ACTIVE_SHIFT;
    dev->busy[VGPU_JOB_COMPUTE] = true;
    dev->compute_jobs_started++;
    if (!load_page_table(dev))
        return;
    vgpu_job_start(gpu, VGPU_JOB_COMPUTE);
    if (dev->compute_jobs_started == gpu->options.hang_job)
        return;
    if (dev->compute_jobs_started == gpu->options.fault_job)
        raise_violation(dev, V3D_FAULT_INVALID, CLIENT_L2T, INJECTED_FAULT_VA);
    else
        run_csd(dev, config);
}

/* With no latency and no callback to schedule with, jobs complete before the register write returns. */
static void complete_now_if_due(struct v3d_device *dev)
{
    if (!dev->base.host.schedule)
        v3d_jobs_advance(dev);
}

void v3d_csd_submit(struct v3d_device *dev)
{
    if (dev->busy[VGPU_JOB_COMPUTE])
        *v3d_reg(dev, CORE_CSD_STATUS) |= CORE_CSD_STATUS_HAVE_QUEUED;
    else
        start_csd(dev);
    complete_now_if_due(dev);
}

void v3d_list_submit(struct v3d_device *dev, unsigned engine)
{
    bool bin = engine == VGPU_JOB_BIN;
    uint32_t begin = *v3d_reg(dev, bin ? CORE_CLE_CT0QBA : CORE_CLE_CT1QBA);
    uint32_t end = *v3d_reg(dev, bin ? CORE_CLE_CT0QEA : CORE_CLE_CT1QEA);
    struct v3d_list_result result;
    if (dev->busy[engine]) {
        vgpu_fail(&dev->base, "%s: %s list [0x%08x, 0x%08x) submitted while another runs: not modelled",
                  dev->chip->name, bin ? "bin" : "render", begin, end);
        return;
    }
    if (!load_page_table(dev))
        return;
    dev->busy[engine] = true;
    dev->base.access_varies = true; /* lists are not looked through */
    vgpu_job_start(&dev->base, engine);
    v3d_list_run(&dev->mmu, dev->chip->version, bin ? V3D_LIST_BIN : V3D_LIST_RENDER, begin, end,
                 dev->base.options.job_limit, &result);
    dev->base.counters.bytes_read += result.bytes_read;
    dev->base.counters.bytes_written += result.bytes_written;
    *v3d_reg(dev, bin ? CORE_CLE_CT0CA : CORE_CLE_CT1CA) = result.faulted ? result.fault_va : end;
    *v3d_reg(dev, bin ? CORE_CLE_CT0EA : CORE_CLE_CT1EA) = end;
    vgpu_job_end(&dev->base, engine);
    if (result.error[0])
        vgpu_fail(&dev->base, "%s: %s", dev->chip->name, result.error);
    else if (result.faulted)
        raise_fault(dev, result.fault_tile ? CLIENT_TLB : CLIENT_CLE, result.fault_va, result.fault_write);
    else
        complete_later(dev, engine);
    complete_now_if_due(dev);
}

static void complete(struct v3d_device *dev, unsigned engine)
{
    const uint32_t done[V3D_ENGINES] = {[VGPU_JOB_COMPUTE] = dev->chip->compute_done,
                                        [VGPU_JOB_BIN] = CORE_INT_STS_FLDONE,
                                        [VGPU_JOB_RENDER] = CORE_INT_STS_FRDONE};
    uint32_t *status = v3d_reg(dev, CORE_CSD_STATUS);
    dev->busy[engine] = false;
    *v3d_reg(dev, CORE_INT_STS) |= done[engine];
    if (engine == VGPU_JOB_COMPUTE) {
        uint32_t completed =
            ((*status & CORE_CSD_STATUS_NUM_COMPLETED) + (1u << CORE_CSD_STATUS_NUM_COMPLETED_SHIFT)) &
            CORE_CSD_STATUS_NUM_COMPLETED;
        *status = completed | (*status & CORE_CSD_STATUS_HAVE_QUEUED);
        dev->base.counters.jobs++;
    } else {
        dev->base.counters.list_jobs++;
    }
    v3d_update_interrupt(dev);
    if (*status & CORE_CSD_STATUS_HAVE_QUEUED && !dev->busy[VGPU_JOB_COMPUTE])
        start_csd(dev);
}

void v3d_jobs_advance(struct v3d_device *dev)
{
    struct vgpu *gpu = &dev->base;
    while (dev->pending_count && dev->pending[0].due_ns <= gpu->now_ns) {
        unsigned engine = dev->pending[0].engine;
        dev->pending_count--;
        memmove(&dev->pending[0], &dev->pending[1], dev->pending_count * sizeof(dev->pending[0]));
        complete(dev, engine);
    }
    if (dev->pending_count && gpu->host.schedule)
        gpu->host.schedule(gpu->host.ctx, dev->pending[0].due_ns - gpu->now_ns);
}
