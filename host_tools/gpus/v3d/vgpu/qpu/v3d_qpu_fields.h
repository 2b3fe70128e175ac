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

/* The signals, and then both ALUs, of an instruction that is no branch: as qpu_decode(). */
struct qpu_encoding {
    bool (*signals)(uint64_t word, struct qpu_instr *instr, const char **reason);
    bool (*alus)(uint64_t word, struct qpu_instr *instr, const char **reason);
};
extern const struct qpu_encoding qpu42_encoding, qpu71_encoding;

static inline const struct qpu_encoding *qpu_encoding_of(enum v3d_version version)
{
    return version == V3D_71 ? &qpu71_encoding : &qpu42_encoding;
}

#endif
