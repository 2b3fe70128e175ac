/* SPDX-License-Identifier: BSD-2-Clause */
/* Of the rollback store, all of it: any flash, which reads otherwise each time and may fail at each call; any
 * name, version and state of the replayer, in any order. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "store.h"
#include "__fc_builtin.h"
#include "crypto.h"
#include "gramophone_store.h"
#include "internal.h"
#include "string.h"

static uint64_t manifest[GR_MANIFEST_BYTES / 8];

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \initialized(a + (0 .. bytes - 1));
    requires \valid_read(b + (0 .. bytes - 1)) && \initialized(b + (0 .. bytes - 1));
    assigns \result \from a[0 .. bytes - 1], b[0 .. bytes - 1]; ensures 0 <= \result <= 1; */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);
/*@ requires \valid_read((uint8_t *)data + (0 .. bytes - 1)) && \valid(digest + (0 .. 31));
    requires \initialized((uint8_t *)data + (0 .. bytes - 1));
    assigns \result, digest[0 .. 31] \from ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(digest + (0 .. 31)); */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);

/* A record, inside a bank. */
/*@ requires bank: bank < GR_STORE_BANKS;
    requires record: bytes == sizeof(struct gr_store_record) && offset % bytes == 0;
    requires inside: offset <= GR_STORE_BANK_BYTES - bytes;
    requires \valid((uint8_t *)to + (0 .. bytes - 1));
    assigns \result, ((uint8_t *)to)[0 .. bytes - 1] \from bank, offset;
    ensures 0 <= \result <= 1 && \initialized((uint8_t *)to + (0 .. bytes - 1)); */
bool gr_port_flash_read(uint32_t bank, uint32_t offset, void *to, uint32_t bytes);
/*@ requires bank: bank < GR_STORE_BANKS;
    requires record: bytes == sizeof(struct gr_store_record) && offset % bytes == 0;
    requires inside: offset <= GR_STORE_BANK_BYTES - bytes;
    requires \valid_read((uint8_t *)from + (0 .. bytes - 1));
    requires \initialized((uint8_t *)from + (0 .. bytes - 1));
    assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_port_flash_program(uint32_t bank, uint32_t offset, const void *from, uint32_t bytes);
/*@ requires bank: bank < GR_STORE_BANKS;
    assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_port_flash_erase(uint32_t bank);

int main(void)
{
    struct gr_replayer r;
    uint8_t name[64];
    Frama_C_make_unknown((char *)manifest, sizeof manifest);
    while (Frama_C_interval(0, 1)) {
        Frama_C_make_unknown((char *)&r, sizeof r);
        Frama_C_make_unknown((char *)name, sizeof name);
        r.manifest = (const uint8_t *)manifest;
        r.is_kept = Frama_C_interval(0, 1);
        r.state = Frama_C_nondet(0, GR_STATE_LOADED);
        gr_store_open();
        gr_store_least_policy();
        gr_store_check(name, Frama_C_unsigned_int_interval(0, UINT32_MAX));
        gr_store_keep(&r);
    }
    return 0;
}
#include "shipped/store.c"
