/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Facts: Linux 6.12 drivers/uio/uio.c (mmap: the offset says which map, any part from its start can be
 * mapped; read: blocks until the count of interrupts has changed; sysfs: maps), drivers/uio/uio_pdrv_genirq.c
 * (a map for each "reg" of the node, by its name in "reg-names"; an interrupt disables itself, writing 1
 * enables it). Maps are of device memory, so what accesses the carve-out is compiled with -mstrict-align and
 * without the C library.
 */
#include "uio.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "linux_target.h"
#include "replayer.h"

enum { MAPS = 5, PAGE = 4096 }; /* MAX_UIO_MAPS of uio_driver.h */

static const struct gr_block blocks[] = {GR_BLOCKS};
enum { BLOCKS = sizeof blocks / sizeof *blocks };

static struct {
    int gpu, carveout;
    uint8_t *window; /* the GPU's registers, as the profile places their blocks */
    uint64_t physical, bytes;
    uint8_t *memory;
    uint64_t mapped;
} port = {.gpu = -1, .carveout = -1};

/* A number of a map's: "addr", "size", "offset". */
static uint64_t map_number(const char *device, int map, const char *what)
{
    char path[GR_PATH], text[32];
    if (!gr_path(path, GR_UIO "/%s/maps/map%d/%s", device, map, what) ||
        gr_read_text(path, text, sizeof text) < 0)
        return 0;
    return strtoull(text, NULL, 0);
}

/* The map of this name, or -1. */
static int map_called(const char *device, const char *name)
{
    char path[GR_PATH], text[64];
    for (int map = 0; map < MAPS; map++) {
        if (gr_path(path, GR_UIO "/%s/maps/map%d/name", device, map) &&
            gr_read_text(path, text, sizeof text) > 0) {
            text[strcspn(text, "\n")] = '\0';
            if (!strcmp(text, name))
                return map;
        }
    }
    return -1;
}

static bool is_gpu(void *name, const char *device)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (map_called(device, blocks[i].name) < 0)
            return false;
    return gr_copy_name(name, device);
}

static bool is_carveout(void *name, const char *device)
{
    char path[GR_PATH];
    if (!gr_path(path, GR_UIO "/%s/device/of_node/compatible", device) || !gr_lists(path, GR_CARVEOUT_NODE))
        return false;
    return gr_copy_name(name, device);
}

bool gr_uio_find(char gpu[64], char carveout[64])
{
    if (!gr_each(GR_UIO, is_gpu, gpu))
        return gr_fail(GR_UIO ": no device with the registers of a " GR_GPU_TITLE
                              ": 'gramophone-gpu take' gets it from the kernel's driver");
    if (!gr_each(GR_UIO, is_carveout, carveout))
        return gr_fail(GR_UIO ": no device with the carve-out: 'gramophone-gpu take' gets it");
    return true;
}

static int open_device(const char *name)
{
    char path[GR_PATH];
    if (!gr_path(path, "/dev/%s", name))
        return -1;
    const int file = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        gr_fail("%s: %s%s", path, strerror(errno),
                errno == EACCES ? ": no permission: root has it, and whom 70-gramophone.rules names" : "");
    return file;
}

static bool map_registers(const char *device)
{
    port.window = mmap(NULL, GR_WINDOW_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (port.window == MAP_FAILED) {
        port.window = NULL;
        return gr_fail("mapping registers: %s", strerror(errno));
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        const int map = map_called(device, blocks[i].name);
        const uint64_t bytes = map_number(device, map, "size");
        if (bytes < blocks[i].bytes || map_number(device, map, "offset"))
            return gr_fail(GR_UIO "/%s/maps/map%d (%s): expected %#" PRIx32
                                  " bytes from the start of a page, found %#" PRIx64,
                           device, map, blocks[i].name, blocks[i].bytes, bytes);
        if (mmap(port.window + blocks[i].base, blocks[i].bytes, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, port.gpu, (off_t)map * PAGE) == MAP_FAILED)
            return gr_fail("/dev/%s: mapping %s: %s", device, blocks[i].name, strerror(errno));
    }
    return true;
}

static bool open_all(void)
{
    char gpu[64], carveout[64];
    if (!gr_uio_find(gpu, carveout))
        return false;
    port.gpu = open_device(gpu);
    if (port.gpu < 0)
        return false;
    if (flock(port.gpu, LOCK_EX | LOCK_NB))
        return gr_fail("/dev/%s: the GPU is busy: another process replays on it", gpu);
    port.carveout = open_device(carveout);
    if (port.carveout < 0)
        return false;
    port.physical = map_number(carveout, 0, "addr");
    port.bytes = map_number(carveout, 0, "size");
    if (!port.bytes || port.bytes % PAGE || map_number(carveout, 0, "offset"))
        return gr_fail(GR_UIO "/%s/maps/map0: expected whole pages, found %#" PRIx64 " bytes", carveout,
                       port.bytes);
    return map_registers(gpu);
}

bool gr_uio_open(void)
{
    if (port.gpu >= 0)
        return gr_fail("the GPU is open already");
    if (open_all())
        return true;
    gr_uio_close();
    return false;
}

void gr_uio_carveout(uint64_t *physical, uint64_t *bytes)
{
    *physical = port.physical;
    *bytes = port.bytes;
}

uint8_t *gr_uio_map_carveout(uint64_t bytes)
{
    if (port.memory)
        munmap(port.memory, port.mapped);
    void *const memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, port.carveout, 0);
    port.memory = memory == MAP_FAILED ? NULL : memory;
    port.mapped = bytes;
    if (!port.memory)
        gr_fail("mapping %#" PRIx64 " bytes of the carve-out: %s", bytes, strerror(errno));
    return port.memory;
}

void gr_uio_close(void)
{
    if (port.memory)
        munmap(port.memory, port.mapped);
    if (port.window)
        munmap(port.window, GR_WINDOW_BYTES);
    if (port.carveout >= 0)
        close(port.carveout);
    if (port.gpu >= 0)
        close(port.gpu);
    port.memory = port.window = NULL;
    port.gpu = port.carveout = -1;
}

static volatile uint32_t *at(uint32_t offset)
{
    return (volatile uint32_t *)(void *)(port.window + offset);
}

/* A barrier follows: device memory keeps the order of accesses within one device only (Arm DDI 0487,
 * B2.7.2), and the carve-out, with what the GPU wrote, is another one. */
uint32_t gr_port_read32(uint32_t offset)
{
    const uint32_t value = *at(offset);
    __asm__ volatile("dsb sy" ::: "memory");
    return value;
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    __asm__ volatile("dsb sy" ::: "memory");
    *at(offset) = value;
}

uint64_t gr_port_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* A count that is waiting tells of an earlier interrupt, of a wait that had ended: it is taken first.
 * Enabled, the interrupt comes at once where its line is still active. */
bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    const uint32_t enable = 1;
    const struct timespec timeout = {.tv_sec = timeout_us / 1000000, .tv_nsec = timeout_us % 1000000 * 1000L};
    struct pollfd waiting = {.fd = port.gpu, .events = POLLIN};
    uint32_t count;
    (void)line; /* there is one: the generator sees to it */
    (void)!read(port.gpu, &count, sizeof count);
    return write(port.gpu, &enable, sizeof enable) == sizeof enable &&
           ppoll(&waiting, 1, &timeout, NULL) == 1 && read(port.gpu, &count, sizeof count) == sizeof count;
}
