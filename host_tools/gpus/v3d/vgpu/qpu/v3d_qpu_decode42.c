/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoder of V3D 4.2 QPU instructions. Source: Mesa 22.3.6, src/broadcom/qpu (qpu_pack.c, qpu_instr.h). Field
 * layout, high bit first:
 *   63:58 mul op   57:53 signal   52:46 condition or signal address   45 mul magic   44 add magic
 *   43:38 mul destination   37:32 add destination   31:24 add op   23:21 mul b   20:18 mul a
 *   17:15 add b   14:12 add a   11:6 raddr_a   5:0 raddr_b or small immediate */
#include "v3d_qpu_fields.h"

static uint8_t half_unpack(unsigned code)
{
    static const uint8_t table[5] = {QPU_UNPACK_NONE, QPU_UNPACK_FF, QPU_UNPACK_LL, QPU_UNPACK_HH,
                                     QPU_UNPACK_SWP};

    return table[code];
}

/* Opcodes 186 to 189 and 248: the b (and a) source fields extend the opcode. */
static uint8_t extended_add_op(unsigned op, unsigned a, unsigned b, bool magic, unsigned waddr)
{
    static const uint8_t unary[8] = {QPU_OP_NOT,   QPU_OP_NEG,   QPU_OP_FLAPUSH, QPU_OP_FLBPUSH,
                                     QPU_OP_FLPOP, QPU_OP_RECIP, QPU_OP_SETMSF,  QPU_OP_SETREVF};
    static const uint8_t nullary[4][8] = {
        {QPU_OP_NOP, QPU_OP_TIDX, QPU_OP_EIDX, QPU_OP_LR, QPU_OP_VFLA, QPU_OP_VFLNA, QPU_OP_VFLB,
         QPU_OP_VFLNB},
        {QPU_OP_FXCD, QPU_OP_FXCD, QPU_OP_FXCD, QPU_OP_XCD, QPU_OP_FYCD, QPU_OP_FYCD, QPU_OP_FYCD,
         QPU_OP_YCD},
        {QPU_OP_MSF, QPU_OP_REVF, QPU_OP_IID, QPU_OP_SAMPID, QPU_OP_BARRIERID, QPU_OP_TMUWT, QPU_OP_VPMWT,
         QPU_OP_FLAFIRST},
        {QPU_OP_FLNAFIRST, QPU_OP_COUNT, QPU_OP_COUNT, QPU_OP_COUNT, QPU_OP_COUNT, QPU_OP_COUNT, QPU_OP_COUNT,
         QPU_OP_COUNT},
    };
    static const uint8_t special[8] = {QPU_OP_LDVPMV_IN, QPU_OP_LDVPMD_IN, QPU_OP_LDVPMP, QPU_OP_RSQRT,
                                       QPU_OP_EXP,       QPU_OP_LOG,       QPU_OP_SIN,    QPU_OP_RSQRT2};

    switch (op) {
    case 186: return unary[b];
    case 187: return b < 4 ? nullary[b][a] : QPU_OP_COUNT;
    case 188: /* the magic bit chooses between the two segments of the VPM */
        if (magic && b == 0)
            return QPU_OP_LDVPMV_OUT;
        if (magic && b == 1)
            return QPU_OP_LDVPMD_OUT;
        return special[b];
    case 189: return magic ? QPU_OP_LDVPMG_OUT : QPU_OP_LDVPMG_IN;
    case 248:
        return waddr == 0   ? QPU_OP_STVPMV
               : waddr == 1 ? QPU_OP_STVPMD
               : waddr == 2 ? QPU_OP_STVPMP
                            : QPU_OP_COUNT;
    default: return QPU_OP_COUNT;
    }
}

/* Opcodes 245 to 255: conversions; opcode bits 3:2 unpack the source, b selects the
 * operation and the packing. */
static uint8_t conversion_op(unsigned op, unsigned b, uint8_t *pack)
{
    static const uint8_t groups[4][3] = {
        {QPU_OP_ITOF, QPU_OP_CLZ, QPU_OP_UTOF}, /* opcode 252 only */
        {QPU_OP_FROUND, QPU_OP_FTOIN, QPU_OP_FTRUNC},
        {QPU_OP_FFLOOR, QPU_OP_FTOUZ, QPU_OP_FCEIL},
        {QPU_OP_FDX, QPU_OP_COUNT, QPU_OP_FDY},
    };
    unsigned group = op & 3;

    if (b == 7)
        return group == 1 ? QPU_OP_FTOIZ : group == 2 ? QPU_OP_FTOC : QPU_OP_COUNT;
    if (b != 3 && group != 0)
        *pack = (uint8_t)(b & 3);
    return groups[group][b < 3 ? 0 : b == 3 ? 1 : 2];
}

