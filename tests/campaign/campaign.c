/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Inject faults into a run of the firmware, one a run.
 *
 *     campaign MACHINE run LIMIT EVIDENCE PCS READS
 *     campaign MACHINE inject LIMIT EVIDENCE PLAN OUT MEET...
 *     campaign MACHINE stay LIMIT EVIDENCE PLAN OUT
 *
 * run: without a fault; PCS is a file for each instruction's address (u32), or "-"; then READS gets the
 * addresses of the words of code that were read as data (u32). inject: PLAN has struct
 * fault, in order of their numbers, OUT gets struct outcome. EVIDENCE gets what runs have answered beside
 * their response, once for each that differs: its hash, then as many bytes as the first answer has.
 *
 * The run without a fault goes from fault to fault. At each the process forks: the child injects the fault
 * and runs to the end or to LIMIT instructions; its memory is the kernel's copy on write, and its code is
 * already translated.
 *
 * When a run with a fault reaches the address MEET in the same state as the run without a fault once did, or
 * an earlier one with a fault, its end is known and not waited for: END_SAME for the former.
 *
 * stay: the same for faults of kinds STAY and CONSTANT; of the latter the second number is the address. The
 * code differs from then on, so no state is a known one; in return nothing is called at each instruction.
 */
#include "machine.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { SKIP, EXCHANGE, ZERO, ONES, FLIP, STAY, CONSTANT, KIND_COUNT };

enum { KNOWN = 1 << 14, MEETINGS = 4 };

/* What the driver decided; its view of these structures: faults.py. */
struct one_fault {
    uint64_t number;        /* of the instruction, from 0 */
    uint32_t kind, operand; /* SKIP: how many; EXCHANGE, STAY: bits of the encoding; others: spoil_register */
};

struct fault {
    struct one_fault first, second; /* of a pair; number 0: there is no second */
};

struct outcome {
    uint32_t end; /* enum end */
    uint32_t status, answered;
    uint32_t writes, from_trace, seen_offset, seen_value, leaked;
    uint64_t replays, pc, strayed;
    uint64_t evidence;  /* its hash; 0: there is none */
    uint64_t executed;  /* instructions */
    uint32_t judged[2]; /* the driver's */
};

/* Shared by all forks: what became of states at the meeting points, and which evidence is known. Slots are by
 * hash; one that is taken stays. */
struct memory_of_states {
    uint64_t evidence[KNOWN];
    uint64_t unspoilt[MEETINGS]; /* of the run without a fault; 0: none */
    struct {
        uint64_t state;
        struct outcome outcome;
    } known[KNOWN];
};

enum { SECONDS_MAX = 60 };

static int register_of(uint32_t number)
{
    if (number < 29)
        return UC_ARM64_REG_X0 + (int)number;
    return number == 29 ? UC_ARM64_REG_X29 : number == 30 ? UC_ARM64_REG_X30 : UC_ARM64_REG_SP;
}

/* Operand: the register's number (31: SP), from bit 8 the bit to flip, bit 16: only its lower half is used.
 */
static void spoil_register(const struct machine *m, const struct one_fault *f)
{
    const int reg = register_of(f->operand & 31);
    const uint64_t mask = f->operand >> 16 & 1 ? UINT32_MAX : UINT64_MAX;
    uint64_t value = machine_reg(m, reg);
    if (f->kind == FLIP)
        value ^= UINT64_C(1) << (f->operand >> 8 & 63);
    else
        value = f->kind == ONES ? mask : 0;
    machine_set_reg(m, reg, value & mask);
}

static void inject(struct machine *m, const struct one_fault *f)
{
    const uint64_t pc = machine_pc(m);
    switch ((enum kind)f->kind) {
    case SKIP: machine_set_pc(m, pc + (uint64_t)f->operand * INSTRUCTION_BYTES); break;
    case EXCHANGE: {
        const uint32_t word = machine_word(m, pc);
        machine_set_word(m, pc, word ^ f->operand);
        machine_run_to(m, m->executed + 1);
        machine_set_word(m, pc, word);
        break;
    }
    case ZERO:
    case ONES:
    case FLIP:
        if (machine_run_to(m, m->executed + 1))
            spoil_register(m, f);
        break;
    case STAY: { /* before the block is as good as before its instruction, which is executed for the first
                    time */
        const uint64_t at = pc + (f->number - m->executed) * INSTRUCTION_BYTES;
        machine_set_word(m, at, machine_word(m, at) ^ f->operand);
        break;
    }
    default: fail("unknown fault %" PRIu32, f->kind);
    }
}

