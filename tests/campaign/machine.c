/* SPDX-License-Identifier: BSD-2-Clause */
#include "machine.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PSTATE_EL3 = 0x3cd, /* EL3, own stack pointer, all exceptions masked */
    GIC_BYTES = 2 * PAGE,
    NS_PER_LOOK = 1000, /* time passes only when the firmware looks at the clock or the interrupts */
    LINE_MAX_BYTES = 4096,
};
#define HLT_SEMIHOSTING 0xd45e0000u

void fail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fputs("campaign: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(2);
}

static void check(uc_err error, const char *what)
{
    if (error != UC_ERR_OK)
        fail("%s: %s", what, uc_strerror(error));
}

uint64_t machine_reg(const struct machine *m, int uc_register)
{
    uint64_t value = 0;
    check(uc_reg_read(m->uc, uc_register, &value), "reading a register");
    return value;
}

void machine_set_reg(const struct machine *m, int uc_register, uint64_t value)
{
    check(uc_reg_write(m->uc, uc_register, &value), "writing a register");
}

uint64_t machine_pc(const struct machine *m)
{
    return machine_reg(m, UC_ARM64_REG_PC);
}

void machine_set_pc(const struct machine *m, uint64_t pc)
{
    machine_set_reg(m, UC_ARM64_REG_PC, pc);
}

uint32_t machine_word(const struct machine *m, uint64_t address)
{
    uint32_t word = 0;
    check(uc_mem_read(m->uc, address, &word, sizeof word), "reading an instruction");
    return word;
}

void machine_set_word(const struct machine *m, uint64_t address, uint32_t word)
{
    check(uc_mem_write(m->uc, address, &word, sizeof word), "exchanging an instruction");
    check(uc_ctl_remove_cache(m->uc, address, address + sizeof word), "dropping translated code");
}

/* Called before each instruction. */
static void on_code(uc_engine *uc, uint64_t address, uint32_t size, void *user)
{
    struct machine *m = user;
    (void)size;
    bool is_meeting = false;
    for (unsigned i = 0; m->meets && i < MEET_MAX; i++)
        is_meeting |= address == m->meet_at[i];
    if (is_meeting && m->executed != m->met_number) {
        m->met_number = m->executed;
        m->has_met = true;
        m->stop_at = m->executed;
    }
    if (m->executed == m->stop_at) {
        m->is_stopped = true;
        uc_emu_stop(uc);
        return;
    }
    if (m->pcs && m->executed < m->pcs_room)
        m->pcs[m->executed] = (uint32_t)address;
    m->executed++;
}

/* Called before each block. */
static void on_block(uc_engine *uc, uint64_t address, uint32_t size, void *user)
{
    struct machine *m = user;
    (void)address;
    if (m->executed + size / INSTRUCTION_BYTES > m->stop_at) {
        m->is_stopped = true;
        uc_emu_stop(uc);
    } else {
        m->executed += size / INSTRUCTION_BYTES;
    }
}

static void on_interrupt(uc_engine *uc, uint32_t number, void *user)
{
    struct machine *m = user;
    uint32_t word = 0;
    (void)number;
    /* Only the instruction of the firmware's own exit ends a run well. */
    const bool known = uc_mem_read(uc, machine_pc(m), &word, sizeof word) == UC_ERR_OK;
    if (known && word == HLT_SEMIHOSTING && machine_semihost(m)) {
        machine_set_pc(m, machine_pc(m) + sizeof word);
        return;
    }
    if (known && board_has(m, word)) {
        machine_set_pc(m, machine_pc(m) + sizeof word);
        return;
    }
    m->end = known && word == HLT_SEMIHOSTING ? END_EXIT : END_CRASH;
    uc_emu_stop(uc);
}

static uint64_t gpu_read(uc_engine *uc, uint64_t offset, unsigned size, void *user)
{
    const struct machine *m = user;
    (void)uc;
    if (size != 4 || offset % 4 || offset >= GPU_BYTES)
        return 0;
    return m->has_fixed[offset / 4] ? m->fixed[offset / 4] : m->registers[offset / 4];
}

