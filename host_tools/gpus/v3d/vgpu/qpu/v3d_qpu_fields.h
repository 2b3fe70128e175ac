/* SPDX-License-Identifier: BSD-2-Clause */
/* What the decoders of the two encodings share. Internal to them. Sources: see v3d_qpu_decode.h. */
#ifndef GRAMOPHONE_V3D_QPU_FIELDS_H
#define GRAMOPHONE_V3D_QPU_FIELDS_H

#include "v3d_qpu_decode.h"

static inline unsigned qpu_field(uint64_t word, unsigned high, unsigned low)
{
    return (unsigned)((word >> low) & ((1ull << (high - low + 1)) - 1));
}

/* The unpacking of a source of single precision that an opcode's two bits name. */
static inline uint8_t qpu_float_unpack(unsigned code)
{
    static const uint8_t table[4] = {QPU_UNPACK_ABS, QPU_UNPACK_NONE, QPU_UNPACK_L, QPU_UNPACK_H};

    return table[code & 3];
}

/* Set the reason: what is wrong, and the bits. Returns false. */
bool qpu_refuse(const char **reason, const char *what, unsigned high, unsigned low, unsigned value);
__attribute__((format(printf, 2, 3))) bool qpu_refuse_text(const char **reason, const char *format, ...);

/* An add operation that its opcode alone names, in both encodings; QPU_OP_COUNT: none. */
uint8_t qpu_plain_add_op(unsigned op);
/* fadd and its like, and vfpack; false: another one. The order of the sources selects fadd or faddnf... */
bool qpu_decode_two_floats(unsigned op, bool swapped, struct qpu_alu *alu);
/* fmul; false: it is another mul operation. */
bool qpu_decode_fmul(unsigned op, struct qpu_alu *alu);

/* Signals by their code, in both encodings. Code 0 is none, another that is zero is reserved. */
#define QPU_SIGNALS                                                                                          \
    [1] = QPU_SIG_THRSW, [2] = QPU_SIG_LDUNIF, [3] = QPU_SIG_THRSW | QPU_SIG_LDUNIF, [4] = QPU_SIG_LDTMU,    \
    [5] = QPU_SIG_THRSW | QPU_SIG_LDTMU, [6] = QPU_SIG_LDTMU | QPU_SIG_LDUNIF,                               \
    [7] = QPU_SIG_THRSW | QPU_SIG_LDTMU | QPU_SIG_LDUNIF, [8] = QPU_SIG_LDVARY,                              \
    [9] = QPU_SIG_THRSW | QPU_SIG_LDVARY, [10] = QPU_SIG_LDVARY | QPU_SIG_LDUNIF,                            \
    [11] = QPU_SIG_THRSW | QPU_SIG_LDVARY | QPU_SIG_LDUNIF, [12] = QPU_SIG_LDUNIFRF,                         \
    [13] = QPU_SIG_THRSW | QPU_SIG_LDUNIFRF, [15] = QPU_SIG_SMALL_IMM, [16] = QPU_SIG_LDTLB,                 \
    [17] = QPU_SIG_LDTLBU, [18] = QPU_SIG_WRTMUC, [19] = QPU_SIG_THRSW | QPU_SIG_WRTMUC,                     \
    [20] = QPU_SIG_LDVARY | QPU_SIG_WRTMUC, [21] = QPU_SIG_THRSW | QPU_SIG_LDVARY | QPU_SIG_WRTMUC,          \
    [22] = QPU_SIG_UCB, [24] = QPU_SIG_LDUNIFA, [25] = QPU_SIG_LDUNIFARF

/* The signals, and both ALUs, of an instruction that is no branch: as qpu_decode(). */
struct qpu_encoding {
    uint16_t signals[32];
    bool (*alus)(uint64_t word, struct qpu_instr *instr, const char **reason);
};
extern const struct qpu_encoding qpu42_encoding, qpu71_encoding;

static inline const struct qpu_encoding *qpu_encoding_of(enum v3d_version version)
{
    return version == V3D_71 ? &qpu71_encoding : &qpu42_encoding;
}

#endif
