/* SPDX-License-Identifier: BSD-2-Clause */
/* The firmware in Unicorn, as host_tools/runners/unicorn.py has it, with a GPU that is only registers. It
 * runs to any instruction by number, and can be forked there: all of its memory is private to the process. */
#ifndef CAMPAIGN_MACHINE_H
#define CAMPAIGN_MACHINE_H

#include <stdbool.h>
#include <stdint.h>
#include <unicorn/unicorn.h>

enum {
    GPU_BYTES = 1 << 16,
    RESPONSE_AT = 8192, /* MAILBOX_RESPONSE_AT of the mailbox's schema */
    RESPONSE_BYTES = 96,
    LIST_MAX = 64,
    RANGE_MAX = 8,
    PAGE = 4096,
    INSTRUCTION_BYTES = 4,
    SECRET_BYTES = 32,
    SECRET_MAX = 3,
    KEPT_MAX = 3,
    KEPT_BYTES_MAX = 48,
    EVIDENCE_MAX = 4096,
    MEET_MAX = 3,
    BOARD_PAGE_MAX = 6,
};

/* A write that only a trace makes: this register, with this value unless any will do. */
struct trace_write {
    uint32_t offset, value;
    bool any_value;
};

/* A job starts that is a network's, since this register has this value, and another register must have the
 * value that is wanted. Where there are any, no writes count but those that start jobs. */
struct turn {
    uint32_t offset, value, other, wanted;
};

/* How a run ended. */
enum end {
    END_NONE,
    END_EXIT,
    END_CRASH,
    END_HANG,
    END_SAME,   /* campaign.c */
    END_FOREIGN /* it would have executed memory of the normal world */
};

/* Somewhere in the mailbox. */
struct part {
    uint64_t offset, bytes;
};

struct machine {
    uc_engine *uc;
    uc_context *start;
    uint8_t *mailbox;
    uint64_t mailbox_bytes;
    struct part answers[RANGE_MAX]; /* where the firmware writes, beside its response */
    unsigned answer_count;
    /* What nobody but the device may know. */
    uint8_t secrets[SECRET_MAX][SECRET_BYTES];
    unsigned secret_count;
    /* What the board keeps for the replay log: store.c. */
    struct kept {
        uint8_t bytes[KEPT_BYTES_MAX], at_start[KEPT_BYTES_MAX];
        uint64_t size; /* 0: this board has no such file */
    } kept[KEPT_MAX];
    unsigned open_file; /* from 1 */
    struct {
        uint8_t *memory;
        uint64_t base, bytes;
        uint8_t *contents; /* at the start; NULL: zeros */
    } ranges[RANGE_MAX];
    unsigned range_count;
    uint64_t code_at, code_bytes;
    bool *is_read; /* each word of the code; NULL: it is not noted */
    /* What the normal world fills, and with what: hostile.c. */
    struct {
        uint64_t base, bytes;
    } hostile[RANGE_MAX];
    unsigned hostile_count;
    struct page {
        uint8_t *memory, *at_start;
    } * hostile_pages; /* that there are: a fault has led there */
    uint64_t hostile_page_count;
    uint64_t device_at, device_bytes; /* the device's constant */
    uint64_t mirror_at, mirror_bytes; /* the firmware that the attacker would have, in whole pages */
    uint8_t *mirror;
    bool is_read_only[GPU_BYTES / 4]; /* a register that ignores writes */
    uint32_t registers[GPU_BYTES / 4], registers_at_start[GPU_BYTES / 4];
    uint32_t fixed[GPU_BYTES / 4]; /* what a register reads, whatever is written; with has_fixed */
    bool has_fixed[GPU_BYTES / 4];
    bool is_driver[GPU_BYTES / 4]; /* the nano driver writes it too */
    struct trace_write trace_writes[LIST_MAX];
    unsigned trace_write_count;
    struct turn turns[LIST_MAX];
    unsigned turn_count;
    uint32_t start_at; /* a write of this register starts a job */
    /* While this register has this value, a job reaches no memory; 0: there is none. */
    uint32_t off_at, off_value;
    uint64_t now_ns;
    uint64_t executed, stop_at; /* instructions */
    bool in_blocks;             /* see machine_open */
    enum end end;
    /* Where a run stops for a look at its state: whenever one of these addresses is reached. */
    uint64_t meet_at[MEET_MAX], met_number; /* the latter: of the instruction where it stopped last */
    bool meets, has_met;
    bool is_stopped;    /* by us: the firmware does not wait for ever */
    bool has_said_line; /* by its UART, which is the last that it does on a board */
    /* What reached the GPU. */
    uint32_t writes, from_trace;      /* writes in all; those that only a trace makes */
    uint32_t seen_offset, seen_value; /* the first of the latter */
    uint32_t *pcs;                    /* address of each instruction executed, if wanted */
    uint64_t pcs_room;
};

#define NOWHERE (UINT64_MAX - 3)

/* Read the description of a machine (campaign.py writes it); exits with a message when it is malformed. In
 * blocks, it is looked at between straight pieces of code only, which is several times as fast. It then stops
 * before the piece that has the instruction, meets nothing, and notes no addresses. */
void machine_open(struct machine *m, const char *path, bool in_blocks);

/* Note which words of the code are read as data, and write their addresses to a file (reads.c). */
void machine_note_reads(struct machine *m);
void machine_write_reads(const struct machine *m, const char *path);

/* Let faults lead to memory of the normal world (hostile.c). */
void machine_add_hostile(struct machine *m);

/* What a fault has done to memory of the normal world (hostile.c): whether some of a secret is there now, and
 * how many bytes are others that no answer is written to. */
bool machine_has_leaked(const struct machine *m);
uint64_t machine_strayed(const struct machine *m);

/* Do what an instruction of semihosting asks for (store.c); false: it asks for the end. */
bool machine_semihost(struct machine *m);

/* The answers in the mailbox, and what the board keeps, one after the other: their size, at most
 * EVIDENCE_MAX. */
uint64_t machine_evidence(const struct machine *m, uint8_t to[EVIDENCE_MAX]);

/* Execute until `number` instructions are executed, in all, or, if it meets, one of `meet_at` is reached
 * (then has_met); false: the run ended before that. */
bool machine_run_to(struct machine *m, uint64_t number);

/* Back to the start, with all code translated that was executed until now. */
void machine_rewind(struct machine *m);

uint64_t machine_reg(const struct machine *m, int uc_register);
void machine_set_reg(const struct machine *m, int uc_register, uint64_t value);
uint64_t machine_pc(const struct machine *m);
void machine_set_pc(const struct machine *m, uint64_t pc);
uint32_t machine_word(const struct machine *m, uint64_t address);
/* Exchange an instruction. */
void machine_set_word(const struct machine *m, uint64_t address, uint32_t word);

/* A hash of all that decides how the run goes on: registers, memory, the GPU's registers, the clock; and of
 * what the outcome says (state.c). */
uint64_t machine_state(const struct machine *m);

/* Of bytes in whole words. */
uint64_t machine_hash(const void *data, uint64_t bytes);

/* The board's other registers (board.c): a row of the description, false: it is none of them; their state;
 * whether an instruction is done that Unicorn lacks. */
bool board_describe(struct machine *m, const char *kind, uint64_t a, uint64_t b);
void board_rewind(void);
uint64_t board_state(uint64_t hash);
bool board_has(const struct machine *m, uint32_t word);

/* The same of its flash (flash.c). */
bool flash_describe(struct machine *m, const char *kind, uint64_t base, uint64_t bytes);
void flash_rewind(void);
uint64_t flash_state(uint64_t hash);

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
