/* SPDX-License-Identifier: BSD-2-Clause */
/* What the emulated board keeps for its replay log, as baremetal/qemu_virt.c reaches it: files by semihosting
 * (Arm "Semihosting for AArch32 and AArch64", 2.0). Nothing of it is the normal world's. */
#include "machine.h"

#include <string.h>

enum { SYS_OPEN = 1, SYS_CLOSE = 2, SYS_WRITE = 5, SYS_READ = 6, SYS_EXIT = 0x18, NAME_MAX_BYTES = 16 };

static uint64_t open_file(struct machine *m, const uint64_t block[3])
{
    static const char *const names[KEPT_MAX] = {"device.secret", "device.tail", "device.boots"};
    char name[NAME_MAX_BYTES] = "";
    if (block[2] >= sizeof name || uc_mem_read(m->uc, block[0], name, block[2]) != UC_ERR_OK)
        return UINT64_MAX;
    for (unsigned i = 0; i < KEPT_MAX; i++) {
        if (m->kept[i].size && !strcmp(name, names[i])) {
            m->open_file = i + 1;
            return m->open_file;
        }
    }
    return UINT64_MAX;
}

/* How many bytes are left that could not be moved. */
static uint64_t move(struct machine *m, uint64_t operation, const uint64_t block[3])
{
    if (!m->open_file)
        return block[2];
    struct kept *k = &m->kept[m->open_file - 1];
    const uint64_t bytes = block[2] < k->size ? block[2] : k->size;
    const uc_err error = operation == SYS_READ ? uc_mem_write(m->uc, block[1], k->bytes, bytes)
                                               : uc_mem_read(m->uc, block[1], k->bytes, bytes);
    return error == UC_ERR_OK ? block[2] - bytes : block[2];
}

bool machine_semihost(struct machine *m)
{
    const uint64_t operation = machine_reg(m, UC_ARM64_REG_X0);
    uint64_t block[3] = {0}, result = UINT64_MAX;
    if (operation == SYS_EXIT || !m->kept[0].size)
        return false;
    if (operation == SYS_CLOSE) {
        m->open_file = 0;
        result = 0;
    } else if (uc_mem_read(m->uc, machine_reg(m, UC_ARM64_REG_X1), block, sizeof block) == UC_ERR_OK) {
        if (operation == SYS_OPEN)
            result = open_file(m, block);
        else if (operation == SYS_READ || operation == SYS_WRITE)
            result = move(m, operation, block);
    }
    machine_set_reg(m, UC_ARM64_REG_X0, result);
    return true;
}

uint64_t machine_evidence(const struct machine *m, uint8_t to[EVIDENCE_MAX])
{
    uint64_t used = 0;
    for (unsigned i = 0; i < m->answer_count; i++) {
        const struct part *p = &m->answers[i];
        if (p->offset > m->mailbox_bytes || p->bytes > m->mailbox_bytes - p->offset ||
            p->bytes > EVIDENCE_MAX - used)
            fail("an answer does not fit");
        memcpy(to + used, m->mailbox + p->offset, p->bytes);
        used += p->bytes;
    }
    for (unsigned i = 1; i < KEPT_MAX && m->kept[0].size; i++) {
        if (m->kept[i].size > EVIDENCE_MAX - used)
            fail("what is kept does not fit");
        memcpy(to + used, m->kept[i].bytes, m->kept[i].size);
        used += m->kept[i].size;
    }
    return used;
}
