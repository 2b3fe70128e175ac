/* SPDX-License-Identifier: BSD-2-Clause */
/* The emulated board's second flash, of the rollback store: Intel's commands, for both chips of a word at
 * once (host_tools/runners/nor_flash.py has the facts). */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

#define BOTH 0x00010001u
enum { READ_ARRAY = 0xff, PROGRAM = 0x40, CONFIRM = 0xd0, READY = 0x80, SECTOR_BYTES = 256 << 10 };

static uint8_t *flash;
static uint64_t flash_bytes, changes;
static uint32_t mode = READ_ARRAY; /* the latest command */

static uint64_t flash_read(uc_engine *uc, uint64_t offset, unsigned size, void *user)
{
    uint32_t word = READY * BOTH;
    (void)uc, (void)user;
    if (size == 4 && mode == READ_ARRAY)
        memcpy(&word, flash + offset, sizeof word);
    return word;
}

static void flash_write(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user)
{
    (void)uc, (void)user;
    if (size != 4)
        return;
    if (mode == PROGRAM) {
        for (unsigned i = 0; i < size; i++)
            flash[offset + i] &= (uint8_t)(value >> 8 * i);
        mode = READY;
        changes++;
        return;
    }
    mode = (uint32_t)value & 0xff;
    if (mode == CONFIRM) {
        memset(flash + offset / SECTOR_BYTES * SECTOR_BYTES, 0xff, SECTOR_BYTES);
        changes++;
    }
}

bool flash_describe(struct machine *m, const char *kind, uint64_t base, uint64_t bytes)
{
    if (strcmp(kind, "flash"))
        return false;
    flash = malloc(flash_bytes = bytes);
    if (!flash || uc_mmio_map(m->uc, base, bytes, flash_read, NULL, flash_write, NULL) != UC_ERR_OK)
        fail("no flash");
    flash_rewind();
    return true;
}

void flash_rewind(void)
{
    if (flash)
        memset(flash, 0xff, flash_bytes);
    mode = READ_ARRAY;
    changes = 0;
}

uint64_t flash_state(uint64_t hash)
{
    return changes ? hash ^ machine_hash(flash, flash_bytes) ^ mode : hash ^ mode;
}
