/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decoder of QPU instructions: one 64-bit word to its meaning. Used by the interpreter and by the
 * disassembler.
 *
 * The encoding has no public specification; the facts here (field positions, opcode numbers, the tables of
 * signals and conditions) were read in Mesa 22.3.6, for the V3D 7.1 in Mesa 25.0.7,
 * src/broadcom/qpu/qpu_pack.c and qpu_instr.h.
 */
#ifndef GRAMOPHONE_V3D_QPU_DECODE_H
#define GRAMOPHONE_V3D_QPU_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "v3d_version.h"

/*
 * Operations: X(identifier, mnemonic, sources, has a destination). The first list is the add ALU's, the
 * second the mul ALU's; add and sub exist in both.
 */
#define QPU_ADD_OPS(X)                                                                                       \
    X(NOP, "nop", 0, 0)                                                                                      \
    X(FADD, "fadd", 2, 1)                                                                                    \
    X(FADDNF, "faddnf", 2, 1)                                                                                \
    X(FSUB, "fsub", 2, 1)                                                                                    \
    X(FMIN, "fmin", 2, 1)                                                                                    \
    X(FMAX, "fmax", 2, 1)                                                                                    \
    X(FCMP, "fcmp", 2, 1)                                                                                    \
    X(VFPACK, "vfpack", 2, 1)                                                                                \
    X(VFMIN, "vfmin", 2, 1)                                                                                  \
    X(VFMAX, "vfmax", 2, 1)                                                                                  \
    X(ADD, "add", 2, 1)                                                                                      \
    X(SUB, "sub", 2, 1)                                                                                      \
    X(MIN, "min", 2, 1)                                                                                      \
    X(MAX, "max", 2, 1)                                                                                      \
    X(UMIN, "umin", 2, 1)                                                                                    \
    X(UMAX, "umax", 2, 1)                                                                                    \
    X(SHL, "shl", 2, 1)                                                                                      \
    X(SHR, "shr", 2, 1)                                                                                      \
    X(ASR, "asr", 2, 1)                                                                                      \
    X(ROR, "ror", 2, 1)                                                                                      \
    X(AND, "and", 2, 1)                                                                                      \
    X(OR, "or", 2, 1)                                                                                        \
    X(XOR, "xor", 2, 1)                                                                                      \
    X(VADD, "vadd", 2, 1)                                                                                    \
    X(VSUB, "vsub", 2, 1)                                                                                    \
    X(NOT, "not", 1, 1)                                                                                      \
    X(NEG, "neg", 1, 1)                                                                                      \
    X(CLZ, "clz", 1, 1)                                                                                      \
    X(ITOF, "itof", 1, 1)                                                                                    \
    X(UTOF, "utof", 1, 1)                                                                                    \
    X(FTOIN, "ftoin", 1, 1)                                                                                  \
    X(FTOIZ, "ftoiz", 1, 1)                                                                                  \
    X(FTOUZ, "ftouz", 1, 1)                                                                                  \
    X(FTOC, "ftoc", 1, 1)                                                                                    \
    X(FROUND, "fround", 1, 1)                                                                                \
    X(FTRUNC, "ftrunc", 1, 1)                                                                                \
    X(FFLOOR, "ffloor", 1, 1)                                                                                \
    X(FCEIL, "fceil", 1, 1)                                                                                  \
    X(FDX, "fdx", 1, 1)                                                                                      \
    X(FDY, "fdy", 1, 1)                                                                                      \
    X(RECIP, "recip", 1, 1)                                                                                  \
    X(RSQRT, "rsqrt", 1, 1)                                                                                  \
    X(EXP, "exp", 1, 1)                                                                                      \
    X(LOG, "log", 1, 1)                                                                                      \
    X(SIN, "sin", 1, 1)                                                                                      \
    X(RSQRT2, "rsqrt2", 1, 1)                                                                                \
    X(FLAPUSH, "flapush", 1, 1)                                                                              \
    X(FLBPUSH, "flbpush", 1, 1)                                                                              \
    X(FLPOP, "flpop", 1, 1)                                                                                  \
    X(SETMSF, "setmsf", 1, 1)                                                                                \
    X(SETREVF, "setrevf", 1, 1)                                                                              \
    X(TIDX, "tidx", 0, 1)                                                                                    \
    X(EIDX, "eidx", 0, 1)                                                                                    \
    X(LR, "lr", 0, 1)                                                                                        \
    X(VFLA, "vfla", 0, 1)                                                                                    \
    X(VFLNA, "vflna", 0, 1)                                                                                  \
    X(VFLB, "vflb", 0, 1)                                                                                    \
    X(VFLNB, "vflnb", 0, 1)                                                                                  \
    X(FXCD, "fxcd", 0, 1)                                                                                    \
    X(XCD, "xcd", 0, 1)                                                                                      \
    X(FYCD, "fycd", 0, 1)                                                                                    \
    X(YCD, "ycd", 0, 1)                                                                                      \
    X(MSF, "msf", 0, 1)                                                                                      \
    X(REVF, "revf", 0, 1)                                                                                    \
    X(IID, "iid", 0, 1)                                                                                      \
    X(SAMPID, "sampid", 0, 1)                                                                                \
    X(BARRIERID, "barrierid", 0, 1)                                                                          \
    X(TMUWT, "tmuwt", 0, 1)                                                                                  \
    X(VPMWT, "vpmwt", 0, 1)                                                                                  \
    X(FLAFIRST, "flafirst", 0, 1)                                                                            \
    X(FLNAFIRST, "flnafirst", 0, 1)                                                                          \
    X(LDVPMV_IN, "ldvpmv_in", 1, 1)                                                                          \
    X(LDVPMV_OUT, "ldvpmv_out", 1, 1)                                                                        \
    X(LDVPMD_IN, "ldvpmd_in", 1, 1)                                                                          \
    X(LDVPMD_OUT, "ldvpmd_out", 1, 1)                                                                        \
    X(LDVPMP, "ldvpmp", 1, 1)                                                                                \
    X(LDVPMG_IN, "ldvpmg_in", 2, 1)                                                                          \
    X(LDVPMG_OUT, "ldvpmg_out", 2, 1)                                                                        \
    X(STVPMV, "stvpmv", 2, 0)                                                                                \
    X(STVPMD, "stvpmd", 2, 0)                                                                                \
    X(STVPMP, "stvpmp", 2, 0)

