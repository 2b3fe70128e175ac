/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Decoder of V3D 7.1 QPU instructions. Source: Mesa 25.0.7, src/broadcom/qpu (qpu_pack.c, qpu_instr.h). Field
 * layout, high bit first, where it is not as in a V3D 4.2 (v3d_qpu_decode42.c): 23:18 raddr_c   17:12 raddr_d
 * 11:6 raddr_a   5:0 raddr_b, each a register or a small immediate The add ALU takes a and b, the mul ALU c
 * and d. Where an operation has no second source, its address (b or d) extends the opcode: bits 1:0 pack the
 * result, or are 3, and the bits above unpack the source.
 *
 * Refused beyond what Mesa refuses: what it has opcodes for, but cannot encode itself: vfmin and vfmul (the
 * places that would say how are marked as pending), a fourth unpacking of the mul ALU's fmov, packed itof and
 * utof, and absolute values as sources of roundings and conversions.
 */
#include "v3d_qpu_fields.h"

/* mov (code bits 1:0 are 3) or fmov, with its packing and unpacking; QPU_OP_COUNT: reserved. */
static uint8_t decode_move(unsigned code, struct qpu_alu *alu)
{
    static const uint8_t integer[8] = {QPU_UNPACK_NONE, QPU_UNPACK_UL, QPU_UNPACK_UH, QPU_UNPACK_IL,
                                       QPU_UNPACK_IH};
    static const uint8_t single[8] = {QPU_UNPACK_ABS, QPU_UNPACK_NONE, QPU_UNPACK_L,    QPU_UNPACK_H,
                                      QPU_UNPACK_SAT, QPU_UNPACK_NSAT, QPU_UNPACK_MAX0, 0};
    unsigned unpack = code >> 2;

    if ((code & 3) == 3) {
        alu->unpack[0] = integer[unpack & 7];
        return unpack <= 4 ? QPU_OP_MOV : QPU_OP_COUNT;
    }
    alu->pack = (uint8_t)(code & 3);
    alu->unpack[0] = single[unpack & 7];
    return unpack <= 6 ? QPU_OP_FMOV : QPU_OP_COUNT;
}

/* Opcodes 245 and 246: roundings and conversions. */
static uint8_t decode_conversion(unsigned op, unsigned code, struct qpu_alu *alu)
{
    static const uint8_t roundings[] = {QPU_OP_FROUND, QPU_OP_FTRUNC, QPU_OP_FFLOOR,
                                        QPU_OP_FCEIL,  QPU_OP_FDX,    QPU_OP_FDY};
    static const uint8_t integers[] = {QPU_OP_FTOIN, QPU_OP_FTOIZ, QPU_OP_FTOUZ, QPU_OP_FTOC};
    unsigned group = code >> 4 | (op == 246 ? 4 : 0);

    if (group == 6)
        return code == 32 ? QPU_OP_ITOF : code == 36 ? QPU_OP_UTOF : QPU_OP_COUNT;
    alu->unpack[0] = qpu_float_unpack(code >> 2);
    if (group == 7 || alu->unpack[0] == QPU_UNPACK_ABS)
        return QPU_OP_COUNT;
    if ((code & 3) == 3)
        return group < 4 ? integers[group] : QPU_OP_COUNT;
    alu->pack = (uint8_t)(code & 3);
    return roundings[group];
}

