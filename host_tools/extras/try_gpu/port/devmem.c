/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The port, in place of uio.c: a Raspberry Pi's V3D by /dev/mem, with a kernel as it is.
 *
 * Memory is cached, and the V3D sees no cache: what is mapped is cleaned and invalidated (DC CIVAC, which
 * Linux allows to processes) before a job starts and after the GPU's own caches have been cleaned. A job's
 * interrupt is too early: its results may reach memory with that cleaning, and the processor may fill a line
 * at any time. The interrupts are polled.
 *
 * The replays are a child's. Its parent only waits, and switches the GPU off before the memory is anyone
 * else's, however the child has ended.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "devmem.h"
#include "devmem_target.h"
#include "gramophone_gpu.h"
#include "replayer.h"

enum {
    LINE = 64,
    SW_INIT_1 = 0x800c, /* of the bridge, which this chip lacks: it stands for power off and on */
    HUB_INT_STS = 0x50,
    HUB_INT_MSK_STS = 0x5c,
    INT_STS = 0x4050,
    INT_MSK_STS = 0x405c,
    L2TCACTL = 0x4030,
    L2TFLS = 1 << 0,    /* of it: a write begins what the mode says, and it is set until that has ended */
    FLM_CLEAN = 2 << 1, /* the mode "clean" (Linux 6.12 drivers/gpu/drm/v3d/v3d_regs.h) */
    ENDED_BY_SIGNAL = 128,
};

static struct {
    char gpu[64];
    struct gr_registers registers;
    struct gr_pinned pinned;
    uint64_t used;
    bool is_on, cleans; /* the GPU cleans its caches */
} port;

/* A V3D 7.1 is off in its own block, too, before the domain goes, and left on: as v3d finds it after a start.
 */
static bool switch_on(void)
{
    port.is_on = gr_power_on(port.gpu) && gr_sms_on(port.registers.sms);
    return port.is_on;
}

static bool switch_off(void)
{
    /* A process that was killed may have come as far as the domain; then no access is allowed. */
    const bool is_reached = gr_power_is_on(port.gpu);
    const bool good = (!is_reached || gr_sms_off(port.registers.sms)) && gr_power_off(port.gpu);
    port.is_on = !good;
    return good;
}

/* Wait for the child that replays; switch the GPU off, and end as it has ended. */
_Noreturn static void guard(pid_t child)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFEXITED(status)) {
        fprintf(stderr, "error: signal %d has ended the program; the GPU is switched off\n",
                WTERMSIG(status));
        if (!switch_off() || !switch_on())
            fprintf(stderr, "error: the GPU cannot be switched off: reboot\n");
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : ENDED_BY_SIGNAL + WTERMSIG(status));
}

static bool leave_guard(void)
{
    const pid_t child = fork();
    if (child > 0)
        guard(child);
    return !child || gr_fail("starting a process: %s", strerror(errno));
}

bool gr_uio_open(void)
{
    if (!gr_power_find(port.gpu) || !gr_power_lock(port.gpu, false))
        return false;
    if (!gr_power_is_on(port.gpu))
        return gr_fail("%s: expected a driver that does nothing: 'gramophone-gpu take' binds it", port.gpu);
    port.is_on = gr_clock_check() && gr_pinned_open(&port.pinned) &&
                 gr_registers_map(port.gpu, &port.registers) && gr_sms_on(port.registers.sms);
    return port.is_on && leave_guard();
}

void gr_uio_carveout(uint64_t *physical, uint64_t *bytes)
{
    *physical = port.pinned.physical;
    *bytes = port.pinned.bytes;
}

uint8_t *gr_uio_map_carveout(uint64_t bytes)
{
    port.used = bytes;
    return port.pinned.memory;
}

void gr_uio_close(void)
{
    const bool is_there = !port.pinned.memory || gr_pinned_check(&port.pinned);
    gr_registers_unmap(&port.registers);
    gr_pinned_close(&port.pinned);
    if (!is_there) {
        fprintf(stderr, "error: %s\n", gramophone_gpu_error());
        exit(2);
    }
}

static void flush(void)
{
    for (uint64_t at = 0; at < port.used; at += LINE)
        __asm__ volatile("dc civac, %0" ::"r"(port.pinned.memory + at) : "memory");
    __asm__ volatile("dsb sy" ::: "memory");
}

static volatile uint32_t *at(uint32_t offset)
{
    return (volatile uint32_t *)(void *)(port.registers.window + offset);
}

uint32_t gr_port_read32(uint32_t offset)
{
    if (!port.is_on || offset >= GR_MAPPED_BYTES)
        return UINT32_MAX; /* no access reaches a GPU that is off: it would hang the bus */
    const uint32_t value = *at(offset);
    __asm__ volatile("dsb sy" ::: "memory");
    if (offset == L2TCACTL && port.cleans && !(value & L2TFLS)) {
        port.cleans = false;
        flush();
    }
    return value;
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    if (offset == SW_INIT_1)
        (void)(value ? switch_off() : switch_on());
    if (!port.is_on || offset >= GR_MAPPED_BYTES)
        return;
    if (offset == GR_JOB_START)
        flush();
    if (offset == L2TCACTL)
        port.cleans = value & FLM_CLEAN;
    __asm__ volatile("dsb sy" ::: "memory");
    *at(offset) = value;
}

uint64_t gr_port_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    const uint64_t start = gr_port_now_us();
    (void)line; /* whichever comes is looked at: the trace reads who it was */
    for (;;) {
        const bool is_late =
            gr_port_now_us() - start >= timeout_us; /* the status is read once more after it */
        const uint32_t core = gr_port_read32(INT_STS) & ~gr_port_read32(INT_MSK_STS);
        if (core | (gr_port_read32(HUB_INT_STS) & ~gr_port_read32(HUB_INT_MSK_STS)))
            return true;
        if (is_late)
            return false;
    }
}
