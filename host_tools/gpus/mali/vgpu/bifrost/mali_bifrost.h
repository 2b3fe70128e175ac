/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bifrost shaders in the virtual Mali: programs as micro-operations, and batches of threads that run them.
 *
 * A program is translated once a job (mali_bifrost_program.c): every operation of a clause becomes one or a
 * few micro-operations whose operands are slots, vectors of one word a thread. Threads run in batches of
 * BIFROST_LANES, those at the lowest clause first (mali_bifrost_run.c).
 *
 * Sources: Mesa 22.3.6 src/panfrost/bifrost (ISA.xml, disassemble.c: encodings of v7), Mesa's older
 * disassembler (encodings of v6), C. Abbott's notes on Bifrost; what operations do was found by running the
 * GPUReplay recordings and PanVK's code against NumPy and ncnn.
 */
#ifndef GRAMOPHONE_MALI_BIFROST_H
#define GRAMOPHONE_MALI_BIFROST_H

#include "mali_bifrost_clause.h"
#include "mali_memory.h"

enum { BIFROST_LANES = 64, BIFROST_REGISTERS = 64 };

/* One word a lane. */
typedef uint32_t bifrost_vector[BIFROST_LANES] __attribute__((aligned(64)));

enum {
    SLOT_T0 = BIFROST_REGISTERS,    /* results of FMA operations on their way to a register, of two tuples */
    SLOT_T1 = SLOT_T0 + 2,          /* the same of ADD operations */
    SLOT_T0_HIGH = SLOT_T1 + 2,     /* high words of FMA results in 64-bit clauses */
    SLOT_HIDDEN = SLOT_T0_HIGH + 2, /* what an FMA hands to the ADD of its tuple besides its result */
    SLOT_ADDRESS,                   /* of a message: low word, high word */
    SLOT_TAKEN = SLOT_ADDRESS + 2,  /* all bits set: the branch is taken */
    SLOT_UNCLAMPED,                 /* result before it is clamped */
    SLOT_WIDENED,                   /* parts of words as words, of three sources */
    SLOT_MASKED = SLOT_WIDENED + 3, /* result of an operation that not all lanes take part in */
    SLOT_LANE,                      /* lane number in a warp */
    SLOT_ACTIVE,                    /* 1: the lane takes part in the clause; of programs that exchange */
    SLOT_DATA,                      /* of an atomic operation */
    SLOT_STORAGE,                   /* address of the thread's storage: low word, high word */
    SLOT_CONSTANTS = SLOT_STORAGE + 2, /* of the program, and push uniforms */
};

/* What a message moves. A part of a register leaves the rest of it as it is. */
struct bifrost_transfer {
    uint8_t words; /* registers from the staging register on */
    uint8_t bytes; /* in memory */
    uint8_t align; /* addresses are multiples */
    uint8_t shift; /* bit of the first register that the lowest one goes to */
    uint8_t width; /* bits that are written: more than in memory where they are extended */
    bool is_signed;
    uint8_t atomic; /* enum bifrost_atomic */
};

struct bifrost_uop;
/* Compute a micro-operation for all lanes into `to`, which may be one of its sources. */
typedef void bifrost_run(const struct bifrost_uop *uop, bifrost_vector *slot, uint32_t *to);

enum { BIFROST_SOURCES = 4 };

struct bifrost_uop {
    bifrost_run *run;
    uint16_t to,
        from[BIFROST_SOURCES]; /* those that `run` does not take name one that it takes, or a constant */
    uint16_t high[3];          /* of 64-bit operations: high words of sources */
    /* Of float sources: bits that stay, then bits that change, for absolute values and signs; integer
     * operations use `flip` to invert sources and the result (the last one). */
    uint32_t keep[3], flip[3];
    uint32_t detail; /* of the operation: shift, lanes, condition... */
};

/* An operation as its encoding says, before its operands are known. */
struct bifrost_operation {
    bifrost_run *run;
    uint32_t keep[3], flip[3], detail;
    uint8_t sources;  /* of the fields at bits 0, 3, 6, 9 */
    uint8_t widen[2]; /* of sources 0, 1: enum bifrost_widen */
    uint8_t clamp;    /* of the result */
    uint8_t kind;     /* enum bifrost_kind */
    uint8_t segment;  /* of a message or SEG_ADD */
    struct bifrost_transfer transfer;
};

