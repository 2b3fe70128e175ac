/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: a profile's core and features with one nano driver, behind signatures that are always good.
 *
 * An input is a list of records of 20 bytes. Each says one thing about a scene: a number of the trace's or of
 * the device's, a slot, an action, a hostile edit, what a register reads as, or a step of the caller.
 * Together they make a signed trace, a GPU and a caller. What is not said is as in a valid, small trace, so
 * that a few records reach deep, and any list of records is a scene.
 */
#ifndef GRAMOPHONE_FUZZ_CORE_H
#define GRAMOPHONE_FUZZ_CORE_H

#include "fuzz_envelope.h"
#include "fuzz_policy.h"
#include "gr_target.h"
#include "gramophone_trace.h"
#include "replayer.h"

#include <stdlib.h>
#include <string.h>

enum {
    RECORD_BYTES = 20,
    MAX_RECORDS = 96,
    MAX_FILE = 1 << 17,
    FILE_HEAD = sizeof fuzz_envelope, /* signed header, envelope, padding */
    PAGE = 4096,
    MEMORY_PAGES = 40, /* of the carve-out, where a scene says nothing else */
    FILLING = 0xa5,    /* in the carve-out before anything is loaded */
};

#if defined GRAMOPHONE_NETWORKS
enum kind { NUMBER, SLOT, ACTION, EDIT, REGISTER, STEP, NETWORK, KINDS };
#elif defined GRAMOPHONE_STREAMING
enum kind { NUMBER, SLOT, ACTION, EDIT, REGISTER, STEP, PIECE, KINDS };
#else
enum kind { NUMBER, SLOT, ACTION, EDIT, REGISTER, STEP, KINDS };
#endif

struct record {
    uint8_t kind; /* modulo KINDS */
    uint8_t how;  /* bit 0: as it is, whatever that means; else brought into a sensible range */
    uint8_t what, more;
    uint8_t data[16];
};
_Static_assert(sizeof(struct record) == RECORD_BYTES, "without padding");

/* What NUMBER records set. */
enum number {
    CARVEOUT_PAGES,
    VA_PAGES,
    IMAGE_BYTES,
    TIME_BUDGET,
    RETRIES,
    CHUNK_BITS,
    CODECS, /* bit n: the n-th section is packed */
    IMAGE_PARTS,
    OPTIONAL_PARTS,
    SECURITY_VERSION,
    MIN_SECURITY_VERSION,
    CORE_MASK,
    DEVICE_PAGES,
    CLOCK_START,
    CLOCK_STEP,
    READ_FAILS_AT, /* number of the read of the file; 0: none */
    HASH_FAILS_AT,
    VERDICT_BAD_AT,
    IRQ_PATTERN, /* bit n: at the n-th wait the line is active */
    EXTRA_BYTES, /* of the file, after the trace */
    ENCRYPTED,   /* not 0: the body is, where the device can decrypt one */
    CHANGES_AT,  /* number of the read, of those during a replay, that gives another byte; 0: none */
    NUMBERS
};

/* What is a network's; of a trace of one network, all there is. Of actions, slots and pages, the ends too. */
struct part {
    uint32_t first_action, end_action, first_slot, end_slot;
    uint64_t first_page, end_page;
};
enum { MAX_PARTS = GR_NETWORKS + 1 }; /* one more than the core takes */

