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

#include "access_map.h"
#include "v3d_mmu.h"
#include "v3d_qpu_decode.h"
#include "v3d_qpu_vec.h"

/* Slots: every vector that an operand can name. */
enum {
    QPU_SLOT_RF = 0,    /* rf0 to rf63 */
    QPU_SLOT_ACC = 64,  /* r0 to r5 */
    QPU_SLOT_ADD = 70,  /* result of the add ALU on its way to a magic address */
    QPU_SLOT_MUL = 71,  /* the same of the mul ALU */
    QPU_SLOT_OLD = 72,  /* 72, 73: a register's value from before this instruction */
    QPU_SLOT_VOID = 74, /* result that goes nowhere */
    QPU_SLOT_IMM = 75,  /* the small immediates */
    QPU_SLOTS = QPU_SLOT_IMM + QPU_SMALL_IMMEDIATES,
};

/*
 * TMU result FIFO: 16 vectors, shared by the threads of a QPU (Mesa, nir_to_vir.c: 16 / threads a thread).
 * TMU data queue: as many.
 */
enum { QPU_TMU_FIFO = 16, QPU_TMU_DATA = 16 };

/* Instructions that one thread may run before it counts as hung: minutes on the real GPU, which the kernel
 * driver would have reset after half a second without progress. */
#define QPU_THREAD_LIMIT (1ull << 30)

enum { QPU_TLB_ENTRIES = 64 };

/* A page that a worker used recently; it is only entered once the MMU has granted the access. */
struct qpu_page {
    uint32_t tag; /* page number + 1; 0: none */
    uint8_t *host;
    uint8_t *noted; /* its flags in the access map, or NULL: none is kept */
};

/* What the threads that one worker runs have in common. */
struct qpu_worker {
    struct v3d_mmu *mmu;
    const struct qpu_program *program;
    struct qpu_page readable[QPU_TLB_ENTRIES], writable[QPU_TLB_ENTRIES];
    uint64_t instructions, bytes_read, bytes_written;
    bool shared_memory; /* a thread extracted its workgroup's number in memory: see v3d_csd.c */
    bool faulted, fault_write;
    uint32_t fault_va;
    char error[256];
};

enum qpu_state { QPU_READY, QPU_AT_BARRIER, QPU_ENDED, QPU_FAILED };

struct qpu_thread {
    qpu_u32 slot[QPU_SLOTS];
    qpu_u32 rtop; /* high partial products, set by multop for umul24 */
    qpu_i32 flag_a, flag_b;
    qpu_u32 msf;     /* sample mask of each lane; in a compute shader not zero: the lane exists */
    qpu_u32 payload; /* rf2 at the start */
    qpu_u32 tmu_data[QPU_TMU_DATA];
    qpu_u32 tmu_fifo[QPU_TMU_FIFO];
    uint32_t tmu_data_count, tmu_fifo_head, tmu_fifo_count, tmu_fifo_limit;
    uint32_t tmu_config; /* the next access takes the low byte */

    struct qpu_worker *worker;
    uint32_t uniform_va;    /* uniform stream */
    const uint8_t *uniform; /* host address of uniform_va, or NULL: look it up */
    uint32_t unifa_va;      /* second uniform stream */
    uint32_t thread_index;
    uint32_t run_start; /* instruction at which the current straight run began, for counting */
    uint64_t instructions;
    const struct qpu_uop *branch_to; /* taken branch waiting for its delay slots, or NULL */
    const struct qpu_uop *resume;
    bool last_section; /* the next thread switch ends the thread */
    bool barrier;      /* the next thread switch waits for the supergroup */
    enum qpu_state state;
    struct qpu_labels *labels; /* of its data (v3d_qpu_flow.h), or NULL: it is not followed */
};

/* Operations of a TMU access that are not only atomic ones: a prefetch, if there are no data; a load or
 * store. */
enum { QPU_TMU_ADD = 0, QPU_TMU_REGULAR = 15 };

/* One memory access, decoded. */
struct qpu_access {
    qpu_u32 address;
    unsigned exist, lanes; /* bit i: lane i may take part; it does */
    unsigned type, operation, components;
    unsigned bytes; /* of one component */
};

/* A vector's component wraps within its 16 bytes. */
static inline uint32_t qpu_component_address(const struct qpu_access *access, unsigned lane,
                                             unsigned component)
{
    uint32_t address = access->address[lane];

    return access->components == 1 ? address : (address & ~15u) | ((address + 4 * component) & 15);
}

struct qpu_uop;

/* Run one micro-operation; returns the next one, or NULL to stop (thread->state says why). */
typedef const struct qpu_uop *qpu_run(struct qpu_thread *thread, const struct qpu_uop *uop);

