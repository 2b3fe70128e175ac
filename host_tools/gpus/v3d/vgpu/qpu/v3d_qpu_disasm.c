/* SPDX-License-Identifier: BSD-2-Clause */
/* QPU instructions as text: "add ; mul ; signals". Source of the mnemonics: Mesa
 * 22.3.6 and, for the V3D 7.1, 25.0.7, src/broadcom/qpu (qpu_instr.c, qpu_disasm.c). */
#include "v3d_qpu_decode.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct text {
    char *at;
    size_t size;
    int length;
};

__attribute__((format(printf, 2, 3))) static void print(struct text *out, const char *format, ...)
{
    size_t used = (size_t)out->length < out->size ? (size_t)out->length : out->size;
    va_list args;

    va_start(args, format);
    int n = vsnprintf(used < out->size ? out->at + used : NULL, out->size - used, format, args);
    va_end(args);
    out->length += n > 0 ? n : 0;
}

static void print_source(struct text *out, const struct qpu_instr *instr, const struct qpu_alu *alu,
                         unsigned i)
{
    static const char *const unpack_names[] = {"",     ".abs",  ".l",    ".h",  ".ff", ".ll", ".hh", ".swp",
                                               ".sat", ".nsat", ".max0", ".ul", ".uh", ".il", ".ih"};
    unsigned mux = alu->mux[i];
    uint8_t raddr = mux < QPU_MUX_A ? 0 : instr->raddr[mux - QPU_MUX_A];

    if (mux < QPU_MUX_A)
        print(out, "r%u", mux);
    else if (!qpu_is_immediate(instr, mux))
        print(out, "rf%u", raddr);
    else if (raddr < 32)
        print(out, "%" PRId32, (int32_t)qpu_small_immediate(raddr));
    else
        print(out, "0x%08" PRIx32, qpu_small_immediate(raddr));
    print(out, "%s", unpack_names[alu->unpack[i]]);
}

static void print_destination(struct text *out, enum v3d_version version, uint8_t waddr, bool magic)
{
    const char *name = magic ? qpu_magic_name(version, waddr) : NULL;

    if (!magic)
        print(out, "rf%u", waddr);
    else if (name)
        print(out, "%s", name);
    else
        print(out, "reserved%u", waddr);
}

static void print_alu(struct text *out, const struct qpu_instr *instr, const struct qpu_alu *alu)
{
    static const char *const conds[] = {"", ".ifa", ".ifb", ".ifna", ".ifnb"};
    static const char *const flag_ops[] = {"",       ".pushz", ".pushn", ".pushc", ".andz",  ".andnz",
                                           ".nornz", ".norz",  ".andn",  ".andnn", ".nornn", ".norn",
                                           ".andc",  ".andnc", ".nornc", ".norc"};
    static const char *const packs[] = {"", ".l", ".h"};
    const char *separator = " ";

    print(out, "%s%s%s", qpu_op_name(alu->op), conds[alu->cond], flag_ops[alu->flag_op]);
    if (qpu_op_has_destination(alu->op)) {
        print(out, "%s", separator);
        print_destination(out, instr->version, alu->waddr, alu->magic);
        print(out, "%s", packs[alu->pack]);
        separator = ", ";
    }
    for (unsigned i = 0; i < qpu_op_sources(alu->op); i++, separator = ", ") {
        print(out, "%s", separator);
        print_source(out, instr, alu, i);
    }
}

static void print_signals(struct text *out, const struct qpu_instr *instr)
{
    static const struct {
        uint16_t signal;
        const char *name;
    } names[] = {
        {QPU_SIG_THRSW, "thrsw"},       {QPU_SIG_LDVARY, "ldvary"},   {QPU_SIG_LDTMU, "ldtmu"},
        {QPU_SIG_LDTLB, "ldtlb"},       {QPU_SIG_LDTLBU, "ldtlbu"},   {QPU_SIG_LDUNIF, "ldunif"},
        {QPU_SIG_LDUNIFRF, "ldunifrf"}, {QPU_SIG_LDUNIFA, "ldunifa"}, {QPU_SIG_LDUNIFARF, "ldunifarf"},
        {QPU_SIG_WRTMUC, "wrtmuc"},     {QPU_SIG_UCB, "ucb"},         {QPU_SIG_ROT, "rot"},
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(instr->signals & names[i].signal))
            continue;
        print(out, "; %s", names[i].name);
        if (names[i].signal == QPU_SIG_ROT && instr->raddr[1])
            print(out, ".%u", instr->raddr[1]); /* the code of a small immediate; 0: by r5 */
        if (names[i].signal & QPU_SIG_ADDRESSED) {
            print(out, ".");
            print_destination(out, instr->version, instr->sig_addr, instr->sig_magic);
        }
    }
}

static void print_branch(struct text *out, const struct qpu_branch *branch)
{
    static const char *const conds[] = {"", ".a0", ".na0", ".alla", ".anyna", ".anya", ".allna"};
    static const char *const lanes[] = {"", "p", "q"};
    static const char *const uniforms[] = {"a:unif", "r:unif", "lri", "rf"};

    print(out, "b%s%s%s  ", branch->uniforms ? "u" : "", conds[branch->cond], lanes[branch->msfign]);
    switch (branch->destination) {
    case QPU_DEST_ABSOLUTE: print(out, "zero_addr+0x%08" PRIx32, (uint32_t)branch->offset); break;
    case QPU_DEST_RELATIVE: print(out, "%" PRId32, branch->offset); break;
    case QPU_DEST_LINK: print(out, "lri"); break;
    default: print(out, "rf%u", branch->raddr_a); break;
    }
    if (branch->uniforms)
        print(out, ", %s", uniforms[branch->uniform_destination]);
    if (branch->uniforms && branch->uniform_destination == QPU_DEST_REGFILE)
        print(out, "%u", branch->raddr_a);
    if (branch->links)
        print(out, "; link");
}

int qpu_disassemble(const struct qpu_instr *instr, char *text, size_t size)
{
    struct text out = {text, size, 0};

    if (instr->is_branch) {
        print_branch(&out, &instr->branch);
    } else {
        print_alu(&out, instr, &instr->add);
        print(&out, "; ");
        print_alu(&out, instr, &instr->mul);
        print_signals(&out, instr);
    }
    return out.length;
}

bool v3d_qpu_describe(enum v3d_version version, uint64_t word, char *text, size_t size)
{
    struct qpu_instr instr;
    const char *reason;
    bool decoded = qpu_decode(version, word, &instr, &reason);

    if (decoded)
        qpu_disassemble(&instr, text, size);
    else
        snprintf(text, size, "%s", reason);
    return decoded;
}
