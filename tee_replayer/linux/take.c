/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who has the GPU: the kernel's driver for it, or UIO. Facts: Linux
 * Documentation/ABI/testing/sysfs-bus-platform (driver_override), sysfs-bus-pci (drivers_probe, unbind: every
 * bus has them).
 */
#include "uio.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gramophone_gpu.h"
#include "linux_target.h"

static const struct gr_block blocks[] = {GR_BLOCKS};

static bool is_gpu(void *name, const char *device)
{
    char path[GR_PATH];
    if (!gr_path(path, GR_DEVICES "/%s/of_node/reg-names", device))
        return false;
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (!gr_lists(path, blocks[i].name))
            return false;
    return gr_copy_name(name, device);
}

static bool is_carveout(void *name, const char *device)
{
    char path[GR_PATH];
    if (!gr_path(path, GR_DEVICES "/%s/of_node/compatible", device) || !gr_lists(path, GR_CARVEOUT_NODE))
        return false;
    return gr_copy_name(name, device);
}

static bool find(char gpu[64], char carveout[64])
{
    if (!gr_each(GR_DEVICES, is_gpu, gpu))
        return gr_fail(GR_DEVICES ": the device tree has no " GR_GPU_TITLE
                                  ": expected a node whose reg-names are " GR_BLOCK_NAMES);
    if (!gr_each(GR_DEVICES, is_carveout, carveout))
        return gr_fail(GR_DEVICES ": the device tree has no " GR_CARVEOUT_NODE
                                  " node: carveout.dtso adds it (README.md)");
    return true;
}

/* Let go of a device, and offer it to this driver: "\n" is whichever fits. */
static bool pass_on(const char *device, const char *driver)
{
    char path[GR_PATH], current[64];
    if (!gr_path(path, GR_DEVICES "/%s/driver_override", device) || !gr_write_text(path, driver))
        return false;
    gr_driver_of(device, current);
    if (current[0] &&
        (!gr_path(path, GR_DEVICES "/%s/driver/unbind", device) || !gr_write_text(path, device)))
        return false;
    /* The error of a driver that did not take it is in the kernel's log; what counts is who has it then. */
    return gr_write_text("/sys/bus/platform/drivers_probe", device);
}

static bool is_with_uio(const char *device)
{
    char driver[64];
    gr_driver_of(device, driver);
    return !strcmp(driver, GR_UIO_DRIVER);
}

static bool take(const char *device)
{
    if (is_with_uio(device))
        return true;
    const bool is_offered = pass_on(device, GR_UIO_DRIVER);
    if (is_with_uio(device))
        return true;
    if (!is_offered)
        return false;
    (void)pass_on(device, "\n");
    return gr_fail(GR_DEVICES "/%s: " GR_UIO_DRIVER " does not take it: the kernel's log says why", device);
}

int gramophone_gpu_take(char driver[64])
{
    char gpu[64], carveout[64];
    driver[0] = '\0';
    if (!find(gpu, carveout))
        return GRAMOPHONE_GPU_FAILED;
    gr_driver_of(gpu, driver);
    if (access("/sys/bus/platform/drivers/" GR_UIO_DRIVER, F_OK))
        return gr_fail("the kernel's driver " GR_UIO_DRIVER " is not there: modprobe " GR_UIO_DRIVER
                       " (README.md: where to get it)"),
               GRAMOPHONE_GPU_FAILED;
    /* The carve-out first: where it cannot be had, the GPU stays where it is. */
    if ((!is_with_uio(gpu) && !gr_check_free(gpu)) || !take(carveout) || !take(gpu))
        return GRAMOPHONE_GPU_FAILED;
    return GRAMOPHONE_GPU_OK;
}

bool gr_may_give_back(bool *is_taken)
{
    char gpu[64], carveout[64];
    if (!find(gpu, carveout) || !gr_check_free(gpu))
        return false;
    *is_taken = is_with_uio(gpu);
    return true;
}

bool gr_give_back(char driver[64])
{
    char gpu[64], carveout[64];
    driver[0] = '\0';
    if (!find(gpu, carveout) || !pass_on(gpu, "\n") || !pass_on(carveout, "\n"))
        return false;
    gr_driver_of(gpu, driver);
    return true;
}
