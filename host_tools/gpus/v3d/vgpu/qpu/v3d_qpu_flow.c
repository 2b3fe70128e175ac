/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Labels of a thread's data. What each micro-operation computes is in the other files; here is only what goes
 * into it. Sources: see v3d_qpu_exec.c and v3d_qpu_tmu.c.
 */
#include "v3d_qpu_labels.h"

#include <stdlib.h>

enum kind {
    KIND_ALU,
    KIND_NOTHING, /* moves no data */
    KIND_UNIFORM,
    KIND_UNIFA,
    KIND_WRITE_UNIFA,
    KIND_R5,
    KIND_R5REP,
    KIND_ROTATE,
    KIND_SFU,
    KIND_TMU_DATA,
    KIND_TMU_CONFIGURE,
    KIND_TMU_ADDRESS,
    KIND_TMU_LOAD,
    KIND_BRANCH,
};

static const struct {
    qpu_run *run;
    enum kind kind;
} kinds[] = {
    {qpu_load_uniform, KIND_UNIFORM},        {qpu_load_unifa, KIND_UNIFA},
    {qpu_write_unifa, KIND_WRITE_UNIFA},     {qpu_write_r5, KIND_R5},
    {qpu_write_r5rep, KIND_R5REP},           {qpu_write_sfu, KIND_SFU},
    {qpu_tmu_data, KIND_TMU_DATA},           {qpu_tmu_address, KIND_TMU_ADDRESS},
    {qpu_tmu_load, KIND_TMU_LOAD},           {qpu_branch_decide, KIND_BRANCH},
    {qpu_branch_commit, KIND_NOTHING},       {qpu_switch_commit, KIND_NOTHING},
    {qpu_write_barrier, KIND_NOTHING},       {qpu_stop_error, KIND_NOTHING},
    {qpu_stop_fault, KIND_NOTHING},          {qpu_rotate, KIND_ROTATE},
    {qpu_check_nan, KIND_NOTHING},           {qpu_check_uniform, KIND_NOTHING},
    {qpu_tmu_configure, KIND_TMU_CONFIGURE},
};

struct qpu_followed {
    qpu_run *run; /* what the micro-operation does */
    unsigned kind;
};

/* All of the handlers that are not in the table are an ALU's. */
static unsigned kind_of(const struct qpu_uop *u)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].run == u->run)
            return kinds[i].kind;
    return KIND_ALU;
}

/* In each lane those of its quad. */
QPU_INLINE qpu_u32 of_quads(qpu_u32 v)
{
    v |= __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
    return v | __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}

/* A result with these labels goes where its condition lets it. */
QPU_INLINE void write_slot(struct qpu_thread *t, const struct qpu_uop *u, qpu_u32 labels)
{
    struct qpu_labels *l = t->labels;

    l->slot[u->dst] = chosen(t, u->cond, labels, l->slot[u->dst]);
}

/* ---- ALUs ---- */

static void alu(struct qpu_thread *t, const struct qpu_uop *u)
{
    struct qpu_labels *l = t->labels;
    uint8_t op = (uint8_t)u->value;
    unsigned sources = qpu_op_sources(op);
    qpu_u32 labels = {0};

    if (sources > 0)
        labels = l->slot[u->a];
    if (sources > 1)
        labels |= l->slot[u->b];
    switch (op) {
    case QPU_OP_SETMSF: l->msf = chosen(t, u->cond, labels, l->msf); return;
    case QPU_OP_MSF: labels = l->msf; break;
    case QPU_OP_BALLOT:
    case QPU_OP_BCASTF:
    case QPU_OP_ALLEQ:
    case QPU_OP_ALLFEQ:
    case QPU_OP_SHUFFLE: { /* of what lanes, and which: labels is the union of both sources */
        const qpu_u32 decides = condition_labels(t, u->cond);

        labels = qpu_splat(all_lanes(&labels) | all_lanes(&decides));
        break;
    }
    case QPU_OP_FLAFIRST:
    case QPU_OP_FLNAFIRST: labels = qpu_splat(all_lanes(&l->flag_a)); break;
    case QPU_OP_FDX:
    case QPU_OP_FDY: labels = of_quads(labels); break;
    case QPU_OP_VFLA:
    case QPU_OP_VFLNA:
    case QPU_OP_FLAPUSH: labels |= l->flag_a; break;
    case QPU_OP_VFLB:
    case QPU_OP_VFLNB:
    case QPU_OP_FLBPUSH: labels |= l->flag_b; break;
    case QPU_OP_MULTOP: l->rtop = labels; break;
    case QPU_OP_UMUL24:
        labels |= l->rtop;
        l->rtop = (qpu_u32){0};
        break;
    default: break;
    }
    qpu_u32 kept = u->pack != QPU_PACK_NONE && u->dst < QPU_SLOT_ADD ? l->slot[u->dst] : (qpu_u32){0};

    write_slot(t, u, labels | kept);
    if (u->flag_op != QPU_FLAG_NONE && u->flag_op <= QPU_FLAG_PUSHC) {
        l->flag_b = l->flag_a;
        l->flag_a = labels;
    }
    l->operands = labels;
}