static bool decode_add(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    struct qpu_alu *alu = &instr->add;
    unsigned op = qpu_field(word, 31, 24), a = qpu_field(word, 14, 12), b = qpu_field(word, 17, 15);
    unsigned a_code = (op >> 2) & 3, b_code = op & 3;
    bool swapped = a_code * 8 + a > b_code * 8 + b; /* the order of the sources selects fadd or faddnf... */

    alu->magic = qpu_field(word, 44, 44);
    alu->waddr = (uint8_t)qpu_field(word, 37, 32);
    alu->mux[0] = (uint8_t)a;
    alu->mux[1] = (uint8_t)b;
    alu->op = qpu_plain_add_op(op);
    if (alu->op != QPU_OP_COUNT || qpu_decode_two_floats(op, swapped, alu))
        return true;
    if ((op >= 176 && op <= 180) || (op >= 240 && op <= 244)) {
        alu->op = op < 240 ? QPU_OP_VFMIN : QPU_OP_VFMAX;
        alu->unpack[0] = half_unpack(op & 7);
    } else if (op == 252 || (op >= 245 && b_code != 0)) {
        alu->op = conversion_op(op, b, &alu->pack);
        if (op != 252)
            alu->unpack[0] = qpu_float_unpack(a_code);
        if (op == 252 && b == 7)
            alu->op = QPU_OP_COUNT;
    } else {
        alu->op = extended_add_op(op, a, b, alu->magic, alu->waddr);
        if (op == 188 && b < 2)
            alu->magic = false;
        if (op == 189 || op == 248)
            alu->magic = false;
    }
    if (alu->op == QPU_OP_COUNT) {
        return qpu_refuse_text(
            reason, "reserved add operation (bits 31:24 = 0x%x, b 17:15 = %u, a 14:12 = %u)", op, b, a);
    }
    return true;
}

static bool decode_mul(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    static const uint8_t plain[16] = {
        [1] = QPU_OP_MADD,   [2] = QPU_OP_MSUB,    [3] = QPU_OP_UMUL24, [4] = QPU_OP_VFMUL,
        [5] = QPU_OP_VFMUL,  [6] = QPU_OP_VFMUL,   [7] = QPU_OP_VFMUL,  [8] = QPU_OP_VFMUL,
        [9] = QPU_OP_SMUL24, [10] = QPU_OP_MULTOP, [14] = QPU_OP_FMOV};
    struct qpu_alu *alu = &instr->mul;
    unsigned op = qpu_field(word, 63, 58), a = qpu_field(word, 20, 18), b = qpu_field(word, 23, 21);

    alu->magic = qpu_field(word, 45, 45);
    alu->waddr = (uint8_t)qpu_field(word, 43, 38);
    alu->mux[0] = (uint8_t)a;
    alu->mux[1] = (uint8_t)b;
    if (qpu_decode_fmul(op, alu))
        return true;
    alu->op = plain[op];
    if (op == 14 || (op == 15 && b < 4)) {
        alu->op = QPU_OP_FMOV;
        alu->pack = (uint8_t)((op & 1) * 2 + (b >> 2));
        alu->unpack[0] = qpu_float_unpack(b);
    } else if (op == 15 && b == 7) {
        alu->op = QPU_OP_MOV;
    } else if (op == 15 && b == 4 && a == 0) {
        alu->op = QPU_OP_NOP;
        return true;
    } else if (alu->op == QPU_OP_VFMUL) {
        alu->unpack[0] = half_unpack((op - 4) & 7);
    }
    if (alu->op == QPU_OP_NOP) {
        return qpu_refuse_text(
            reason, "reserved mul operation (bits 63:58 = 0x%x, b 23:21 = %u, a 20:18 = %u)", op, b, a);
    }
    return true;
}

static bool decode_alus(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    instr->raddr[0] = (uint8_t)qpu_field(word, 11, 6);
    instr->raddr[1] = (uint8_t)qpu_field(word, 5, 0);
    if ((instr->signals & QPU_SIG_SMALL_IMM) && instr->raddr[1] >= QPU_SMALL_IMMEDIATES)
        return qpu_refuse(reason, "reserved small immediate", 5, 0, instr->raddr[1]);
    return decode_add(word, instr, reason) && decode_mul(word, instr, reason);
}

const struct qpu_encoding qpu42_encoding = {
    .signals = {QPU_SIGNALS, [14] = QPU_SIG_SMALL_IMM | QPU_SIG_LDVARY, [23] = QPU_SIG_ROT,
                [31] = QPU_SIG_SMALL_IMM | QPU_SIG_LDTMU},
    .alus = decode_alus,
};