/* Opcodes 186 to 190: raddr_b, or the destination, extends the opcode. */
static uint8_t decode_extended(unsigned op, unsigned code, const struct qpu_alu *alu)
{
    static const uint8_t unary[] = {QPU_OP_NOT,   QPU_OP_NEG, QPU_OP_FLAPUSH, QPU_OP_FLBPUSH,
                                    QPU_OP_FLPOP, QPU_OP_CLZ, QPU_OP_SETMSF,  QPU_OP_SETREVF};
    static const uint8_t nullary[] = {QPU_OP_NOP,   QPU_OP_TIDX,     QPU_OP_EIDX,      QPU_OP_LR,
                                      QPU_OP_VFLA,  QPU_OP_VFLNA,    QPU_OP_VFLB,      QPU_OP_VFLNB,
                                      QPU_OP_XCD,   QPU_OP_YCD,      QPU_OP_MSF,       QPU_OP_REVF,
                                      QPU_OP_IID,   QPU_OP_SAMPID,   QPU_OP_BARRIERID, QPU_OP_TMUWT,
                                      QPU_OP_VPMWT, QPU_OP_FLAFIRST, QPU_OP_FLNAFIRST};
    static const uint8_t loads[2][3] = {{QPU_OP_LDVPMV_IN, QPU_OP_LDVPMD_IN, QPU_OP_LDVPMP},
                                        {QPU_OP_LDVPMV_OUT, QPU_OP_LDVPMD_OUT, QPU_OP_LDVPMP}};
    static const uint8_t special[] = {QPU_OP_RECIP, QPU_OP_RSQRT,  QPU_OP_EXP,    QPU_OP_LOG,
                                      QPU_OP_SIN,   QPU_OP_RSQRT2, QPU_OP_BALLOT, QPU_OP_BCASTF,
                                      QPU_OP_ALLEQ, QPU_OP_ALLFEQ};
    static const uint8_t stores[] = {QPU_OP_STVPMV, QPU_OP_STVPMD, QPU_OP_STVPMP};

    switch (op) {
    case 186: return code < sizeof unary ? unary[code] : QPU_OP_COUNT;
    case 187:
        if (code < sizeof nullary)
            return nullary[code];
        return code >= 32 && code <= 34 ? QPU_OP_FXCD : code >= 36 && code <= 38 ? QPU_OP_FYCD : QPU_OP_COUNT;
    case 188: /* the magic bit chooses between the two segments of the VPM */
        if (code < 3)
            return loads[alu->magic][code];
        return code >= 32 && code - 32 < sizeof special ? special[code - 32] : QPU_OP_COUNT;
    case 189: return alu->magic ? QPU_OP_LDVPMG_OUT : QPU_OP_LDVPMG_IN;
    default: return alu->waddr < sizeof stores ? stores[alu->waddr] : QPU_OP_COUNT;
    }
}

/* Operations of two sources that the opcode alone names, besides those of a V3D 4.2; QPU_OP_COUNT: none. */
static uint8_t plain_add_op(unsigned op)
{
    switch (op) {
    case 247: return QPU_OP_VPACK;
    case 248: return QPU_OP_V8PACK;
    case 250: return QPU_OP_V10PACK;
    case 251: return QPU_OP_V11FPACK;
    case 252: return QPU_OP_ROTQ;
    case 253: return QPU_OP_ROT;
    case 254: return QPU_OP_SHUFFLE;
    default: return qpu_plain_add_op(op);
    }
}

static bool decode_add(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    struct qpu_alu *alu = &instr->add;
    unsigned op = qpu_field(word, 31, 24), code = instr->raddr[1];
    unsigned a_code = (op >> 2) & 3, b_code = op & 3;
    /* The order of the sources selects fadd or faddnf... */
    bool swapped = (qpu_is_immediate(instr, QPU_MUX_A) ? 256u : 0) + a_code * 64 + instr->raddr[0] >
                   (qpu_is_immediate(instr, QPU_MUX_B) ? 256u : 0) + b_code * 64 + code;

    alu->magic = qpu_field(word, 44, 44);
    alu->waddr = (uint8_t)qpu_field(word, 37, 32);
    alu->mux[0] = QPU_MUX_A;
    alu->mux[1] = QPU_MUX_B;
    alu->op = plain_add_op(op);
    if (alu->op != QPU_OP_COUNT || (op < 208 && qpu_decode_two_floats(op, swapped, alu)))
        return true;
    if (op == 245 || op == 246) {
        alu->op = decode_conversion(op, code, alu);
    } else if (op == 249) {
        alu->op = decode_move(code, alu);
    } else if (op >= 186 && op <= 190) {
        alu->op = decode_extended(op, code, alu);
        if (op == 189 || op == 190 || (op == 188 && code < 2))
            alu->magic = false;
    }
    if (alu->op == QPU_OP_COUNT)
        return qpu_refuse_text(
            reason, "reserved or unknown add operation (bits 31:24 = 0x%x, raddr_b 5:0 = %u)", op, code);
    return true;
}

