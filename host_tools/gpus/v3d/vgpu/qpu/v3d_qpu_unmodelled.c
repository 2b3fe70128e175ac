/* SPDX-License-Identifier: BSD-2-Clause */
/* Which instructions the interpreter refuses, and why. Sources: see v3d_qpu_program.c and v3d_qpu_alu.c. */
#include "v3d_qpu_program.h"

static const char *unmodelled_destination(enum v3d_version version, uint8_t op, uint8_t waddr, bool magic)
{
    if (op == QPU_OP_MULTOP || op == QPU_OP_SETMSF ||
        (op == QPU_OP_FCMP && !v3d_traits(version)->is_known_by_hand))
        return magic && waddr == QPU_MAGIC_NOP ? NULL
                                               : "written result of an operation that is used for its effect";
    if ((op == QPU_OP_BARRIERID) != (magic && waddr == QPU_MAGIC_SYNCB))
        return "barrierid without syncb, or the reverse";
    if (!magic || waddr == QPU_MAGIC_NOP)
        return NULL;
    if (!qpu_magic_name(version, waddr))
        return "reserved magic write address";
    if (!v3d_traits(version)->has_accumulators && (waddr == QPU_MAGIC_R5 || waddr == QPU_MAGIC_R5REP))
        return "write to quad or rep, of which no source says what it does";
    if (waddr < QPU_MAGIC_NOP)
        return NULL;
    if (v3d_traits(version)->is_known_by_hand && waddr == QPU_MAGIC_TMUC)
        return NULL;
    if (waddr >= QPU_MAGIC_TMUC && waddr <= QPU_MAGIC_TMUHSLOD)
        return "TMU texture lookup: not modelled";
    switch (waddr) {
    case QPU_MAGIC_UNIFA:
    case QPU_MAGIC_TMUD:
    case QPU_MAGIC_TMUA:
    case QPU_MAGIC_TMUAU:
    case QPU_MAGIC_SYNCB:
    case QPU_MAGIC_RECIP:
    case QPU_MAGIC_RSQRT:
    case QPU_MAGIC_EXP:
    case QPU_MAGIC_LOG:
    case QPU_MAGIC_SIN:
    case QPU_MAGIC_RSQRT2:
    case QPU_MAGIC_R5REP: return NULL;
    default: return "write address that is not modelled (TLB, VPM, TMUL, sync, syncu)";
    }
}

static bool moves_flags(uint8_t op)
{
    switch (op) {
    case QPU_OP_VFLA:
    case QPU_OP_VFLNA:
    case QPU_OP_VFLB:
    case QPU_OP_VFLNB:
    case QPU_OP_FLAPUSH:
    case QPU_OP_FLBPUSH:
    case QPU_OP_FLPOP: return true;
    default: return false;
    }
}

/* What Mesa does not use (docs/adr/0033-hand-written-programs.md). */
static bool is_of_hand(uint8_t op)
{
    switch (op) {
    case QPU_OP_FADDNF:
    case QPU_OP_FDX:
    case QPU_OP_FDY:
    case QPU_OP_RSQRT2: return true;
    default: return moves_flags(op);
    }
}

static const char *unmodelled_alu(enum v3d_version version, const struct qpu_alu *alu)
{
    bool carry = alu->flag_op == QPU_FLAG_PUSHC || alu->flag_op >= QPU_FLAG_ANDC;

    if (alu->op == QPU_OP_NOP)
        return alu->flag_op ? "flags of nop" : NULL;
    if (!qpu_alu_handlers(alu->op)->run[QPU_FULL] ||
        (!v3d_traits(version)->is_known_by_hand && is_of_hand(alu->op)))
        return "operation that is not modelled";
    switch (alu->op) {
    case QPU_OP_ADD:
    case QPU_OP_SUB:
    case QPU_OP_MADD:
    case QPU_OP_MSUB:
    case QPU_OP_MIN:
    case QPU_OP_FCMP: break;
    case QPU_OP_VFMUL:
    case QPU_OP_VFMIN:
    case QPU_OP_VFMAX:
    case QPU_OP_VFPACK:
    case QPU_OP_VADD:
    case QPU_OP_VSUB:
    case QPU_OP_TMUWT:
    case QPU_OP_BARRIERID:
    case QPU_OP_SETMSF:
        if (alu->flag_op != QPU_FLAG_NONE)
            return "flags of an operation for which they are not modelled";
        break;
    default:
        if (alu->flag_op != QPU_FLAG_NONE && moves_flags(alu->op))
            return "flags of an operation for which they are not modelled";
        if (carry)
            return "carry of an operation for which it is not modelled";
    }
    if (alu->magic && alu->waddr == QPU_MAGIC_TMUC && alu->cond != QPU_COND_ALWAYS)
        return "TMU configuration under a condition: not modelled";
    return unmodelled_destination(version, alu->op, alu->waddr, alu->magic);
}