struct qpu_uop {
    qpu_run *run;
    uint8_t dst, a, b; /* slots */
    uint8_t unpack_a, unpack_b, pack, cond, flag_op;
    uint32_t index; /* instruction */
    uint32_t value; /* of an ALU's: enum qpu_op; else an operand: magic address, branch target... */
};

struct qpu_program {
    uint32_t va; /* GPU address of the first instruction */
    uint32_t count;
    bool uses_barrier, uses_thread_index;
    struct qpu_instr *instr; /* count, decoded */
    char **reason;           /* count + 1: why the instruction cannot run, or NULL */
    uint32_t *first;         /* count: an instruction's first micro-operation */
    struct qpu_uop *uop;
    uint32_t uops;
    uint8_t *kinds;  /* of each micro-operation, where threads are followed (v3d_qpu_flow.c) */
    uint32_t labels; /* of the code, there */
};

/* Translate the shader at va. What is wrong with its code shows when a thread comes to it. False: the host's
 * memory is exhausted. */
bool qpu_program_build(struct qpu_program *program, struct qpu_worker *worker, uint32_t va,
                       bool single_segment);
void qpu_program_free(struct qpu_program *program);

/* Stop the thread with an error that names the instruction. Returns NULL, for a handler to return. */
const struct qpu_uop *qpu_fail(struct qpu_thread *thread, const struct qpu_uop *uop, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Stop the thread with an MMU fault. Returns NULL. */
const struct qpu_uop *qpu_fault(struct qpu_thread *thread, uint32_t va, bool write);

/* The page at va, or NULL: the MMU does not grant the access. Slow path of qpu_page(). */
const struct qpu_page *qpu_page_slow(struct qpu_worker *worker, uint32_t va, bool write);

static inline const struct qpu_page *qpu_page(struct qpu_worker *worker, uint32_t va, bool write)
{
    uint32_t number = va >> V3D_PAGE_SHIFT, entry = number % QPU_TLB_ENTRIES;
    const struct qpu_page *page = write ? &worker->writable[entry] : &worker->readable[entry];

    return page->tag == number + 1 ? page : qpu_page_slow(worker, va, write);
}

/* Note an access of `bytes` bytes at va, all in the page, where a map is kept. */
static inline void qpu_note(const struct qpu_page *page, uint32_t va, uint32_t bytes, bool write)
{
    if (page->noted)
        access_map_mark(page->noted + va % V3D_PAGE_BYTES, bytes, write);
}

/* Host address of `bytes` bytes at va, all in one page, for an access that is made now; NULL: not granted. */
static inline uint8_t *qpu_host(struct qpu_worker *worker, uint32_t va, uint32_t bytes, bool write)
{
    const struct qpu_page *page = qpu_page(worker, va, write);

    if (!page)
        return NULL;
    qpu_note(page, va, bytes, write);
    return page->host + va % V3D_PAGE_BYTES;
}

/* Lanes for which a condition holds. */
QPU_INLINE qpu_i32 qpu_condition(const struct qpu_thread *thread, uint8_t cond)
{
    if (cond == QPU_COND_ALWAYS)
        return ~(qpu_i32){0};
    qpu_i32 flag = cond == QPU_COND_IFA || cond == QPU_COND_IFNA ? thread->flag_a : thread->flag_b;
    return cond >= QPU_COND_IFNA ? ~flag : flag;
}

/* Handlers of the micro-operations, by file. */
struct qpu_alu_handlers {
    qpu_run *plain; /* no condition, packing, unpacking or flags; NULL: there is none */
    qpu_run *full;  /* NULL: the operation is not modelled */
};
struct qpu_alu_handlers qpu_alu_handlers(uint8_t op); /* v3d_qpu_alu.c */
void qpu_sfu(uint8_t op, qpu_u32 *x); /* v3d_qpu_sfu.c; RECIP, RSQRT, EXP, LOG or SIN of *x, in place */
qpu_run qpu_tmu_data, qpu_tmu_address, qpu_tmu_load, qpu_tmu_wait;                        /* v3d_qpu_tmu.c */
qpu_run qpu_write_r5, qpu_write_r5rep, qpu_write_sfu, qpu_write_unifa, qpu_write_barrier; /* v3d_qpu_exec.c */
qpu_run qpu_load_uniform, qpu_load_unifa, qpu_branch_decide, qpu_branch_commit, qpu_switch_commit;
qpu_run qpu_stop_error, qpu_stop_fault;

/* Next word of the uniform stream into *value; false after a fault. */
bool qpu_pop_uniform(struct qpu_thread *thread, uint32_t *value);

/* Run until the thread ends, reaches a barrier or fails. */
void qpu_thread_run(struct qpu_thread *thread);

#endif