static bool decode_mul(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    static const uint8_t plain[16] = {
        [1] = QPU_OP_MADD, [2] = QPU_OP_MSUB, [3] = QPU_OP_UMUL24, [9] = QPU_OP_SMUL24, [10] = QPU_OP_MULTOP};
    static const uint8_t normalized[] = {QPU_OP_FTOUNORM16, QPU_OP_FTOSNORM16, QPU_OP_VFTOUNORM8,
                                         QPU_OP_VFTOSNORM8}; /* 32 to 35 */
    struct qpu_alu *alu = &instr->mul;
    unsigned op = qpu_field(word, 63, 58), code = instr->raddr[3];

    alu->magic = qpu_field(word, 45, 45);
    alu->waddr = (uint8_t)qpu_field(word, 43, 38);
    alu->mux[0] = QPU_MUX_C;
    alu->mux[1] = QPU_MUX_D;
    if (qpu_decode_fmul(op, alu))
        return true;
    alu->op = plain[op] ? plain[op] : QPU_OP_COUNT;
    if (op == 14 && code < 32)
        alu->op = decode_move(code, alu);
    else if (op == 14 && code - 32 < sizeof normalized)
        alu->op = normalized[code - 32];
    else if (op == 14 && (code == 48 || code == 49))
        alu->op = code == 48 ? QPU_OP_VFTOUNORM10LO : QPU_OP_VFTOUNORM10HI;
    else if (op == 14 && code == 63)
        alu->op = QPU_OP_NOP;
    if (alu->op == QPU_OP_COUNT)
        return qpu_refuse_text(
            reason, "reserved or unknown mul operation (bits 63:58 = 0x%x, raddr_d 17:12 = %u)", op, code);
    return true;
}

/* A small immediate that is a source has a value. */
static bool check_immediates(const struct qpu_instr *instr, const char **reason)
{
    static const uint8_t low[] = {6, 0, 18, 12}; /* lowest bit of raddr_a to raddr_d */

    for (unsigned i = 0; i < 4; i++) {
        bool is_source = i % 2 < qpu_op_sources((i < 2 ? &instr->add : &instr->mul)->op);

        if (is_source && qpu_is_immediate(instr, QPU_MUX_A + i) && instr->raddr[i] >= QPU_SMALL_IMMEDIATES)
            return qpu_refuse(reason, "reserved small immediate", low[i] + 5u, low[i], instr->raddr[i]);
    }
    return true;
}

static bool decode_alus(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    instr->raddr[0] = (uint8_t)qpu_field(word, 11, 6);
    instr->raddr[1] = (uint8_t)qpu_field(word, 5, 0);
    instr->raddr[2] = (uint8_t)qpu_field(word, 23, 18);
    instr->raddr[3] = (uint8_t)qpu_field(word, 17, 12);
    return decode_add(word, instr, reason) && decode_mul(word, instr, reason) &&
           check_immediates(instr, reason);
}

const struct qpu_encoding qpu71_encoding = {
    .signals = {QPU_SIGNALS, [14] = QPU_SIG_SMALL_IMM_A, [26] = QPU_SIG_LDTMU | QPU_SIG_WRTMUC,
                [27] = QPU_SIG_THRSW | QPU_SIG_LDTMU | QPU_SIG_WRTMUC, [30] = QPU_SIG_SMALL_IMM_C,
                [31] = QPU_SIG_SMALL_IMM_D},
    .alus = decode_alus,
};