#define QPU_MUL_OPS(X)                                                                                       \
    X(MADD, "add", 2, 1)                                                                                     \
    X(MSUB, "sub", 2, 1)                                                                                     \
    X(UMUL24, "umul24", 2, 1)                                                                                \
    X(SMUL24, "smul24", 2, 1)                                                                                \
    X(MULTOP, "multop", 2, 1)                                                                                \
    X(VFMUL, "vfmul", 2, 1)                                                                                  \
    X(FMUL, "fmul", 2, 1)                                                                                    \
    X(FMOV, "fmov", 1, 1)                                                                                    \
    X(MOV, "mov", 1, 1)

/* What only the V3D 7.1 has. Its add ALU has the mul ALU's mov and fmov, too. */
#define QPU_ADD_OPS_71(X)                                                                                    \
    X(VPACK, "vpack", 2, 1)                                                                                  \
    X(V8PACK, "v8pack", 2, 1)                                                                                \
    X(V10PACK, "v10pack", 2, 1)                                                                              \
    X(V11FPACK, "v11fpack", 2, 1)                                                                            \
    X(BALLOT, "ballot", 1, 1)                                                                                \
    X(BCASTF, "bcastf", 1, 1)                                                                                \
    X(ALLEQ, "alleq", 1, 1)                                                                                  \
    X(ALLFEQ, "allfeq", 1, 1)                                                                                \
    X(ROTQ, "rotq", 2, 1)                                                                                    \
    X(ROT, "rot", 2, 1)                                                                                      \
    X(SHUFFLE, "shuffle", 2, 1)

#define QPU_MUL_OPS_71(X)                                                                                    \
    X(FTOUNORM16, "ftounorm16", 1, 1)                                                                        \
    X(FTOSNORM16, "ftosnorm16", 1, 1)                                                                        \
    X(VFTOUNORM8, "vftounorm8", 1, 1)                                                                        \
    X(VFTOSNORM8, "vftosnorm8", 1, 1)                                                                        \
    X(VFTOUNORM10LO, "vftounorm10lo", 1, 1)                                                                  \
    X(VFTOUNORM10HI, "vftounorm10hi", 1, 1)

#define QPU_OPS(X) QPU_ADD_OPS(X) QPU_MUL_OPS(X) QPU_ADD_OPS_71(X) QPU_MUL_OPS_71(X)