/*
 * Flag A, which was `before`, has been combined with a condition of the result: it holds if both terms do.
 * Where one term is false, and not for data to say, it depends on that term only: a shader excludes the lanes
 * that do not run in this way, and in those the other term says nothing.
 */
static void combined_flag(struct qpu_thread *t, const struct qpu_uop *u, qpu_i32 before)
{
    struct qpu_labels *l = t->labels;
    unsigned number = u->flag_op - (unsigned)QPU_FLAG_ANDZ, condition = number / 4, way = number % 4;
    const qpu_u32 result = t->slot[u->dst], both = l->flag_a | l->operands;
    /* Whether -0 is zero depends on the operation; what was packed or not written is not the result. */
    qpu_i32 holds = (qpu_i32)(result == 0), known = (qpu_i32)(result != 0x80000000);

    if (condition == 1) {
        holds = (qpu_i32)result < 0;
        known = ~(qpu_i32){0};
    }
    if (condition > 1 || u->cond != QPU_COND_ALWAYS || u->pack != QPU_PACK_NONE || u->value == QPU_OP_FCMP)
        known = (qpu_i32){0};
    qpu_i32 new_term = way % 2 ? ~holds : holds, old_term = way < 2 ? before : ~before;

    const uint32_t implicit = flow_of(t)->implicit;
    qpu_i32 new_alone = known & ~new_term & (qpu_i32)((l->operands & implicit) == 0);
    qpu_i32 old_alone = ~old_term & (qpu_i32)((l->flag_a & implicit) == 0);

    l->flag_a = qpu_select(new_alone, l->operands, qpu_select(old_alone, l->flag_a, both));
}

/* ---- uniforms and branches ---- */

static uint32_t uniform_labels(struct qpu_thread *t)
{
    uint32_t labels = memory_labels(flow_of(t), labels_at(t, t->uniform_va), 4);

    flow_of(t)->commands |= labels & flow_of(t)->implicit;
    return labels | t->labels->uniform_va;
}

static void branch(struct qpu_thread *t, const struct qpu_uop *u)
{
    struct qpu_labels *l = t->labels;
    struct vgpu_flow *flow = flow_of(t);
    const struct qpu_branch *b = &t->worker->program->instr[u->index].branch;
    uint32_t decides = 0;

    if (b->cond != QPU_BRANCH_ALWAYS)
        decides |= all_lanes(&l->flag_a);
    if (b->cond != QPU_BRANCH_ALWAYS && b->msfign != QPU_MSFIGN_NONE)
        decides |= all_lanes(&l->msf);
    if (b->destination == QPU_DEST_REGFILE)
        decides |= l->slot[QPU_SLOT_RF + b->raddr_a][0];
    decides &= flow->implicit;
    l->control |= decides;
    flow->control |= decides;
    if (decides && flow->branch && b->cond != QPU_BRANCH_ALWAYS)
        flow->branch(flow->ctx, t->worker->program->va + 8 * u->index, qpu_branch_taken(t, b));
    if (b->uniforms) {
        uint32_t where = b->uniform_destination == QPU_DEST_REGFILE ? l->slot[QPU_SLOT_RF + b->raddr_a][0]
                                                                    : uniform_labels(t);

        l->uniform_va |= where & flow->implicit;
        flow->addresses |= l->uniform_va;
    }
    l->uniform_va |= decides;
}

static void write_unifa(struct qpu_thread *t, const struct qpu_uop *u)
{
    struct qpu_labels *l = t->labels;
    qpu_u32 now = chosen(t, u->cond, l->slot[u->a], qpu_splat(l->unifa_va));

    l->unifa_va = now[0] & flow_of(t)->implicit;
    flow_of(t)->addresses |= l->unifa_va;
}

/* A configuration of the TMU with these labels. */
static void configuration(struct qpu_thread *t, uint32_t labels)
{
    labels &= flow_of(t)->implicit;
    t->labels->control |= labels;
    flow_of(t)->control |= labels;
}

/* ---- micro-operations ---- */

