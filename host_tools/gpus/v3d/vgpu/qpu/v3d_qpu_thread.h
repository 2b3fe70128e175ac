/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One QPU thread (16 lanes) and the micro-operations it runs. Internal to the interpreter.
 *
 * A shader is translated once a dispatch (v3d_qpu_program.c): every instruction word becomes one or a few
 * micro-operations with their operands resolved to slots, so that running them needs no decoding.
 * Sources: see v3d_qpu_exec.c and v3d_qpu_decode.h.
 */
#ifndef GRAMOPHONE_V3D_QPU_THREAD_H
#define GRAMOPHONE_V3D_QPU_THREAD_H

#include "v3d_qpu_decode.h"
#include "v3d_qpu_memory.h"
#include "v3d_qpu_vec.h"

/* Slots: every vector that an operand can name. */
enum {
    QPU_SLOT_IMM = 0,                                  /* the small immediates */
    QPU_SLOT_RF = QPU_SLOT_IMM + QPU_SMALL_IMMEDIATES, /* rf0 to rf63 */
    QPU_SLOT_ACC = QPU_SLOT_RF + 64,                   /* r0 to r5 */
    QPU_SLOT_ADD = QPU_SLOT_ACC + 6, /* result of the add ALU on its way to a magic address */
    QPU_SLOT_MUL,                    /* the same of the mul ALU */
    QPU_SLOT_OLD,                    /* a register's value from before this instruction */
    QPU_SLOT_ROTATED,                /* what the mul ALU takes where the lanes are rotated */
    QPU_SLOT_VOID,                   /* result that goes nowhere */
    QPU_SLOTS,
};

/* The register with workgroup x and y in which a thread starts: rf0, of a V3D 7.1 rf3. The rest of the
 * payload is in rf2. (Mesa 22.3.6 and 25.0.7, nir_to_vir.c: cs_payload.) */
static inline unsigned qpu_payload_slot(enum v3d_version version)
{
    return QPU_SLOT_RF + v3d_traits(version)->payload_register;
}

/*
 * TMU result FIFO: 16 vectors, shared by the threads of a QPU (Mesa, nir_to_vir.c: 16 / threads a thread).
 * TMU data queue: as many.
 */
enum { QPU_TMU_FIFO = 16, QPU_TMU_DATA = 16 };

/* `value` of a micro-operation that starts an access: its configuration comes from the uniform stream; the
 * same instruction takes a result, which makes room for one; the thread may read again what it stores, and it
 * is no part of what the job is (v3d_qpu_own.c). */
enum { QPU_TMU_CONFIGURED = 1, QPU_TMU_TAKES = 2, QPU_TMU_OWN = 4 };

/* Instructions that one thread may run before it counts as hung: half a minute on the real GPU, which the
 * kernel driver would have reset after half a second without progress. A dispatch has a limit too
 * (v3d_csd.c), but only here is it known where a thread hangs. */
#define QPU_THREAD_LIMIT (1ull << 30)

/* What the threads that one worker runs have in common. */
struct qpu_worker {
    struct qpu_memory memory;
    const struct qpu_program *program;
    uint64_t instructions, bytes_read, bytes_written;
    uint64_t thread_limit; /* instructions that a thread may run */
    uint8_t *stored;       /* words that have been written, a bit each, or NULL (v3d_qpu_stale.c) */
    struct qpu_own *own;   /* words by the thread that has written them, or NULL (v3d_qpu_own.c) */
    uint64_t started;      /* threads */
    bool shared_memory;    /* a thread extracted its workgroup's number in memory: see v3d_csd.c */
    bool faulted, fault_write;
    uint32_t fault_va;
    char error[256];
};

enum qpu_state { QPU_READY, QPU_AT_BARRIER, QPU_ENDED, QPU_FAILED };

/* Where a result of the TMU comes from. */
struct qpu_taken {
    qpu_u32 address;
    unsigned lanes, bytes;
};

