/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "job_window.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "qemu_abi.h"

enum { READY = 0, BYTES = 4, WINDOW_BYTES = 4096, WINDOW_PRIORITY = 100 };

static struct {
    uint64_t bytes;
    void *ram;
    const uint64_t *accesses;
} window;

__attribute__((noreturn)) static void give_up(const char *why)
{
    fprintf(stderr, "gramophone: window: %s\n", why);
    exit(EXIT_FAILURE);
}

/*
 * Stop at the instruction that runs. Only the main loop's thread can stop the machine. The CPU waits for it
 * in this very access: were it to stop by itself, the virtual clock would jump to its next timer, as if the
 * CPU were idle, or not, as the threads happen to run. The access is the last of its block of code, as all
 * under -icount, and a CPU that is to stop does not begin another.
 *
 * RAM is a file of the host's (host_tools/machine/boot.py), which is saved as it is: in QEMU's own format, a
 * page that is zero would be touched by each run that goes on from the state.
 */
static void stop_machine(void)
{
    hwaddr offset = 0;
    RAMBlock *ram = qemu_ram_block_from_host(window.ram, false, &offset);
    if (*window.accesses)
        give_up("the guest has used the GPU, whose state cannot be saved");
    if (!ram)
        give_up("the guest's RAM is not found");
    qemu_ram_unset_migratable(ram);
    qemu_system_vmstop_request_prepare();
    qemu_system_vmstop_request(QEMU_STATE_PAUSED);
    qemu_big_unlock();
    while (runstate_is_running())
        usleep(100);
    qemu_big_lock(__FILE__, __LINE__);
}

static uint64_t window_read(void *opaque, hwaddr offset, unsigned size)
{
    (void)opaque, (void)size;
    return offset == BYTES ? window.bytes : 0;
}

static void window_write(void *opaque, hwaddr offset, uint64_t value, unsigned size)
{
    (void)opaque, (void)size;
    if (offset == READY && value == 1 && !window.bytes)
        stop_machine();
}

static const struct qemu_region_ops window_ops = {
    .read = window_read,
    .write = window_write,
    .endianness = QEMU_LITTLE_ENDIAN,
    .valid = {.min = 4, .max = 4},
    .impl = {.min = 4, .max = 4},
};

/* The file's pages; what the guest writes to them stays with this process. Returns NULL, or what is wrong. */
static const char *map_archive(const char *path, void **out)
{
    struct stat status;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    const char *error = NULL;
    if (file < 0)
        return strerror(errno);
    if (fstat(file, &status) < 0)
        error = strerror(errno);
    else if (status.st_size <= 0 || (uint64_t)status.st_size > JOB_WINDOW_MAX_BYTES)
        error = "the archive is empty or too large";
    if (!error) {
        window.bytes = (uint64_t)status.st_size;
        *out = mmap(NULL, window.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
        if (*out == MAP_FAILED)
            error = strerror(errno);
    }
    close(file);
    return error;
}

const char *job_window_add(uint64_t address, const char *archive, void *ram, const uint64_t *accesses)
{
    /* Objects of QEMU's, which live as long as the process. */
    static uint64_t registers[QEMU_OBJECT_ROOM / 8], memory[QEMU_OBJECT_ROOM / 8];
    window.ram = ram;
    window.accesses = accesses;
    memory_region_init_io((MemoryRegion *)registers, NULL, &window_ops, NULL, "gramophone-window",
                          WINDOW_BYTES);
    memory_region_add_subregion_overlap(get_system_memory(), address, (MemoryRegion *)registers,
                                        WINDOW_PRIORITY);
    if (!archive)
        return NULL;
    void *host = NULL;
    const char *error = map_archive(archive, &host);
    if (error)
        return error;
    uint64_t pages = (window.bytes + WINDOW_BYTES - 1) / WINDOW_BYTES;
    /* Unlike memory_region_init_ram(), this is no memory that a saved state has. */
    memory_region_init_ram_ptr((MemoryRegion *)memory, NULL, "gramophone-archive", pages * WINDOW_BYTES,
                               host);
    memory_region_add_subregion_overlap(get_system_memory(), address + WINDOW_BYTES, (MemoryRegion *)memory,
                                        WINDOW_PRIORITY);
    return NULL;
}