static void broadcast(struct qpu_thread *t, const struct qpu_uop *u, int group)
{
    qpu_u32 labels = t->labels->slot[u->a];

    for (int lane = 0; lane < QPU_LANES; lane++)
        labels[lane] = labels[lane & ~(group - 1)];
    write_slot(t, u, labels);
}

static void rotate(struct qpu_thread *t, const struct qpu_uop *u)
{
    struct qpu_labels *l = t->labels;
    const qpu_u32 source = l->slot[u->a], r5 = l->slot[QPU_SLOT_ACC + QPU_MAGIC_R5];
    bool by_r5 = u->value == QPU_ROTATE_BY_R5;
    unsigned by = by_r5 ? t->slot[QPU_SLOT_ACC + QPU_MAGIC_R5][0] : u->value;

    uint32_t decides = by_r5 ? all_lanes(&r5) : 0;
    uint32_t others = decides & flow_of(t)->implicit ? all_lanes(&source) : 0; /* it may be any lane's */

    for (unsigned lane = 0; lane < QPU_LANES; lane++)
        l->slot[u->dst][lane] = source[qpu_rotated_from(lane, by, u->b)] | decides | others;
}

static void step(struct qpu_thread *t, const struct qpu_uop *u, unsigned kind)
{
    struct qpu_labels *l = t->labels;

    switch (kind) {
    case KIND_ALU: alu(t, u); break;
    case KIND_UNIFORM: l->slot[u->dst] = qpu_splat(uniform_labels(t)); break;
    case KIND_UNIFA:
        l->slot[u->dst] = qpu_splat(memory_labels(flow_of(t), labels_at(t, t->unifa_va), 4) | l->unifa_va);
        break;
    case KIND_WRITE_UNIFA: write_unifa(t, u); break;
    case KIND_R5: broadcast(t, u, 4); break;
    case KIND_R5REP: broadcast(t, u, QPU_LANES); break;
    case KIND_ROTATE: rotate(t, u); break;
    case KIND_SFU: write_slot(t, u, l->slot[u->a]); break;
    case KIND_TMU_DATA:
        if (t->tmu_data_count < QPU_TMU_DATA)
            l->tmu_data[t->tmu_data_count] = l->slot[u->a];
        break;
    case KIND_TMU_CONFIGURE: configuration(t, all_lanes(&l->slot[u->a])); break;
    case KIND_TMU_ADDRESS:
        if (u->value & QPU_TMU_CONFIGURED)
            configuration(t, uniform_labels(t));
        break;
    case KIND_TMU_LOAD: l->slot[u->dst] = l->tmu_fifo[t->tmu_fifo_head]; break;
    case KIND_BRANCH: branch(t, u); break;
    default: break;
    }
}

/* The handler of every micro-operation where threads are followed: its labels move, then it is run. */
static const struct qpu_uop *follow(struct qpu_thread *t, const struct qpu_uop *u)
{
    const struct qpu_followed *followed = &t->worker->program->followed[u - t->worker->program->uop];
    struct qpu_labels *l = t->labels;

    if (l->combining)
        combined_flag(t, l->combining, l->before);
    l->combining = followed->kind == KIND_ALU && u->flag_op > QPU_FLAG_PUSHC ? u : NULL;
    l->before = t->flag_a;
    step(t, u, followed->kind);
    return followed->run(t, u);
}

bool qpu_flow_prepare(struct qpu_program *program, struct qpu_worker *worker)
{
    struct vgpu_flow *flow = worker->memory.mmu->flow;

    program->followed = malloc(program->uops * sizeof *program->followed);
    if (!program->followed)
        return false;
    for (uint32_t i = 0; i < program->uops; i++) {
        program->followed[i] = (struct qpu_followed){program->uop[i].run, kind_of(&program->uop[i])};
        program->uop[i].run = follow;
    }
    for (uint32_t i = 0; i < program->count; i++)
        program->labels |=
            memory_labels(flow, v3d_mmu_labels(worker->memory.mmu, program->va + 8 * i), 8) & flow->implicit;
    flow->control |= program->labels;
    flow->commands |= program->labels;
    return true;
}

void qpu_flow_start(struct qpu_thread *t)
{
    struct qpu_labels *l = t->labels;

    *l = (struct qpu_labels){.control = t->worker->program->labels};
    for (unsigned i = QPU_SLOT_RF; i < QPU_SLOTS; i++)
        l->slot[i] = qpu_splat(flow_of(t)->registers);
    /* rtop: Mesa uses umul24 alone, so nothing of another thread can be there. */
    l->flag_a = l->flag_b = qpu_splat(flow_of(t)->registers);
    l->slot[qpu_payload_slot(t->worker->program->version)] = l->slot[QPU_SLOT_RF + 2] = (qpu_u32){0};
}
