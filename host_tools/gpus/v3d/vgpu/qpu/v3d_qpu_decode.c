/* SPDX-License-Identifier: BSD-2-Clause */
/* Decoder of QPU instructions: what is the same in all versions. Sources: see v3d_qpu_decode.h. A branch has
 * mul op 0 (bits 63:58) and signal bits 57:56 = 10. */
#include "v3d_qpu_fields.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char reason_text[96];

bool qpu_refuse_text(const char **reason, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reason_text, sizeof reason_text, format, args);
    va_end(args);
    *reason = reason_text;
    return false;
}

bool qpu_refuse(const char **reason, const char *what, unsigned high, unsigned low, unsigned value)
{
    return qpu_refuse_text(reason, "%s (bits %u:%u = 0x%x)", what, high, low, value);
}

static const struct {
    const char *name;
    uint8_t sources;
    uint8_t destination;
} op_table[QPU_OP_COUNT] = {
#define X(id, name, sources, destination) [QPU_OP_##id] = {name, sources, destination},
    QPU_OPS(X)
#undef X
};

const char *qpu_op_name(uint8_t op)
{
    return op_table[op].name;
}

unsigned qpu_op_sources(uint8_t op)
{
    return op_table[op].sources;
}

bool qpu_op_has_destination(uint8_t op)
{
    return op_table[op].destination;
}

enum qpu_flags_read qpu_flag_reads(uint8_t op)
{
    switch (op) {
    case QPU_OP_VFLA:
    case QPU_OP_VFLNA:
    case QPU_OP_FLAPUSH:
    case QPU_OP_FLAFIRST:
    case QPU_OP_FLNAFIRST: return QPU_READS_FLAG_A;
    case QPU_OP_VFLB:
    case QPU_OP_VFLNB:
    case QPU_OP_FLBPUSH: return QPU_READS_FLAG_B;
    default: return QPU_READS_NO_FLAG;
    }
}

const char *qpu_magic_name(enum v3d_version version, uint8_t waddr)
{
    static const char *const low[] = {"r0",  "r1",   "r2",    "r3",    "r4",    "r5",    "-",
                                      "tlb", "tlbu", "unifa", "tmul",  "tmud",  "tmua",  "tmuau",
                                      "vpm", "vpmu", "sync",  "syncu", "syncb", "recip", "rsqrt",
                                      "exp", "log",  "sin",   "rsqrt2"};
    static const char *const texture[] = {"tmuc",    "tmus",    "tmut",    "tmur",   "tmui",
                                          "tmub",    "tmudref", "tmuoff",  "tmuscm", "tmusf",
                                          "tmuslod", "tmuhs",   "tmuhscm", "tmuhsf", "tmuhslod"};

    bool has_accumulators = v3d_traits(version)->has_accumulators;
    bool is_reserved = !has_accumulators &&
                       (waddr < QPU_MAGIC_R5 || (waddr >= QPU_MAGIC_RECIP && waddr <= QPU_MAGIC_RSQRT2));

    if (is_reserved)
        return NULL;
    if (!has_accumulators && waddr == QPU_MAGIC_R5)
        return "quad";
    if (waddr < sizeof low / sizeof low[0])
        return low[waddr];
    if (waddr >= QPU_MAGIC_TMUC && waddr <= QPU_MAGIC_TMUHSLOD)
        return texture[waddr - QPU_MAGIC_TMUC];
    return waddr != QPU_MAGIC_R5REP ? NULL : has_accumulators ? "r5rep" : "rep";
}

uint32_t qpu_small_immediate(uint8_t code)
{
    if (code < 16)
        return code;
    if (code < 32)
        return (uint32_t)code - 32;     /* -16 to -1 */
    return (uint32_t)(code + 87) << 23; /* 2^-8 (code 32) to 2^7 (code 47) as a float */
}

uint8_t qpu_plain_add_op(unsigned op)
{
    static const uint8_t shifts[] = {QPU_OP_MIN, QPU_OP_MAX, QPU_OP_UMIN, QPU_OP_UMAX,
                                     QPU_OP_SHL, QPU_OP_SHR, QPU_OP_ASR,  QPU_OP_ROR}; /* 120 to 127 */
    static const uint8_t logic[] = {QPU_OP_AND, QPU_OP_OR, QPU_OP_XOR, QPU_OP_VADD,
                                    QPU_OP_VSUB}; /* 181 to 185 */

    if (op >= 120 && op - 120 < sizeof shifts)
        return shifts[op - 120];
    if (op >= 181 && op - 181 < sizeof logic)
        return logic[op - 181];
    return op == 56 ? QPU_OP_ADD : op == 60 ? QPU_OP_SUB : QPU_OP_COUNT;
}

bool qpu_decode_two_floats(unsigned op, bool swapped, struct qpu_alu *alu)
{
    static const uint8_t in_order[] = {QPU_OP_FADD, QPU_OP_FSUB, QPU_OP_FMIN, QPU_OP_FCMP};
    static const uint8_t reversed[] = {QPU_OP_FADDNF, QPU_OP_FSUB, QPU_OP_FMAX, QPU_OP_FCMP};
    unsigned a_code = (op >> 2) & 3, b_code = op & 3;

    if (op % 64 < 48) {
        alu->op = (swapped ? reversed : in_order)[op >> 6];
        alu->pack = (uint8_t)((op >> 4) & 3);
    } else if (op >= 53 && op < 64 && a_code != 0 && b_code != 0) {
        alu->op = QPU_OP_VFPACK;
    } else {
        return false;
    }
    alu->unpack[0] = qpu_float_unpack(a_code);
    alu->unpack[1] = qpu_float_unpack(b_code);
    return true;
}