static struct outcome outcome_of(const struct machine *m)
{
    static const char magic[8] = {'G', 'M', 'B', 'X', 'E', 'S', 'P', '1'};
    const uint8_t *response = m->mailbox + RESPONSE_AT;
    struct outcome o = {
        .end = m->end,
        .answered = !memcmp(response, magic, sizeof magic),
        .writes = m->writes,
        .from_trace = m->from_trace,
        .seen_offset = m->seen_offset,
        .seen_value = m->seen_value,
        .leaked = machine_has_leaked(m),
        .pc = machine_pc(m),
        .strayed = machine_strayed(m),
        .executed = m->executed,
    };
    memcpy(&o.replays, response + 8, sizeof o.replays);
    memcpy(&o.status, response + 16, sizeof o.status);
    return o;
}

/* Note what the run has answered, and write it to the file if that is new. */
static void keep_evidence(const struct machine *m, struct outcome *o, struct memory_of_states *states,
                          const char *path)
{
    struct {
        uint64_t hash;
        uint8_t bytes[EVIDENCE_MAX];
    } record = {0};
    const uint64_t bytes = machine_evidence(m, record.bytes);
    if (!bytes)
        return;
    o->evidence = record.hash = machine_hash(record.bytes, bytes);
    if (states && states->evidence[record.hash % KNOWN] == record.hash)
        return;
    const int file = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const size_t size = sizeof record.hash + bytes;
    if (file < 0 || write(file, &record, size) != (ssize_t)size)
        fail("%s: %s", path, strerror(errno));
    close(file);
    if (states && !states->evidence[record.hash % KNOWN])
        states->evidence[record.hash % KNOWN] = record.hash;
}

/* To the end, to the limit, or to a meeting point. */
static void run_on(struct machine *m, uint64_t limit)
{
    if (m->end == END_NONE && machine_run_to(m, limit) && !m->has_met)
        m->end = END_HANG;
}

/* After a fault. */
static struct outcome finish(struct machine *m, uint64_t limit, struct memory_of_states *states,
                             const char *evidence)
{
    uint64_t seen[MEETINGS] = {0};
    for (unsigned meetings = 0;; meetings++) {
        if (!m->has_met)
            run_on(m, limit);
        if (!m->has_met || meetings == MEETINGS)
            break;
        m->has_met = false;
        const uint64_t state = seen[meetings] = machine_state(m);
        for (unsigned i = 0; i < MEETINGS; i++)
            if (states->unspoilt[i] == state)
                return (struct outcome){.end = END_SAME};
        if (states->known[state % KNOWN].state == state && !m->hostile_page_count) /* which no state has */
            return states->known[state % KNOWN].outcome;
    }
    if (m->has_met) {
        m->meets = false;
        run_on(m, limit);
    }
    struct outcome o = outcome_of(m);
    keep_evidence(m, &o, states, evidence);
    for (unsigned i = 0; i < MEETINGS; i++) {
        if (seen[i] && !m->hostile_page_count && !states->known[seen[i] % KNOWN].state) {
            states->known[seen[i] % KNOWN].outcome = o;
            states->known[seen[i] % KNOWN].state = seen[i];
        }
    }
    return o;
}