static bool is_of_a_trace(const struct machine *m, uint64_t offset, uint64_t value)
{
    for (unsigned i = 0; i < m->trace_write_count; i++) {
        const struct trace_write *w = &m->trace_writes[i];
        if (w->offset == offset && (w->any_value || w->value == value))
            return true;
    }
    const bool is_off = m->off_at && m->registers[m->off_at / 4] == m->off_value;
    for (unsigned i = 0; i < m->turn_count && offset == m->start_at && !is_off; i++) {
        const struct turn *t = &m->turns[i];
        const uint64_t whose = t->offset == offset ? value : m->registers[t->offset / 4];
        if (whose == t->value && m->registers[t->other / 4] != t->wanted)
            return true;
    }
    if (m->turn_count)
        return false;
    return offset >= GPU_BYTES || !m->is_driver[offset / 4];
}

static void gpu_write(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user)
{
    struct machine *m = user;
    if (offset % size) { /* an Alignment fault: this is Device memory (Arm DDI 0487, B2.7.2) */
        m->end = END_CRASH;
        uc_emu_stop(uc);
        return;
    }
    if (offset < GPU_BYTES && m->is_read_only[offset / 4])
        return;
    m->writes++;
    if (is_of_a_trace(m, offset, value) && m->from_trace++ == 0) {
        m->seen_offset = (uint32_t)offset;
        m->seen_value = (uint32_t)value;
    }
    if (offset < GPU_BYTES)
        m->registers[offset / 4] = (uint32_t)value;
}

/* No interrupt is ever pending; time passes. */
static uint64_t gic_read(uc_engine *uc, uint64_t offset, unsigned size, void *user)
{
    struct machine *m = user;
    (void)uc;
    (void)offset;
    (void)size;
    m->now_ns += NS_PER_LOOK;
    return 0;
}

static void ignore_write(uc_engine *uc, uint64_t offset, unsigned size, uint64_t value, void *user)
{
    (void)uc;
    (void)offset;
    (void)size;
    (void)value;
    (void)user;
}

/* CNTPCT_EL0 is virtual; other system registers are Unicorn's own. */
static uint32_t on_mrs(uc_engine *uc, uc_arm64_reg reg, const uc_arm64_cp_reg *cp, void *user)
{
    struct machine *m = user;
    if (cp->crn != 14 || cp->crm != 0 || cp->op0 != 3 || cp->op1 != 3 || cp->op2 != 1)
        return 0;
    uc_arm64_cp_reg frequency = {.crn = 14, .crm = 0, .op0 = 3, .op1 = 3, .op2 = 0};
    check(uc_reg_read(uc, UC_ARM64_REG_CP_REG, &frequency), "CNTFRQ_EL0");
    m->now_ns += NS_PER_LOOK;
    machine_set_reg(m, (int)reg, m->now_ns * frequency.val / 1000000000u);
    return 1;
}

bool machine_run_to(struct machine *m, uint64_t number)
{
    m->stop_at = number;
    m->is_stopped = false;
    const uc_err error = uc_emu_start(m->uc, machine_pc(m), NOWHERE, 0, 0);
    if (error != UC_ERR_OK && m->end == END_NONE)
        m->end = END_CRASH;
    if (m->end == END_NONE && !m->is_stopped)
        m->end = m->has_said_line ? END_EXIT : END_HANG;
    return m->end == END_NONE;
}

/* Memory of this process only, so that a fork has its own. */
static uint8_t *map(struct machine *m, uint64_t base, uint64_t size, uint32_t protection)
{
    const uint64_t start = base & ~(uint64_t)(PAGE - 1);
    size = (base + size - start + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    uint8_t *memory =
        mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        fail("no memory for %" PRIu64 " bytes", size);
    check(uc_mem_map_ptr(m->uc, start, size, protection, memory), "mapping memory");
    if (m->range_count == RANGE_MAX)
        fail("too many ranges of memory");
    m->ranges[m->range_count].memory = memory;
    m->ranges[m->range_count].base = start;
    m->ranges[m->range_count++].bytes = size;
    return memory + (base - start);
}

static void read_file(uint8_t *to, uint64_t size, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fread(to, 1, size, file) != size)
        fail("%s: cannot be read", path);
    fclose(file);
}

