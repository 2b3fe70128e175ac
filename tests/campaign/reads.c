/* SPDX-License-Identifier: BSD-2-Clause */
/* Which words of the code are read as data: constants, whose bits can stay flipped as those of code can. What
 * the MMU reads, its tables, is not among them. */
#include "machine.h"

#include <stdio.h>
#include <stdlib.h>

static void on_read(uc_engine *uc, uc_mem_type type, uint64_t address, int size, int64_t value, void *user)
{
    struct machine *m = user;
    (void)uc;
    (void)type;
    (void)value;
    for (uint64_t at = address - m->code_at; at < address - m->code_at + (uint64_t)size; at++)
        if (at < m->code_bytes)
            m->is_read[at / INSTRUCTION_BYTES] = true;
}

void machine_note_reads(struct machine *m)
{
    uc_hook hook;
    m->is_read = calloc(m->code_bytes / INSTRUCTION_BYTES + 1, sizeof *m->is_read);
    if (!m->is_read || uc_hook_add(m->uc, &hook, UC_HOOK_MEM_READ, (void *)on_read, m, 1, 0) != UC_ERR_OK)
        fail("reads cannot be noted");
}

void machine_write_reads(const struct machine *m, const char *path)
{
    FILE *file = fopen(path, "wb");
    bool good = file != NULL;
    for (uint64_t at = 0; good && at < m->code_bytes; at += INSTRUCTION_BYTES) {
        const uint32_t address = (uint32_t)(m->code_at + at);
        if (m->is_read[at / INSTRUCTION_BYTES])
            good = fwrite(&address, sizeof address, 1, file) == 1;
    }
    if (!good || fclose(file))
        fail("%s: cannot be written", path);
}