/* Fork; the child returns 0, the parent its exit status or, when it was killed, minus the signal. */
static int fork_and_wait(bool *is_child)
{
    const pid_t child = fork();
    int status = 0;
    if (child < 0)
        fail("fork: %s", strerror(errno));
    *is_child = child == 0;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        return 0;
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* To an instruction, without a stop at meeting points. */
static bool go_to(struct machine *m, uint64_t number)
{
    do {
        m->has_met = false;
        machine_run_to(m, number);
    } while (m->has_met && m->executed != number);
    m->has_met = false;
    return m->end == END_NONE;
}

static void attack(struct machine *m, const struct fault *f, uint64_t limit, struct memory_of_states *states,
                   const char *evidence, struct outcome *result)
{
    bool is_child;
    const int status = fork_and_wait(&is_child);
    if (is_child) {
        alarm(SECONDS_MAX);
        if (f->first.kind == CONSTANT)
            machine_set_word(m, f->second.number, machine_word(m, f->second.number) ^ f->first.operand);
        else
            inject(m, &f->first);
        if (f->first.kind != CONSTANT && f->second.number && m->end == END_NONE && go_to(m, f->second.number))
            inject(m, &f->second);
        *result = finish(m, limit, states, evidence);
        _exit(0);
    }
    if (status < 0)
        result->end = status == -SIGALRM ? END_HANG : END_CRASH;
    else if (status)
        fail("fault %" PRIu32 " at %" PRIu64 " could not be injected", f->first.kind, f->first.number);
}

/* The states of the run without a fault at the meeting point. */
static void scout(struct machine *m, uint64_t limit, struct memory_of_states *states)
{
    bool is_child;
    if (!m->meets)
        return;
    const int status = fork_and_wait(&is_child);
    if (is_child) {
        for (unsigned i = 0; i < MEETINGS && m->end == END_NONE; i++) {
            run_on(m, limit);
            if (m->has_met)
                states->unspoilt[i] = machine_state(m);
            m->has_met = false;
        }
        if (!states->unspoilt[0])
            fail("the run does not reach the meeting point");
        _exit(0);
    }
    if (status)
        exit(2);
}

static void *map_file(const char *path, uint64_t bytes, bool write)
{
    const int file = open(path, write ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY, 0666);
    if (file < 0 || (write && ftruncate(file, (off_t)bytes)))
        fail("%s: %s", path, strerror(errno));
    void *memory = mmap(NULL, bytes, write ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        fail("%s: %s", path, strerror(errno));
    close(file);
    return memory;
}

static void inject_all(struct machine *m, uint64_t limit, const char *evidence, const char *plan,
                       const char *out)
{
    struct memory_of_states *states =
        mmap(NULL, sizeof *states, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (states == MAP_FAILED)
        fail("no memory");
    const bool meets = m->meets;
    m->meets = false;
    run_on(m, limit); /* so that all code is translated before the first fork */
    machine_rewind(m);
    m->meets = meets;
    scout(m, limit, states);
    struct stat about;
    if (stat(plan, &about))
        fail("%s: %s", plan, strerror(errno));
    const uint64_t count = (uint64_t)about.st_size / sizeof(struct fault);
    const struct fault *faults = map_file(plan, count * sizeof *faults, false);
    struct outcome *outcomes = map_file(out, count * sizeof *outcomes, true);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t number = faults[i].first.number;
        if ((m->executed != number || m->in_blocks) && !go_to(m, number))
            fail("the run ended before instruction %" PRIu64, number);
        attack(m, &faults[i], limit, states, evidence, &outcomes[i]);
    }
}

int main(int argc, char **argv)
{
    static struct machine m;
    if (argc < 6)
        fail("usage: campaign MACHINE run LIMIT EVIDENCE PCS READS | "
             "campaign MACHINE inject LIMIT EVIDENCE PLAN OUT MEET... | "
             "campaign MACHINE stay LIMIT EVIDENCE PLAN OUT");
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const bool stays = !strcmp(argv[2], "stay");
    machine_open(&m, argv[1], stays);
    const uint64_t limit = strtoull(argv[3], NULL, 0);
    if (stays && argc == 7) {
        inject_all(&m, limit, argv[4], argv[5], argv[6]);
        return 0;
    }
    if (!strcmp(argv[2], "inject") && argc > 7 && argc <= 7 + MEET_MAX) {
        for (int i = 0; i < MEET_MAX; i++)
            m.meet_at[i] = 7 + i < argc ? strtoull(argv[7 + i], NULL, 0) : NOWHERE;
        m.meets = true;
        inject_all(&m, limit, argv[4], argv[5], argv[6]);
        return 0;
    }
    const bool wanted = strcmp(argv[5], "-") != 0;
    m.pcs_room = limit;
    m.pcs = wanted ? map_file(argv[5], limit * sizeof *m.pcs, true) : NULL;
    if (wanted && argc == 7)
        machine_note_reads(&m);
    run_on(&m, limit);
    if (wanted && truncate(argv[5], (off_t)(m.executed * sizeof *m.pcs)))
        fail("%s: %s", argv[5], strerror(errno));
    if (m.is_read)
        machine_write_reads(&m, argv[6]);
    struct outcome o = outcome_of(&m);
    keep_evidence(&m, &o, NULL, argv[4]);
    fwrite(&o, sizeof o, 1, stdout);
    return 0;
}
