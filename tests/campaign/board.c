/* SPDX-License-Identifier: BSD-2-Clause */
/* The UART, and what a board of silicon has besides, as far as its port waits for it: pages of registers that
 * keep what is written, bits that always read as set or clear, a bridge that answers at once, and registers
 * of the Cortex-A72 that Unicorn's lacks. Nothing checks the order: host_tools/runners/power does. */
#include "machine.h"

#include <stdlib.h>
#include <string.h>

enum { REQUEST = 1, ACKNOWLEDGE = 2, X28 = 28, UART_DR = 0 };

struct board_page {
    uint32_t words[PAGE / 4];  /* as written */
    uint32_t always[PAGE / 4]; /* bits that read as set */
    uint32_t never[PAGE / 4];  /* bits that read as clear */
    bool is_bridge[PAGE / 4];
};

static struct board_page *pages[BOARD_PAGE_MAX];
static uint64_t bases[BOARD_PAGE_MAX];
static unsigned count;

static uint64_t board_read(uc_engine *uc, uint64_t offset, unsigned size, void *user)
{
    const struct board_page *page = user;
    (void)uc;
    if (size != 4 || offset % 4)
        return 0;
    uint32_t value = page->words[offset / 4];
    if (page->is_bridge[offset / 4])
        value = value & REQUEST ? value | ACKNOWLEDGE : value & ~(uint32_t)ACKNOWLEDGE;
    return (value | page->always[offset / 4]) & ~page->never[offset / 4];
}

static void board_write(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user)
{
    struct board_page *page = user;
    (void)uc;
    if (size == 4 && offset % 4 == 0)
        page->words[offset / 4] = (uint32_t)value;
}

static uint64_t uart_read(uc_engine *uc, uint64_t offset, unsigned size, void *user)
{
    (void)uc;
    (void)offset;
    (void)size;
    (void)user;
    return 0; /* of the flags: it takes a character */
}

static void uart_write(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user)
{
    struct machine *m = user;
    (void)uc;
    (void)size;
    if (offset == UART_DR)
        m->has_said_line = value == '\n';
}

static struct board_page *page_of(uint64_t address)
{
    for (unsigned i = 0; i < count; i++)
        if (address - bases[i] < PAGE)
            return pages[i];
    fail("the board has no registers at %#llx", (unsigned long long)address);
}

bool board_describe(struct machine *m, const char *kind, uint64_t a, uint64_t b)
{
    if (!strcmp(kind, "uart")) {
        if (uc_mmio_map(m->uc, a, PAGE, uart_read, m, uart_write, m) != UC_ERR_OK)
            fail("no UART");
    } else if (!strcmp(kind, "page")) {
        if (count == BOARD_PAGE_MAX || !(pages[count] = calloc(1, sizeof **pages)) ||
            uc_mmio_map(m->uc, a, PAGE, board_read, pages[count], board_write, pages[count]) != UC_ERR_OK)
            fail("no page of registers");
        bases[count++] = a;
    } else if (!strcmp(kind, "always"))
        page_of(a)->always[a % PAGE / 4] = (uint32_t)b;
    else if (!strcmp(kind, "never"))
        page_of(a)->never[a % PAGE / 4] = (uint32_t)b;
    else if (!strcmp(kind, "bridge"))
        page_of(a)->is_bridge[a % PAGE / 4] = true;
    else
        return false;
    return true;
}

void board_rewind(void)
{
    for (unsigned i = 0; i < count; i++)
        memset(pages[i]->words, 0, sizeof pages[i]->words);
}

uint64_t board_state(uint64_t hash)
{
    for (unsigned i = 0; i < count; i++)
        hash ^= machine_hash(pages[i]->words, sizeof pages[i]->words) << i;
    return hash;
}

bool board_has(const struct machine *m, uint32_t word)
{
    /* L2CTLR_EL1 and CPUECTLR_EL1, as "msr NAME, x0"; with bit 21, they are read. */
    const uint32_t reads = 1 << 21, number = word & 31, name = word & ~(reads | 31);
    if (!count || number > X28 || (name != 0xd519f220 && name != 0xd519b040))
        return false;
    if (word & reads)
        machine_set_reg(m, UC_ARM64_REG_X0 + (int)number, 0);
    return true;
}