struct qpu_thread {
    /* What is in these before something is put there does not show. */
    qpu_u32 tmu_data[QPU_TMU_DATA];
    qpu_u32 tmu_fifo[QPU_TMU_FIFO];
    struct qpu_taken tmu_taken[QPU_TMU_FIFO]; /* of the same; only where tmu_decides of the program */
    qpu_u32 slot[QPU_SLOTS];
    qpu_u32 rtop; /* high partial products, set by multop for umul24 */
    qpu_i32 flag_a, flag_b;
    qpu_u32 msf;       /* sample mask of each lane; in a compute shader not zero: the lane exists */
    unsigned exist;    /* bit i: lane i has one; set by qpu_set_msf() */
    qpu_u32 payload;   /* rf2 at the start */
    uint32_t unifa_va; /* second uniform stream */
    uint32_t thread_index;
    uint64_t number; /* of the threads that the worker has started, from 1 */
    struct qpu_worker *worker;
    struct qpu_labels *labels; /* of its data (v3d_qpu_flow.h), or NULL: it is not followed */

    /* Of those that follow, which must be the last, a gang's leader has what is true of all its threads. */
    unsigned gang; /* how many threads run together: this one and those behind it (v3d_qpu_gang.h) */
    uint32_t tmu_data_count, tmu_fifo_head, tmu_fifo_count, tmu_fifo_limit;
    uint32_t tmu_config; /* the next access takes the low byte */
    uint32_t uniform_va; /* uniform stream */
    uint32_t link;       /* the link register: where a subroutine returns to; every thread has it */
    uint32_t run_start;  /* instruction at which the current straight run began, for counting */
    uint64_t instructions;
    const struct qpu_uop *branch_to; /* taken branch waiting for its delay slots, or NULL */
    const struct qpu_uop *resume;
    bool last_section; /* the next thread switch ends the thread */
    bool barrier;      /* the next thread switch waits for the supergroup */
    bool takes_turns;  /* every thread switch lets the others run */
    enum qpu_state state;
};

struct qpu_uop;

/* Run one micro-operation, and others after it, for a gang, of which `thread` is the leader; returns the next
 * one, or NULL to stop (thread->state says why). */
typedef const struct qpu_uop *qpu_run(struct qpu_thread *thread, const struct qpu_uop *uop);

struct qpu_uop {
    qpu_run *run;
    uint8_t dst, a, b; /* slots; b of a TMU access: its site (v3d_qpu_memory.h) */
    uint8_t unpack_a, unpack_b, pack, cond, flag_op;
    uint32_t index; /* instruction */
    uint32_t value; /* of an ALU's: enum qpu_op; else an operand: magic address, branch target... */
};

/*
 * How a handler ends: with a call of the next one. Compilers make that a jump, and as each handler has its
 * own, the host's processor foresees where they go; where one does not (without optimization), no more calls
 * are nested than there are micro-operations from a branch to the next, which returns.
 */
#define QPU_GO_ON(thread, uop) return (uop)[1].run((thread), (uop) + 1)

struct qpu_program {
    enum v3d_version version;
    uint32_t va; /* GPU address of the first instruction */
    uint32_t count;
    bool uses_barrier, uses_thread_index;
    bool checks_nan;         /* v3d_qpu_nan.c */
    bool moves_uniforms;     /* to where the program says (v3d_qpu_stale.c) */
    bool tmu_decides;        /* what the TMU loads may decide what is accessed (v3d_qpu_decide.c) */
    struct qpu_instr *instr; /* count, decoded */
    char **reason;           /* count + 1: why the instruction cannot run, or NULL */
    uint32_t *first;         /* count: an instruction's first micro-operation */
    struct qpu_uop *uop;
    uint32_t uops;
    struct qpu_followed *followed; /* micro-operations where threads are followed (v3d_qpu_flow.c), or NULL */
    uint32_t labels;               /* of the code, there */
};

/* Translate the shader at va. What is wrong with its code shows when a thread comes to it; with checks_nan so
 * does a NaN. False: the host's memory is exhausted. */
bool qpu_program_build(struct qpu_program *program, struct qpu_worker *worker, enum v3d_version version,
                       uint32_t va, bool single_segment, bool checks_nan);
void qpu_program_free(struct qpu_program *program);

/* Whether a thread may read what it starts with of its workgroup. */
bool qpu_reads_payload(const struct qpu_program *program); /* v3d_qpu_payload.c */

/* Keep from now on which words a worker writes. False: out of memory. */
bool qpu_keep_stored(struct qpu_worker *worker); /* v3d_qpu_stale.c */

/* While an access map is kept: make loads whose words may decide what the program accesses mark these words.
 * False: there may be others. */
