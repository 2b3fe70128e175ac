/* SPDX-License-Identifier: BSD-2-Clause */
/* Flash whose power can be cut in the middle of any write and erase, under the rollback store. What a cut
 * leaves half done is drawn: bits that were to change have changed or not, and some of them read otherwise at
 * the next boot. */
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "crypto.h"
#include "gramophone_store.h"
#include "internal.h"
#include "store.h"

enum { BANKS = GR_STORE_BANKS, BYTES = GR_STORE_BANK_BYTES, RECORDS = 128, CUT_OFF = 2 };

/* As tests/vgpu/test_rollback_store.py declares it. */
struct flash {
    uint8_t bytes[BANKS][BYTES];
    uint8_t weak[BANKS][BYTES];   /* bits that are drawn anew at each boot */
    uint8_t worn[BANKS][RECORDS]; /* records that do not take what is written */
    uint32_t steps;               /* writes and erases so far */
    uint32_t cut_at;              /* the step that is cut off; 0: none */
    uint32_t random;              /* state of the draw, not 0 */
    uint32_t written_twice;       /* writes to bytes that were not erased */
    uint32_t erase_fails;
    uint32_t read_fails; /* record number + 1, of bank 0 */
};

extern struct flash flash;
struct flash flash;
static jmp_buf power;

static uint32_t draw(void)
{
    flash.random ^= flash.random << 13;
    flash.random ^= flash.random >> 17;
    return flash.random ^= flash.random << 5;
}

/* Of the bits that an operation changes from *p to `to`, some have changed; here and there one is weak. */
static void half(uint8_t *p, uint8_t *weak, uint8_t to, uint32_t how)
{
    const uint8_t changing = (uint8_t)(*p ^ to),
                  done = (uint8_t)(how % 3 == 1 ? changing : changing & draw());
    *p = (uint8_t)(*p ^ done);
    if (how & 4 && draw() % 64 == 0)
        *weak = (uint8_t)(*weak | (changing & 1u << draw() % 8));
}

static bool is_cut(void)
{
    return ++flash.steps == flash.cut_at;
}

bool gr_port_flash_read(uint32_t bank, uint32_t offset, void *to, uint32_t bytes)
{
    if (bank >= BANKS || offset > BYTES || bytes > BYTES - offset || offset % 128 || bytes != 128)
        abort();
    if (flash.read_fails && !bank && offset / 128 == flash.read_fails - 1)
        return false;
    memcpy(to, flash.bytes[bank] + offset, bytes);
    return true;
}

bool gr_port_flash_program(uint32_t bank, uint32_t offset, const void *from, uint32_t bytes)
{
    const uint8_t *data = from;
    if (bank >= BANKS || offset > BYTES || bytes > BYTES - offset || offset % 128 || bytes != 128)
        abort();
    uint8_t *to = flash.bytes[bank] + offset, *weak = flash.weak[bank] + offset;
    for (uint32_t i = 0; i < bytes; i++)
        flash.written_twice += to[i] != 0xff;
    if (is_cut()) {
        const uint32_t how = draw(), end = how & 8 ? draw() % bytes : bytes;
        for (uint32_t i = 0; i < end; i++)
            half(to + i, weak + i, to[i] & data[i], how & 16 ? how | 1 : how);
        longjmp(power, 1);
    }
    for (uint32_t i = 0; i < bytes; i++)
        to[i] &= flash.worn[bank][offset / 128] && i == 77 ? 0x5a : data[i];
    return true;
}

bool gr_port_flash_erase(uint32_t bank)
{
    if (bank >= BANKS)
        abort();
    if (is_cut()) {
        const uint32_t how = draw(), end = how & 8 ? draw() % BYTES : BYTES;
        for (uint32_t i = 0; i < end; i++) {
            if (how & 32) /* before they erase, chips write zeros */
                half(flash.bytes[bank] + i, flash.weak[bank] + i, 0, how);
            half(flash.bytes[bank] + i, flash.weak[bank] + i, 0xff, how >> 6);
        }
        longjmp(power, 1);
    }
    if (flash.erase_fails)
        return false;
    memset(flash.bytes[bank], 0xff, BYTES);
    memset(flash.weak[bank], 0, BYTES);
    return true;
}

/* Of the core's files only those that the store needs are here; streams, which need a clock, do not run. */
uint64_t gr_port_now_us(void)
{
    abort();
}

/* Power comes back: weak bits read as they like. */
void model_boot(void);
void model_boot(void)
{
    for (uint32_t bank = 0; bank < BANKS; bank++) {
        for (uint32_t i = 0; i < BYTES; i++)
            flash.bytes[bank][i] ^= (uint8_t)(flash.weak[bank][i] & draw());
    }
}

/* 0 or 1, or CUT_OFF. */
uint32_t model_open(void);
uint32_t model_open(void)
{
    return setjmp(power) ? CUT_OFF : gr_store_open();
}

/* A status, or CUT_OFF: what a replay's end does. */
uint32_t model_keep(const uint8_t name[64], uint32_t version, uint32_t policy);
uint32_t model_keep(const uint8_t name[64], uint32_t version, uint32_t policy)
{
    static _Alignas(8) uint8_t manifest[GR_MANIFEST_BYTES];
    static struct gr_replayer replayer;
    memset(&replayer, 0, sizeof replayer);
    memset(manifest, 0, sizeof manifest);
    memcpy(manifest + GR_MANIFEST_AT_NAME, name, 64);
    for (uint32_t i = 0; i < 4; i++)
        manifest[GR_MANIFEST_AT_SECURITY_VERSION + i] = (uint8_t)(version >> 8 * i);
    replayer.manifest = manifest;
    replayer.trust_version = policy;
    replayer.state = GR_STATE_LOADED;
    replayer.report.status = GR_STATUS_OK;
    replayer.report.phase = GR_PHASE_REPLAY;
    return setjmp(power) ? CUT_OFF : (uint32_t)gr_store_keep(&replayer);
}

/* The same after what is no complete replay. */
uint32_t model_keep_unless(uint32_t state, uint32_t status, uint32_t phase);
uint32_t model_keep_unless(uint32_t state, uint32_t status, uint32_t phase)
{
    static _Alignas(8) uint8_t manifest[GR_MANIFEST_BYTES];
    struct gr_replayer replayer = {.manifest = manifest, .trust_version = 9, .state = state};
    replayer.report.status = (enum gr_status)status;
    replayer.report.phase = (enum gr_phase)phase;
    return (uint32_t)gr_store_keep(&replayer);
}
