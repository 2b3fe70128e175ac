/* SPDX-License-Identifier: BSD-2-Clause */
/* What the files that move labels share. Internal to them. Sources: see v3d_qpu_exec.c and v3d_qpu_tmu.c. */
#ifndef GRAMOPHONE_V3D_QPU_LABELS_H
#define GRAMOPHONE_V3D_QPU_LABELS_H

#include "v3d_qpu_flow.h"

#include "vgpu.h"

static inline struct vgpu_flow *flow_of(const struct qpu_thread *t)
{
    return t->worker->memory.mmu->flow;
}

/* Labels of `count` bytes of memory, which lie in one page; nothing that is not mapped has any. */
static inline uint32_t memory_labels(struct vgpu_flow *flow, const uint32_t *at, uint32_t count)
{
    uint32_t labels = 0;

    for (uint32_t i = 0; at && i < count; i++)
        labels |= at[i];
    flow->read |= labels;
    return labels;
}

static inline uint32_t all_lanes(const qpu_u32 *v)
{
    uint32_t labels = 0;

    for (int i = 0; i < QPU_LANES; i++)
        labels |= (*v)[i];
    return labels;
}

/* Labels of the byte at va and those after it in its page. */
static inline uint32_t *labels_at(struct qpu_thread *t, uint32_t va)
{
    struct qpu_labels *l = t->labels;
    uint32_t page = va >> V3D_PAGE_SHIFT;

    if (l->page != page + 1) {
        l->page = page + 1;
        l->at = v3d_mmu_labels(t->worker->memory.mmu, page << V3D_PAGE_SHIFT);
    }
    return l->at ? l->at + va % V3D_PAGE_BYTES : NULL;
}

/* What decides whether a lane is written. */
QPU_INLINE qpu_u32 condition_labels(const struct qpu_thread *t, uint8_t cond)
{
    const struct qpu_labels *l = t->labels;

    if (cond == QPU_COND_ALWAYS)
        return (qpu_u32){0};
    return (cond == QPU_COND_IFA || cond == QPU_COND_IFNA ? l->flag_a : l->flag_b) & flow_of(t)->implicit;
}

/* A lane's labels where its condition decides whether it becomes `now` or stays `old`. If that is for data to
 * say, both count: with other data it is the other one. */
QPU_INLINE qpu_u32 chosen(const struct qpu_thread *t, uint8_t cond, qpu_u32 now, qpu_u32 old)
{
    const qpu_u32 decides = condition_labels(t, cond);

    return qpu_select((qpu_i32)(decides != 0), now | old, qpu_select(qpu_condition(t, cond), now, old)) |
           decides;
}

#endif