bool qpu_mark_commands(struct qpu_program *program); /* v3d_qpu_decide.c */

/* Stop the thread with an error that names the instruction. Returns NULL, for a handler to return. */
const struct qpu_uop *qpu_fail(struct qpu_thread *thread, const struct qpu_uop *uop, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stop the thread with an MMU fault. Returns NULL. */
const struct qpu_uop *qpu_fault(struct qpu_thread *thread, uint32_t va, bool write);

enum { QPU_ROTATE_BY_R5 = UINT8_MAX };

/* The lane that a rotation by so many lanes brings to this one; in quads: of its own quad. */
QPU_INLINE unsigned qpu_rotated_from(unsigned lane, unsigned by, bool in_quads)
{
    return in_quads ? (lane & ~3u) | ((lane - by) & 3) : (lane - by) % QPU_LANES;
}

/* Lanes for which a condition other than QPU_COND_ALWAYS holds. */
QPU_INLINE qpu_i32 qpu_flag(const struct qpu_thread *thread, uint8_t cond)
{
    const qpu_i32 *flag = cond == QPU_COND_IFA || cond == QPU_COND_IFNA ? &thread->flag_a : &thread->flag_b;

    return *flag ^ -(qpu_i32)qpu_splat(cond >= QPU_COND_IFNA);
}

QPU_INLINE qpu_i32 qpu_condition(const struct qpu_thread *thread, uint8_t cond)
{
    if (cond == QPU_COND_ALWAYS)
        return ~(qpu_i32){0};
    return qpu_flag(thread, cond);
}

/* The same, lane i in bit i. */
static inline unsigned qpu_condition_bits(const struct qpu_thread *thread, uint8_t cond)
{
    return cond == QPU_COND_ALWAYS ? (1u << QPU_LANES) - 1 : qpu_mask_bits(qpu_flag(thread, cond));
}

static inline void qpu_set_msf(struct qpu_thread *thread, const qpu_u32 *msf)
{
    thread->msf = *msf;
    thread->exist = qpu_mask_bits(*msf != 0);
}

/* All lanes of the quads that have one of these. */
static inline unsigned qpu_quads_with(unsigned lanes)
{
    lanes |= lanes >> 1;
    return ((lanes | lanes >> 2) & 0x1111) * 15;
}

/* Handlers of the micro-operations, by file. */
enum qpu_variant {
    QPU_PLAIN,       /* none of what follows */
    QPU_CONDITIONAL, /* a condition only */
    QPU_FLAGS,       /* flags only */
    QPU_FULL,        /* all of condition, packing, unpacking and flags, or none */
    QPU_VARIANTS
};
struct qpu_alu_handlers {
    qpu_run *run[QPU_VARIANTS]; /* NULL: use QPU_FULL; that too: the operation is not modelled */
};
const struct qpu_alu_handlers *qpu_alu_handlers(uint8_t op); /* v3d_qpu_alu.c */
void qpu_sfu(uint8_t op, qpu_u32 *x); /* v3d_qpu_sfu.c; RECIP, RSQRT, RSQRT2, EXP, LOG or SIN of *x */
qpu_run qpu_tmu_data, qpu_tmu_address, qpu_tmu_load, qpu_tmu_wait, qpu_tmu_configure; /* v3d_qpu_tmu.c */
qpu_run qpu_check_nan;                                                                /* v3d_qpu_nan.c */
qpu_run qpu_check_uniform;                                                            /* v3d_qpu_stale.c */
qpu_run qpu_write_r5, qpu_write_r5rep, qpu_write_sfu, qpu_write_unifa, qpu_write_barrier; /* v3d_qpu_exec.c */
qpu_run qpu_rotate;
qpu_run qpu_load_uniform, qpu_load_unifa, qpu_branch_decide, qpu_branch_commit, qpu_switch_commit;
qpu_run qpu_stop_error, qpu_stop_fault;

/* Next word of a gang's uniform stream into *value; false after a fault. */
bool qpu_pop_uniform(struct qpu_thread *thread, uint32_t *value);
bool qpu_branch_taken(const struct qpu_thread *thread,
                      const struct qpu_branch *branch); /* as its flags are now */

/* Run until the gang ends, reaches a barrier or fails. It may have become smaller then. */
void qpu_thread_run(struct qpu_thread *thread);

#endif