enum bifrost_widen { BIFROST_WHOLE, BIFROST_H0, BIFROST_H1 };
enum bifrost_kind {
    BIFROST_ALU,
    BIFROST_NOP,
    BIFROST_SHIFT_LOW, /* FMA: LSHIFT_DOUBLE, RSHIFT_DOUBLE; what the ADD needs is in `detail` */
    BIFROST_SHIFT_HIGH,
    BIFROST_COMPARE_LOW, /* FMA: ICMPI */
    BIFROST_COMPARE_HIGH,
    BIFROST_POINTER_LOW, /* FMA: SHADDXL */
    BIFROST_POINTER_HIGH,
    BIFROST_SEGMENT_LOW, /* SEG_ADD */
    BIFROST_SEGMENT_HIGH,
    BIFROST_MULTIPLY_64, /* FMA of 64-bit clauses */
    BIFROST_ATOMIC_LOW,  /* FMA: ATOM_C; sources: low and high word of the address, and data */
    BIFROST_EXCHANGE,    /* of lanes */
    BIFROST_LOAD,
    BIFROST_STORE,
    BIFROST_ATOMIC_HIGH, /* ATOM_CX */
    BIFROST_ATOMIC,
    BIFROST_BARRIER,
    BIFROST_BRANCH, /* source 2 is the target */
    BIFROST_JUMP,
};
enum { SEGMENT_NONE = 1, SEGMENT_GROUP = 2, SEGMENT_UNIFORM = 4, SEGMENT_THREAD = 7 };
enum bifrost_condition {
    BIFROST_EQ,
    BIFROST_GT,
    BIFROST_GE,
    BIFROST_NE,
    BIFROST_LT,
    BIFROST_LE,
};

/* As ATOM_C has them; and others. */
enum bifrost_atomic {
    ATOMIC_NONE,
    ATOMIC_ADD = 2,
    ATOMIC_SMIN = 8,
    ATOMIC_SMAX,
    ATOMIC_UMIN,
    ATOMIC_UMAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_EXCHANGE = 16,    /* with the first staging register */
    ATOMIC_COMPARE_EXCHANGE, /* where the word is what is in the second one */
};

/* What an encoding is. False: nothing that is known. */
bool bifrost_fma(uint32_t word, struct bifrost_operation *operation);
bool bifrost_add(uint32_t word, struct bifrost_operation *operation);

enum {
    BIFROST_UNIFORM_BUFFERS = 256,
    VALHALL_TABLE_OF_TABLES = 62, /* its buffers are the tables */
};

struct bifrost_uniform_buffer {
    uint64_t va;
    uint32_t bytes;
};

/* Where threads keep their own memory, and uniforms; of one job. */
struct bifrost_environment {
    uint64_t thread_storage, group_storage;
    uint32_t thread_bytes; /* of a thread; 0: there is none */
    bool has_group_storage;
    const uint32_t *uniform; /* words */
    unsigned uniforms;       /* of 64 bits */
    const struct bifrost_uniform_buffer *buffer;
    unsigned buffers;
    /* Of Valhall, which names a buffer by its table, bits 31:24, and its number there: where each table's
     * buffers begin, and the end. The first buffers are the tables themselves. */
    const uint32_t *table;
    unsigned tables; /* 0: buffers are named by their number */
};

enum bifrost_message {
    MESSAGE_NONE,
    MESSAGE_LOAD,
    MESSAGE_STORE,
    MESSAGE_ATOMIC,
    MESSAGE_BARRIER,
    MESSAGE_ADDRESS, /* of a uniform buffer, to registers */
};
enum { BIFROST_END = -1 }; /* where a thread goes that ends */

/* A clause, translated. */
struct bifrost_code {
    uint64_t va;
    uint32_t first, uops;
    uint64_t next_va, target_va; /* 0: the thread ends */
    int32_t next, target;        /* numbers of clauses, or BIFROST_END */
    uint16_t slots, tuples;      /* operations: two a tuple; of Valhall both are instructions */
    bool branches;
    uint8_t message, staging, segment;
    uint8_t result; /* register of an atomic operation's result */
    struct bifrost_transfer transfer;
    uint64_t encoding;  /* of what is wrong */
    uint32_t status;    /* 0, or the exception of a thread that comes here: */
    const char *reason; /* static text; NULL with a status: the code cannot be fetched, see `fault` */
    struct mali_fault fault;
};

struct bifrost_program {
    struct bifrost_code *code; /* ascending */
    uint32_t clauses;
    struct bifrost_uop *uop;
    uint32_t uops, room;
    uint32_t *constant; /* words in slots from SLOT_CONSTANTS on */
    uint32_t constants;
    int32_t entry;                   /* number of the first clause */
    bool uses_barrier, uses_storage; /* storage of threads or groups */
    bool uses_atomics, uses_uniform_buffers, exchanges;
    uint64_t given;            /* bit i: the job puts something into register i before the start */
    struct bifrost_seen *seen; /* of each clause, what its runs showed; NULL: nothing is noted */
};

/* Translate the program at va. What is wrong with its code shows when a thread comes to it. False: the host's
 * memory is exhausted, or the program is too large; *reason says what (static text). */
bool bifrost_program_build(struct bifrost_program *program, const struct mali_memory *memory, uint64_t va,
                           const struct bifrost_environment *environment, const char **reason);
void bifrost_program_free(struct bifrost_program *program);
/* mali_bifrost_flow.c: note what a run of the program shows, false: no memory; after it, whether words that
 * the program loads, or registers that are not `given`, may decide what it accesses (false of one that is not
 * watched). Words that decide count as constants where they are few and the program does not write them: the
 * access map then has them as VGPU_ACCESS_COMMAND. */
bool bifrost_watch(struct bifrost_program *program);
bool bifrost_accesses_vary(const struct bifrost_program *program, const struct mali_memory *memory);

#endif
