/* SPDX-License-Identifier: BSD-2-Clause */
/* Labels of what the TMU moves between a thread and memory. Sources: see v3d_qpu_tmu.c. */
#include "v3d_qpu_labels.h"

/* Labels of a component, which may wrap; none of one that goes over a page's end, which no access does. */
static uint32_t *component_at(struct qpu_thread *t, const struct qpu_access *access, unsigned lane,
                              unsigned component)
{
    uint32_t va = qpu_component_address(access, lane, component);

    return va % V3D_PAGE_BYTES + access->bytes <= V3D_PAGE_BYTES ? labels_at(t, va) : NULL;
}

/* What lanes that take no part get is not known; of those that could, as with `store`, it may be what is
 * there. `decides` has what a lane's taking part depends on, too. */
static void load(struct qpu_thread *t, const struct qpu_access *access, unsigned possible,
                 const qpu_u32 *decides)
{
    struct qpu_labels *l = t->labels;

    for (unsigned c = 0; c < access->components; c++) {
        qpu_u32 labels = *decides;

        for (unsigned lane = 0; lane < QPU_LANES; lane++)
            labels[lane] |= (possible >> lane & 1
                                 ? memory_labels(flow_of(t), component_at(t, access, lane, c), access->bytes)
                                 : 0) |
                            (access->lanes >> lane & 1 ? 0 : flow_of(t)->registers);
        l->tmu_fifo[(t->tmu_fifo_head + t->tmu_fifo_count + c) % QPU_TMU_FIFO] = labels;
    }
}

/* `possible`: lanes that write, and those that do not only because of a condition: that they did not is known
 * from memory, where with other data they would have written. */
static void store(struct qpu_thread *t, const struct qpu_access *access, unsigned possible,
                  const qpu_u32 *decides)
{
    struct qpu_labels *l = t->labels;

    for (unsigned lane = 0; lane < QPU_LANES; lane++) {
        bool writes = access->lanes >> lane & 1;

        for (unsigned c = 0; possible >> lane & 1 && c < access->components; c++) {
            uint32_t *at = component_at(t, access, lane, c);

            for (uint32_t i = 0; at && i < access->bytes; i++)
                at[i] = (writes && !(*decides)[lane] ? 0 : at[i]) | l->tmu_data[c][lane] | (*decides)[lane] |
                        l->control;
        }
    }
}

static void atomic(struct qpu_thread *t, const struct qpu_access *access, unsigned possible,
                   const qpu_u32 *decides)
{
    struct qpu_labels *l = t->labels;
    qpu_u32 result = *decides | flow_of(t)->registers;

    for (unsigned lane = 0; lane < QPU_LANES; lane++) {
        uint32_t labels = (*decides)[lane] | l->control;

        if (!(possible >> lane & 1))
            continue;
        uint32_t *at = component_at(t, access, lane, 0);

        result[lane] = memory_labels(flow_of(t), at, 4) | (*decides)[lane];
        for (unsigned i = 0; i < t->tmu_data_count; i++)
            labels |= l->tmu_data[i][lane];
        for (uint32_t i = 0; at && i < 4; i++)
            at[i] |= labels;
    }
    l->tmu_fifo[(t->tmu_fifo_head + t->tmu_fifo_count) % QPU_TMU_FIFO] = result;
}

void qpu_flow_access(struct qpu_thread *t, const struct qpu_uop *u, const struct qpu_access *access)
{
    struct vgpu_flow *flow = flow_of(t);
    uint32_t exists = all_lanes(&t->labels->msf) & flow->implicit; /* a lane also by others of its quad */
    qpu_u32 decides = condition_labels(t, u->cond) | exists;
    unsigned possible = access->lanes | ((exists ? ~0u : access->exist) & qpu_mask_bits(decides != 0));
    qpu_u32 address = t->labels->slot[u->a] & flow->implicit & (qpu_u32)qpu_mask_from_bits(possible);

    if (access->operation == QPU_TMU_ADD && t->tmu_data_count == 0) /* a prefetch */
        return;
    flow->addresses |= all_lanes(&address);
    flow->control |= all_lanes(&decides);
    decides |= address;
    if (access->operation != QPU_TMU_REGULAR)
        atomic(t, access, possible, &decides);
    else if (t->tmu_data_count == 0)
        load(t, access, possible, &decides);
    else
        store(t, access, possible, &decides);
}
