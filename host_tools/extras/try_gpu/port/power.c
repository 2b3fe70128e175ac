/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who has the GPU, and its power. A driver that does nothing is bound in place of v3d: the platform bus
 * attaches the power domain of a device and switches it on for any driver. Unbinding detaches it, and the
 * kernel switches a domain off that no device uses. Facts: Linux 6.12 drivers/base/platform.c
 * (platform_probe), drivers/base/power/ domain.c, drivers/bus/simple-pm-bus.c (returns at once where there is
 * an override).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "devmem.h"
#include "devmem_target.h"
#include "gramophone_gpu.h"

#define DRIVERS "/sys/bus/platform/drivers"
enum { OFF_MS = 200 }; /* the domain goes off some ms after the last device has left it */

static const char *const idle[] = {"simple-pm-bus", "alarmtimer"};
enum { IDLE = sizeof idle / sizeof *idle };

static bool is_gpu(void *name, const char *device)
{
    char path[GR_PATH];
    return gr_path(path, GR_DEVICES "/%s/of_node/compatible", device) && gr_lists(path, GR_COMPATIBLE) &&
           gr_copy_name(name, device);
}

bool gr_power_find(char gpu[64])
{
    return gr_each(GR_DEVICES, is_gpu, gpu) ||
           gr_fail(GR_DEVICES ": expected a device " GR_COMPATIBLE ", found none");
}

bool gr_power_is_on(const char *gpu)
{
    char driver[64];
    gr_driver_of(gpu, driver);
    for (size_t i = 0; i < IDLE; i++)
        if (!strcmp(driver, idle[i]))
            return true;
    return false;
}

/* The lock is that of an open file, and ends with the process and those it has left behind. */
bool gr_power_lock(const char *gpu, bool waits)
{
    static int file = -1;
    char path[GR_PATH];
    if (file >= 0)
        return true;
    if (!gr_path(path, GR_DEVICES "/%s/driver_override", gpu) ||
        (file = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return gr_fail("%s: %s", path, strerror(errno));
    while (flock(file, LOCK_EX | (waits ? 0 : LOCK_NB)))
        if (errno != EINTR) {
            close(file);
            file = -1;
            return gr_fail("%s: another gramophone-gpu has the GPU: wait for its end", gpu);
        }
    return true;
}

static bool unbind(const char *gpu)
{
    char path[GR_PATH], driver[64];
    gr_driver_of(gpu, driver);
    return !driver[0] || (gr_path(path, GR_DEVICES "/%s/driver/unbind", gpu) && gr_write_text(path, gpu));
}

/* Offer it to this driver: "\n" is whichever fits. Who has it then, is asked afterwards. */
static bool offer(const char *gpu, const char *driver)
{
    char path[GR_PATH];
    return gr_path(path, GR_DEVICES "/%s/driver_override", gpu) && gr_write_text(path, driver) &&
           gr_write_text("/sys/bus/platform/drivers_probe", gpu);
}

bool gr_power_off(const char *gpu)
{
    const struct timespec until_off = {0, OFF_MS * 1000000L};
    const bool good = unbind(gpu);
    nanosleep(&until_off, NULL);
    return good;
}

bool gr_power_on(const char *gpu)
{
    char path[GR_PATH];
    for (size_t i = 0; i < IDLE; i++)
        if (gr_path(path, DRIVERS "/%s", idle[i]) && !access(path, F_OK) && offer(gpu, idle[i]) &&
            gr_power_is_on(gpu))
            return true;
    (void)offer(gpu, "\n");
    return gr_fail(
        "power: expected a driver that does nothing (simple-pm-bus or alarmtimer), found none that takes %s",
        gpu);
}

int gramophone_gpu_take(char driver[64])
{
    char gpu[64];
    driver[0] = '\0';
    if (!gr_power_find(gpu) || !gr_power_lock(gpu, false))
        return GRAMOPHONE_GPU_FAILED;
    gr_driver_of(gpu, driver);
    if (gr_power_is_on(gpu))
        return GRAMOPHONE_GPU_OK;
    return gr_check_free(gpu) && unbind(gpu) && gr_power_on(gpu) ? GRAMOPHONE_GPU_OK : GRAMOPHONE_GPU_FAILED;
}

bool gr_may_give_back(bool *is_taken)
{
    char gpu[64];
    if (!gr_power_find(gpu) || !gr_power_lock(gpu, true))
        return false;
    *is_taken = gr_power_is_on(gpu);
    return true;
}

bool gr_give_back(char driver[64])
{
    char gpu[64];
    if (!gr_power_find(gpu))
        return false;
    gr_driver_of(gpu, driver);
    if (driver[0] && !gr_power_is_on(gpu))
        return true; /* somebody has given it back */
    const bool good = gr_power_off(gpu) && offer(gpu, "\n");
    gr_driver_of(gpu, driver);
    return good;
}