struct scene {
    uint64_t numbers[NUMBERS];
    const struct record *records;
    size_t count;
    uint8_t file[MAX_FILE]; /* the signed trace */
    size_t file_bytes;
    uint8_t reads[MAX_FILE]; /* 1: the byte was read */
    uint32_t file_reads, hashes, verdicts;
    uint64_t carveout_bytes, image_end; /* as the file says, after its edits */
    uint32_t action_count, job_count;
    struct part parts[MAX_PARTS]; /* as it says, too */
    size_t part_count;
    bool is_exclusive; /* all have the same pages */
    bool has_section;  /* NETWORKS */
    bool is_encrypted;
    bool is_streamed;
    uint64_t read_only_end; /* of the image, and of pieces that stay */
    const uint8_t *piece_rows;
    size_t piece_count;
    bool has_stayed[GR_MAX_PIECES];
    uint32_t replay_reads; /* of the file */
    bool is_changed;       /* what was read in this replay */
    const uint8_t *reach;  /* in it: for each page of the image, a bit for each network that reaches it */
    uint8_t *base;         /* the carve-out */
    struct gr_memory memory;
    struct gr_replayer *replayer;
    uint64_t clock, clock_step, port_calls, irq_waits;
    uint64_t writes;
    bool loading, in_driver, table_set; /* table_set: since the latest reset */
    bool has_tables[MAX_PARTS];         /* of a network, since the trace was loaded */
    bool given_away;                    /* the GPU, reset */
    uint32_t last_read[FUZZ_WINDOW_BYTES / 4], written[FUZZ_WINDOW_BYTES / 4];
    bool fresh[FUZZ_WINDOW_BYTES / 4]; /* read since the latest write */
};

extern struct scene scene;

/* A finding: say which promise does not hold, and stop. */
_Noreturn void found(const char *promise);
#define PROMISE(condition, text) ((condition) ? (void)0 : found(text))

uint64_t number_of(const struct record *record, size_t at, size_t bytes);

void put(uint8_t *at, uint64_t value, size_t bytes); /* core_pack.c: little-endian */
size_t pack(uint8_t *out, const uint8_t *in, size_t bytes);
size_t count_of(enum kind kind, size_t most); /* core_scene.c */
const struct record *record_at(enum kind kind, size_t n);
void build_file(void);
void check_tables(void);             /* core_oracles.c: what the GPU can reach */
void check_job(void);                /* what the GPU would execute */
void check_report(uint32_t status);  /* after each call */
void check_wiped(bool was_accepted); /* after gr_unload, or a refused load */

/* The network that the core works for, and where its page tables lie in the carve-out. */
size_t selected(void);
struct region {
    uint64_t at, end;
};
struct region tables_of(size_t part);
bool reaches(size_t part, uint64_t at,
             uint64_t bytes); /* whether what of it lies in the image is the network's */
bool has_own_tables(void);    /* whether the GPU has been pointed to no others */

/* core_features.c: what boards and libraries give features; the log's entries. */
struct gr_policy device_policy(void);
void features_begin(void);
void features_tell(bool was_loading); /* after a load or a replay */
void features_end(void);

/* core_networks.c: networks of a joint trace. */
void plan_parts(void);                /* from records */
size_t put_networks(uint8_t *rows);   /* the section's bytes */
void read_parts(const uint8_t *rows); /* from the file, after its edits */
void choose(const struct record *r);  /* a call that selects a network */
void check_parts(void);               /* after a load that was accepted */
void remember_others(void);           /* before a call */
void check_others(void);              /* after it: of memory that is not the network's nothing changed */
void ask(const struct record *r);     /* core_requests.c: a call about requests */
void check_requests(void);            /* after any call */
void forget_requests(void);           /* after gr_unload */

/* core_pieces.c: pieces of a streamed trace. */
size_t put_pieces(uint8_t *rows); /* the sections' bytes */
size_t put_stream(uint8_t *stream);
void read_pieces(const uint8_t *rows, size_t count); /* from the file, after its edits */
void check_pieces(void);                             /* after a load that was accepted */
void check_stays(uint8_t *known); /* after a replay; `known`: as they were when they were read */
void check_job_pieces(void);      /* when a job starts */

/* STEP records: the first are core.c's, then one selects a network, the others are core_requests.c's. */
enum { OWN_CALLS = 4, SELECTS = OWN_CALLS };
#if defined GRAMOPHONE_SCHEDULE
enum { HAS_STEPS = true, CALLS = 10 };
#elif defined GRAMOPHONE_NETWORKS
enum { HAS_STEPS = false, CALLS = SELECTS + 1 };
#else
enum { HAS_STEPS = false, CALLS = OWN_CALLS };
#endif

#endif