/* Known is that one source of the mul ALU is rotated, also where it is both sources (py-videocore6,
 * tests/test_signals.py, which ran on a Raspberry Pi 4). */
static const char *unmodelled_rotation(const struct qpu_instr *instr)
{
    const struct qpu_alu *mul = &instr->mul;
    unsigned sources = qpu_op_sources(mul->op);

    if (instr->raddr[1] >= 32)
        return "rotation by a number that is no small integer";
    for (unsigned i = 0; i < qpu_op_sources(instr->add.op); i++)
        if (instr->add.mux[i] == QPU_MUX_B)
            return "rotation beside a use of what says by how much";
    if (sources == 0 || mul->mux[0] == QPU_MUX_B || (sources > 1 && mul->mux[1] != mul->mux[0]))
        return "rotation of other than one source of the mul operation: not modelled";
    return NULL;
}

static bool takes_flag(const struct qpu_alu *alu)
{
    return alu->cond != QPU_COND_ALWAYS || alu->flag_op > QPU_FLAG_PUSHC || qpu_flag_reads(alu->op);
}

/* Whether flags that instruction i leaves may be read: somebody reads flags before two pushes have replaced
 * both, or a branch goes who knows where. */
static bool flags_are_read_after(const struct qpu_program *program, uint32_t i)
{
    unsigned pushes = 0;

    while (++i < program->count && pushes < 2) {
        const struct qpu_instr *instr = &program->instr[i];

        if (program->reason[i])
            continue;
        if (instr->is_branch || takes_flag(&instr->add) || takes_flag(&instr->mul))
            return true;
        pushes += instr->add.flag_op != QPU_FLAG_NONE || instr->mul.flag_op != QPU_FLAG_NONE;
    }
    return false;
}

const char *qpu_unmodelled(const struct qpu_program *program, uint32_t i)
{
    const struct qpu_instr *instr = &program->instr[i];
    const char *reason;
    bool thrsw = instr->signals & QPU_SIG_THRSW;

    for (uint32_t back = 1; back <= QPU_BRANCH_DELAY && back <= i; back++) {
        const struct qpu_instr *before = &program->instr[i - back];

        if (before->is_branch && (instr->is_branch || thrsw))
            return "branch or thrsw in the delay slots of a branch";
        if (back <= QPU_SWITCH_DELAY && qpu_switches_at(program, i - back) && instr->is_branch)
            return "branch in the delay slots of thrsw";
    }
    if (thrsw && i >= 2 && qpu_has_thrsw(program, i - 1) && qpu_has_thrsw(program, i - 2))
        return "three thrsw in a row";
    if (instr->is_branch) {
        const struct qpu_branch *branch = &instr->branch;
        bool link = branch->uniforms && branch->uniform_destination == QPU_DEST_LINK;
        return link ? "uniform stream moved to the link register: not modelled" : NULL;
    }
    if (instr->signals & (QPU_SIG_LDVARY | QPU_SIG_LDTLB | QPU_SIG_LDTLBU))
        return "signal that makes no sense in a compute shader (ldvary, ldtlb, ldtlbu)";
    if (instr->signals & QPU_SIG_WRTMUC)
        return "wrtmuc: TMU texture lookups are not modelled";
    if (instr->signals & QPU_SIG_UCB)
        return "signal that is not modelled (ucb)";
    if ((instr->signals & QPU_SIG_ROT) && (reason = unmodelled_rotation(instr)))
        return reason;
    if ((reason = unmodelled_alu(instr->version, &instr->add)) ||
        (reason = unmodelled_alu(instr->version, &instr->mul)))
        return reason;
    if ((instr->signals & QPU_SIG_ADDRESSED) &&
        (reason = unmodelled_destination(instr->version, QPU_OP_NOP, instr->sig_addr, instr->sig_magic)))
        return reason;
    if (instr->add.op == QPU_OP_FLPOP && flags_are_read_after(program, i))
        return "flpop, and its flags, which are not known, may be read";
    return qpu_uniforms_taken(instr) > 1 ? "two reads of the uniform stream" : NULL;
}