/* The same, with a file's contents. */
static uint8_t *load(struct machine *m, uint64_t base, uint64_t size, uint32_t protection, const char *path)
{
    uint8_t *to = map(m, base, size, protection), *copy = malloc(m->ranges[m->range_count - 1].bytes);
    if (!copy)
        fail("no memory for %" PRIu64 " bytes", size);
    read_file(to, size, path);
    m->ranges[m->range_count - 1].contents = copy;
    memcpy(copy, m->ranges[m->range_count - 1].memory, m->ranges[m->range_count - 1].bytes);
    return to;
}

/* What the board has for the log, and what of it is secret. */
static void describe_kept(struct machine *m, uint64_t number, uint64_t bytes, const char *path)
{
    if (number >= KEPT_MAX || bytes > KEPT_BYTES_MAX)
        fail("no place for a file of %" PRIu64 " bytes", bytes);
    struct kept *k = &m->kept[number];
    k->size = bytes;
    read_file(k->at_start, bytes, path);
    memcpy(k->bytes, k->at_start, bytes);
}

static void describe_register(struct machine *m, const char *kind, uint64_t offset, uint64_t value)
{
    if (offset >= GPU_BYTES || offset % 4)
        fail("%s: no register at %#" PRIx64, kind, offset);
    if (!strcmp(kind, "reads")) {
        m->has_fixed[offset / 4] = true;
        m->fixed[offset / 4] = (uint32_t)value;
    } else if (!strcmp(kind, "identity")) {
        m->is_read_only[offset / 4] = true;
    } else if (!strcmp(kind, "begin")) {
        m->registers[offset / 4] = m->registers_at_start[offset / 4] = (uint32_t)value;
    } else if (!strcmp(kind, "start")) {
        m->start_at = (uint32_t)offset;
    } else if (!strcmp(kind, "off")) {
        m->off_at = (uint32_t)offset;
        m->off_value = (uint32_t)value;
    } else if (!strcmp(kind, "driver")) {
        m->is_driver[offset / 4] = true;
    } else if (m->trace_write_count < LIST_MAX) {
        m->trace_writes[m->trace_write_count++] =
            (struct trace_write){(uint32_t)offset, (uint32_t)value, value > UINT32_MAX};
    } else {
        fail("too many registers");
    }
}