enum qpu_op {
#define X(id, name, sources, destination) QPU_OP_##id,
    QPU_OPS(X)
#undef X
        QPU_OP_COUNT
};

/* Which flags an operation takes as operands: none, A or B. */
enum qpu_flags_read { QPU_READS_NO_FLAG, QPU_READS_FLAG_A, QPU_READS_FLAG_B };
enum qpu_flags_read qpu_flag_reads(uint8_t op);

/* Signals, as a set of bits. */
enum {
    QPU_SIG_THRSW = 1 << 0,
    QPU_SIG_LDUNIF = 1 << 1,
    QPU_SIG_LDUNIFA = 1 << 2,
    QPU_SIG_LDUNIFRF = 1 << 3,
    QPU_SIG_LDUNIFARF = 1 << 4,
    QPU_SIG_LDTMU = 1 << 5,
    QPU_SIG_LDVARY = 1 << 6,
    QPU_SIG_LDTLB = 1 << 7,
    QPU_SIG_LDTLBU = 1 << 8,
    QPU_SIG_SMALL_IMM = 1 << 9, /* in raddr_b */
    QPU_SIG_UCB = 1 << 10,
    QPU_SIG_ROT = 1 << 11,
    QPU_SIG_WRTMUC = 1 << 12,
    QPU_SIG_SMALL_IMM_A = 1 << 13,
    QPU_SIG_SMALL_IMM_C = 1 << 14,
    QPU_SIG_SMALL_IMM_D = 1 << 15,
    /* Signals that write a register; the instruction's condition field then holds its address. */
    QPU_SIG_ADDRESSED = QPU_SIG_LDUNIFRF | QPU_SIG_LDUNIFARF | QPU_SIG_LDTMU | QPU_SIG_LDVARY |
                        QPU_SIG_LDTLB | QPU_SIG_LDTLBU,
};

enum qpu_cond { QPU_COND_ALWAYS, QPU_COND_IFA, QPU_COND_IFB, QPU_COND_IFNA, QPU_COND_IFNB };

/*
 * What an operation does to the flags. A push sets B to the old A and A to the new condition (zero, negative,
 * carry). An update combines A with the condition; the twelve are numbered as encoded: for each of z, n and
 * c: and, and-not, then nor of the inverse / nor (z: nornz, norz; n: nornn, norn; c: nornc, norc).
 */
enum qpu_flag_op {
    QPU_FLAG_NONE,
    QPU_FLAG_PUSHZ,
    QPU_FLAG_PUSHN,
    QPU_FLAG_PUSHC,
    QPU_FLAG_ANDZ,
    QPU_FLAG_ANDNZ,
    QPU_FLAG_NORNZ,
    QPU_FLAG_NORZ,
    QPU_FLAG_ANDN,
    QPU_FLAG_ANDNN,
    QPU_FLAG_NORNN,
    QPU_FLAG_NORN,
    QPU_FLAG_ANDC,
    QPU_FLAG_ANDNC,
    QPU_FLAG_NORNC,
    QPU_FLAG_NORC
};

enum qpu_pack { QPU_PACK_NONE, QPU_PACK_L, QPU_PACK_H };

enum qpu_unpack {
    QPU_UNPACK_NONE,
    QPU_UNPACK_ABS,
    QPU_UNPACK_L,   /* low half, half to single */
    QPU_UNPACK_H,   /* high half, half to single */
    QPU_UNPACK_FF,  /* single to half, in both halves */
    QPU_UNPACK_LL,  /* low half in both halves */
    QPU_UNPACK_HH,  /* high half in both halves */
    QPU_UNPACK_SWP, /* halves exchanged */
    /* of a V3D 7.1 */
    QPU_UNPACK_SAT,  /* not below 0, not above 1 */
    QPU_UNPACK_NSAT, /* not below -1, not above 1 */
    QPU_UNPACK_MAX0, /* not below 0 */
    QPU_UNPACK_UL,   /* low half, 16-bit unsigned integer to 32 bits */
    QPU_UNPACK_UH,   /* high half */
    QPU_UNPACK_IL,   /* the same, signed */
    QPU_UNPACK_IH,
};

/* Write addresses that are not the register file ("magic"). 0 to 5 are the accumulators, which a V3D 7.1 has
 * not: there 0 to 4 and the special function unit's, 19 to 24, are reserved, 5 is "quad" and 55 "rep". */
