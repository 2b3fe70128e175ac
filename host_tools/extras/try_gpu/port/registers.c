/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the GPU's registers lie, as its node of the device tree says: "reg" has an address and a size for
 * each name in "reg-names", in big-endian cells of 32 bits. The addresses are those of the bus. The device's
 * name begins with the first of them as the processor has it, so the others follow from their distance to the
 * first. Facts: Devicetree Specification 0.4, 2.3.5 and 2.3.6; Linux 6.12 drivers/of/platform.c
 * (of_device_make_bus_id).
 *
 * They are mapped from /dev/mem: STRICT_DEVMEM refuses RAM, IO_STRICT_DEVMEM what a driver has claimed, and
 * v3d has let go of them.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "devmem.h"

enum {
    CELL = 4,
    MOST_CELLS = 2,
    NO_BLOCK = -1,
    SMS_BYTES = 0x404,                             /* of those that are used */
    ROOM_BYTES = GR_MAPPED_BYTES + GR_BLOCK_BYTES, /* the last is for "sms" */
};
static const char *const names[GR_BLOCKS_MAPPED] = {"hub", "core0"};

struct place {
    uint64_t address, bytes;
};

static uint64_t number(const uint8_t *cells, unsigned count)
{
    uint64_t value = 0;
    for (unsigned i = 0; i < count * CELL; i++)
        value = value << 8 | cells[i];
    return value;
}

/* How many cells an address has in a node, or a size: the parent says so. 0: it says nothing that is known.
 */
static unsigned cells_of(const char *gpu, const char *what)
{
    char path[GR_PATH];
    uint8_t cell[CELL + 1];
    if (!gr_path(path, GR_DEVICES "/%s/of_node/../#%s-cells", gpu, what) ||
        gr_read_text(path, (char *)cell, sizeof cell) != CELL)
        return 0;
    const uint64_t count = number(cell, 1);
    return count <= MOST_CELLS ? (unsigned)count : 0;
}

/* Which of the node's blocks of registers has this name. */
static int block_called(const char *gpu, const char *name)
{
    char path[GR_PATH], names[GR_PATH];
    const long length =
        gr_path(path, GR_DEVICES "/%s/of_node/reg-names", gpu) ? gr_read_text(path, names, sizeof names) : -1;
    int block = 0;
    for (long at = 0; at < length; at += (long)strlen(names + at) + 1, block++)
        if (!strcmp(names + at, name))
            return block;
    return NO_BLOCK;
}

/* Where a block lies, as the processor has it. */
static bool find_block(const char *gpu, int block, struct place *place)
{
    char path[GR_PATH];
    uint8_t reg[GR_PATH];
    const unsigned address = cells_of(gpu, "address"), size = cells_of(gpu, "size");
    const long bytes =
        gr_path(path, GR_DEVICES "/%s/of_node/reg", gpu) ? gr_read_text(path, (char *)reg, sizeof reg) : -1;
    const long row = (long)(address + size) * CELL;
    if (block == NO_BLOCK || !address || !size || bytes < (block + 1) * row)
        return gr_fail(GR_DEVICES "/%s/of_node: expected blocks of registers hub and core0, found others",
                       gpu);
    const uint8_t *const at = reg + block * row;
    place->address = strtoull(gpu, NULL, 16) + number(at, address) - number(reg, address);
    place->bytes = number(at + address * CELL, size);
    return true;
}

/* Map the pages that hold registers at one place of the window; where the registers begin there, or NULL. */
static uint8_t *map(int mem, const struct place *place, uint64_t bytes, uint8_t *to)
{
    const uint64_t within = place->address % (uint64_t)sysconf(_SC_PAGESIZE);
    if (place->bytes >= bytes && within + bytes <= GR_BLOCK_BYTES &&
        mmap(to, within + bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, mem,
             (off_t)(place->address - within)) != MAP_FAILED)
        return to + within;
    gr_fail("/dev/mem: registers at %#" PRIx64 ": %s: another driver has them, or lockdown forbids it",
            place->address, errno ? strerror(errno) : "fewer than expected");
    return NULL;
}

static bool map_all(int mem, const char *gpu, struct gr_registers *registers)
{
    void *const room = mmap(NULL, ROOM_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED)
        return gr_fail("mapping registers: %s", strerror(errno));
    registers->window = room;
    struct place place;
    errno = 0;
    for (unsigned i = 0; i < GR_BLOCKS_MAPPED; i++)
        if (!find_block(gpu, block_called(gpu, names[i]), &place) ||
            !map(mem, &place, GR_BLOCK_BYTES, registers->window + i * GR_BLOCK_BYTES))
            return false;
    const int sms = block_called(gpu, "sms");
    if (sms == NO_BLOCK)
        return true;
    if (!find_block(gpu, sms, &place))
        return false;
    registers->sms =
        (volatile uint32_t *)(void *)map(mem, &place, SMS_BYTES, registers->window + GR_MAPPED_BYTES);
    return registers->sms;
}

bool gr_registers_map(const char *gpu, struct gr_registers *registers)
{
    const int mem = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC);
    if (mem < 0)
        return gr_fail("/dev/mem: %s: %s", strerror(errno),
                       errno == ENOENT ? "expected a kernel with DEVMEM"
                                       : "is this a container, or locked down?");
    const bool good = map_all(mem, gpu, registers);
    close(mem);
    return good;
}

void gr_registers_unmap(struct gr_registers *registers)
{
    if (registers->window)
        munmap(registers->window, ROOM_BYTES);
    *registers = (struct gr_registers){0};
}