bool qpu_decode_fmul(unsigned op, struct qpu_alu *alu)
{
    if (op < 16)
        return false;
    alu->op = QPU_OP_FMUL;
    alu->pack = (uint8_t)((op >> 4) - 1);
    alu->unpack[0] = qpu_float_unpack(op >> 2);
    alu->unpack[1] = qpu_float_unpack(op);
    return true;
}

/* The condition field, when no signal takes it for a register address. */
static bool decode_conditions(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    unsigned code = qpu_field(word, 52, 46);
    unsigned low = code & 3, mid = (code >> 2) & 3;
    struct qpu_alu *add = &instr->add, *mul = &instr->mul;

    if (code & 0x40) { /* 1mm 00aa: both conditional; 1mm uuuu: mul conditional, add updates */
        mul->cond = (uint8_t)(QPU_COND_IFA + ((code >> 4) & 3));
        if (mid == 0)
            add->cond = (uint8_t)(QPU_COND_IFA + low);
        else
            add->flag_op = (uint8_t)(QPU_FLAG_ANDZ + (code & 15) - 4);
        return true;
    }
    if (code & 0x20) { /* 010 ccpp: add conditional, mul pushes; 011 ccpp: the other way round */
        struct qpu_alu *conditional = code & 0x10 ? mul : add, *pushing = code & 0x10 ? add : mul;

        conditional->cond = (uint8_t)(QPU_COND_IFA + mid);
        pushing->flag_op = (uint8_t)(low ? QPU_FLAG_PUSHZ + low - 1 : QPU_FLAG_NONE);
        return true;
    }
    if (code == 0x10)
        return qpu_refuse(reason, "reserved condition", 52, 46, code);
    struct qpu_alu *target = code & 0x10 ? mul : add; /* 00m 00pp: push; 00m uuuu: update */
    if (mid != 0)
        target->flag_op = (uint8_t)(QPU_FLAG_ANDZ + (code & 15) - 4);
    else if (low != 0)
        target->flag_op = (uint8_t)(QPU_FLAG_PUSHZ + low - 1);
    return true;
}

static bool decode_branch(uint64_t word, struct qpu_instr *instr, const char **reason)
{
    struct qpu_branch *branch = &instr->branch;
    unsigned cond = qpu_field(word, 34, 32);

    instr->is_branch = true;
    if (cond == 1)
        return qpu_refuse(reason, "reserved branch condition", 34, 32, cond);
    if (qpu_field(word, 22, 21) == 3)
        return qpu_refuse(reason, "reserved branch lane selection", 22, 21, 3);
    if (qpu_field(word, 20, 18) || qpu_field(word, 5, 0))
        return qpu_refuse(reason, "branch bits with no known meaning", 20, 0, (unsigned)(word & 0x1c003f));
    branch->cond = (uint8_t)(cond ? QPU_BRANCH_A0 + cond - 2 : QPU_BRANCH_ALWAYS);
    branch->msfign = (uint8_t)qpu_field(word, 22, 21);
    branch->destination = (uint8_t)qpu_field(word, 13, 12);
    branch->uniforms = qpu_field(word, 14, 14);
    branch->links = qpu_field(word, 23, 23);
    branch->uniform_destination = branch->uniforms ? (uint8_t)qpu_field(word, 17, 15) : 0; /* else anything */
    if (branch->uniform_destination > QPU_DEST_REGFILE)
        return qpu_refuse(reason, "reserved uniform destination of a branch", 17, 14,
                          qpu_field(word, 17, 14));
    branch->raddr_a = (uint8_t)qpu_field(word, 11, 6);
    branch->offset = (int32_t)(qpu_field(word, 55, 35) << 3 | qpu_field(word, 31, 24) << 24);
    return true;
}

bool qpu_is_immediate(const struct qpu_instr *instr, unsigned mux)
{
    static const uint16_t signals[] = {QPU_SIG_SMALL_IMM_A, QPU_SIG_SMALL_IMM, QPU_SIG_SMALL_IMM_C,
                                       QPU_SIG_SMALL_IMM_D};

    return mux >= QPU_MUX_A && instr->signals & signals[mux - QPU_MUX_A];
}

bool qpu_decode(enum v3d_version version, uint64_t word, struct qpu_instr *instr, const char **reason)
{
    *instr = (struct qpu_instr){.word = word, .version = version};
    if (qpu_field(word, 63, 58) == 0) {
        if (qpu_field(word, 57, 56) != 2)
            return qpu_refuse(reason, "neither an ALU instruction nor a branch", 63, 56,
                              qpu_field(word, 63, 56));
        return decode_branch(word, instr, reason);
    }
    const struct qpu_encoding *encoding = qpu_encoding_of(version);
    unsigned code = qpu_field(word, 57, 53);
    if (code && !encoding->signals[code])
        return qpu_refuse(reason, "reserved signal", 57, 53, code);
    instr->signals = encoding->signals[code];
    if (instr->signals & QPU_SIG_ADDRESSED) {
        instr->sig_addr = (uint8_t)qpu_field(word, 51, 46);
        instr->sig_magic = qpu_field(word, 52, 52);
    } else if (!decode_conditions(word, instr, reason)) {
        return false;
    }
    return encoding->alus(word, instr, reason);
}