enum qpu_magic {
    QPU_MAGIC_R4 = 4,
    QPU_MAGIC_R5 = 5,
    QPU_MAGIC_NOP = 6,
    QPU_MAGIC_TLB = 7,
    QPU_MAGIC_TLBU = 8,
    QPU_MAGIC_UNIFA = 9,
    QPU_MAGIC_TMUL = 10,
    QPU_MAGIC_TMUD = 11,
    QPU_MAGIC_TMUA = 12,
    QPU_MAGIC_TMUAU = 13,
    QPU_MAGIC_VPM = 14,
    QPU_MAGIC_VPMU = 15,
    QPU_MAGIC_SYNC = 16,
    QPU_MAGIC_SYNCU = 17,
    QPU_MAGIC_SYNCB = 18,
    QPU_MAGIC_RECIP = 19,
    QPU_MAGIC_RSQRT = 20,
    QPU_MAGIC_EXP = 21,
    QPU_MAGIC_LOG = 22,
    QPU_MAGIC_SIN = 23,
    QPU_MAGIC_RSQRT2 = 24,
    QPU_MAGIC_TMUC = 32,
    QPU_MAGIC_TMUHSLOD = 46,
    QPU_MAGIC_R5REP = 55,
};

/* A source: 0 to 5 an accumulator, A to D what raddr[0] to raddr[3] name. */
enum { QPU_MUX_A = 6, QPU_MUX_B, QPU_MUX_C, QPU_MUX_D };

struct qpu_alu {
    uint8_t op;     /* enum qpu_op; QPU_OP_NOP: this ALU is idle */
    uint8_t mux[2]; /* sources */
    uint8_t unpack[2];
    uint8_t pack;
    uint8_t waddr;
    bool magic; /* waddr is an enum qpu_magic, not a register-file address */
    uint8_t cond;
    uint8_t flag_op;
};

enum qpu_branch_cond {
    QPU_BRANCH_ALWAYS,
    QPU_BRANCH_A0,
    QPU_BRANCH_NA0,
    QPU_BRANCH_ALLA,
    QPU_BRANCH_ANYNA,
    QPU_BRANCH_ANYA,
    QPU_BRANCH_ALLNA
};

/* Which lanes do not count for a branch condition: none, lanes (P) or quads (Q) with an empty sample mask. */
enum qpu_msfign { QPU_MSFIGN_NONE, QPU_MSFIGN_P, QPU_MSFIGN_Q };

enum qpu_branch_dest { QPU_DEST_ABSOLUTE, QPU_DEST_RELATIVE, QPU_DEST_LINK, QPU_DEST_REGFILE };

struct qpu_branch {
    uint8_t cond, msfign, destination;
    bool uniforms;               /* the uniform stream moves too */
    uint8_t uniform_destination; /* valid with uniforms */
    bool links;                  /* the link register takes the address behind the delay slots */
    uint8_t raddr_a;
    int32_t offset;
};

struct qpu_instr {
    uint64_t word;
    enum v3d_version version;
    bool is_branch;
    uint16_t signals;
    uint8_t sig_addr;
    bool sig_magic;
    uint8_t raddr[4]; /* a and b; of a V3D 7.1 also c and d */
    struct qpu_alu add, mul;
    struct qpu_branch branch;
};

/*
 * Decode one word. False: reserved or unknown; *reason then names the field and the bits (valid until the
 * next failing call on this thread), and *instr is not meaningful.
 */
bool qpu_decode(enum v3d_version version, uint64_t word, struct qpu_instr *instr, const char **reason);

/* Whether a source from QPU_MUX_A on is a small immediate. */
bool qpu_is_immediate(const struct qpu_instr *instr, unsigned mux);

const char *qpu_op_name(uint8_t op);
unsigned qpu_op_sources(uint8_t op);
bool qpu_op_has_destination(uint8_t op);

/* Name of a magic write address, or NULL when it is reserved. */
const char *qpu_magic_name(enum v3d_version version, uint8_t waddr);

/* The value of small immediate `code` (0 to 47). */
uint32_t qpu_small_immediate(uint8_t code);
enum { QPU_SMALL_IMMEDIATES = 48 };

/* Write the instruction in readable form into text; returns what snprintf would. */
int qpu_disassemble(const struct qpu_instr *instr, char *text, size_t size);

/* For a single word: its text, or, when false is returned, why it is not an instruction. */
bool v3d_qpu_describe(enum v3d_version version, uint64_t word, char *text, size_t size);

#endif