/* What an attacker's firmware would be, in whole pages. */
static void load_mirror(struct machine *m, uint64_t base, uint64_t bytes, const char *path)
{
    m->mirror_at = base;
    m->mirror_bytes = (bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
    m->mirror = calloc(1, m->mirror_bytes);
    if (!m->mirror)
        fail("no memory for %" PRIu64 " bytes", bytes);
    read_file(m->mirror, bytes, path);
}

static void describe(struct machine *m, const char *line)
{
    char kind[16], path[LINE_MAX_BYTES] = "";
    uint64_t a = 0, b = 0;
    if (sscanf(line, "%15s %" SCNi64 " %" SCNi64 " %4095[^\n]", kind, (int64_t *)&a, (int64_t *)&b, path) < 2)
        fail("not understood: %s", line);
    if (!strcmp(kind, "rom"))
        load(m, m->code_at = a, m->code_bytes = b, UC_PROT_READ | UC_PROT_EXEC, path);
    else if (!strcmp(kind, "data"))
        load(m, a, b, UC_PROT_READ | UC_PROT_WRITE, path);
    else if (!strcmp(kind, "ram"))
        map(m, a, b, UC_PROT_READ | UC_PROT_WRITE);
    else if (!strcmp(kind, "mailbox"))
        m->mailbox = load(m, a, m->mailbox_bytes = b, UC_PROT_READ | UC_PROT_WRITE, path);
    else if (!strcmp(kind, "answer") && m->answer_count < RANGE_MAX)
        m->answers[m->answer_count++] = (struct part){a, b};
    else if (!strcmp(kind, "kept"))
        describe_kept(m, a, b, path);
    else if (!strcmp(kind, "secret") && m->secret_count < SECRET_MAX && b == SECRET_BYTES)
        read_file(m->secrets[m->secret_count++], SECRET_BYTES, path);
    else if (!strcmp(kind, "hostile") && m->hostile_count < RANGE_MAX)
        m->hostile[m->hostile_count].base = a, m->hostile[m->hostile_count++].bytes = b;
    else if (!strcmp(kind, "mirror"))
        load_mirror(m, a, b, path);
    else if (!strcmp(kind, "turn") && m->turn_count < LIST_MAX && a >> 32 < GPU_BYTES)
        m->turns[m->turn_count++] =
            (struct turn){(uint32_t)a, (uint32_t)b, (uint32_t)(a >> 32), (uint32_t)(b >> 32)};
    else if (!strcmp(kind, "device"))
        m->device_at = a, m->device_bytes = b;
    else if (!strcmp(kind, "gpu"))
        check(uc_mmio_map(m->uc, a, GPU_BYTES, gpu_read, m, gpu_write, m), kind);
    else if (!strcmp(kind, "gic"))
        check(uc_mmio_map(m->uc, a, GIC_BYTES, gic_read, m, ignore_write, m), kind);
    else if (!strcmp(kind, "entry"))
        machine_set_pc(m, a);
    else if (!strcmp(kind, "reads") || !strcmp(kind, "driver") || !strcmp(kind, "trace") ||
             !strcmp(kind, "identity") || !strcmp(kind, "begin") || !strcmp(kind, "start") ||
             !strcmp(kind, "off"))
        describe_register(m, kind, a, b);
    else if (!board_describe(m, kind, a, b) && !flash_describe(m, kind, a, b))
        fail("not understood: %s", line);
}

void machine_open(struct machine *m, const char *path, bool in_blocks)
{
    char line[LINE_MAX_BYTES];
    uc_hook hook;
    memset(m, 0, sizeof *m);
    m->met_number = NOWHERE;
    m->in_blocks = in_blocks;
    check(uc_open(UC_ARCH_ARM64, UC_MODE_ARM, &m->uc), "uc_open");
    check(uc_ctl_set_cpu_model(m->uc, UC_CPU_ARM64_A72), "the processor's model");
    FILE *file = fopen(path, "r");
    if (!file)
        fail("%s: cannot be read", path);
    while (fgets(line, sizeof line, file))
        describe(m, line);
    fclose(file);
    if (!m->mailbox)
        fail("%s: no mailbox", path);
    const int each = in_blocks ? UC_HOOK_BLOCK : UC_HOOK_CODE;
    check(uc_hook_add(m->uc, &hook, each, in_blocks ? (void *)on_block : (void *)on_code, m, 1, 0), "hook");
    check(uc_hook_add(m->uc, &hook, UC_HOOK_INTR, (void *)on_interrupt, m, 1, 0), "hook");
    check(uc_hook_add(m->uc, &hook, UC_HOOK_INSN, (void *)on_mrs, m, 1, 0, UC_ARM64_INS_MRS), "hook");
    if (m->hostile_count)
        machine_add_hostile(m);
    machine_set_reg(m, UC_ARM64_REG_PSTATE, PSTATE_EL3);
    /* Only a write of a system register makes Unicorn notice the new level: CPACR_EL1, no traps. */
    uc_arm64_cp_reg cpacr = {.crn = 1, .crm = 0, .op0 = 3, .op1 = 0, .op2 = 2, .val = 3 << 20};
    check(uc_reg_write(m->uc, UC_ARM64_REG_CP_REG, &cpacr), "CPACR_EL1");
    check(uc_context_alloc(m->uc, &m->start), "the registers at the start");
    check(uc_context_save(m->uc, m->start), "the registers at the start");
}

void machine_rewind(struct machine *m)
{
    check(uc_context_restore(m->uc, m->start), "the registers at the start");
    for (unsigned i = 0; i < m->range_count; i++) {
        if (m->ranges[i].contents)
            memcpy(m->ranges[i].memory, m->ranges[i].contents, m->ranges[i].bytes);
        else if (madvise(m->ranges[i].memory, m->ranges[i].bytes, MADV_DONTNEED))
            fail("memory cannot be cleared");
    }
    memcpy(m->registers, m->registers_at_start, sizeof m->registers);
    for (unsigned i = 0; i < KEPT_MAX; i++)
        memcpy(m->kept[i].bytes, m->kept[i].at_start, sizeof m->kept[i].bytes);
    m->open_file = 0;
    board_rewind();
    flash_rewind();
    m->has_said_line = false;
    m->now_ns = 0;
    m->executed = 0;
    m->end = END_NONE;
    m->met_number = NOWHERE;
    m->writes = m->from_trace = 0;
}
