/* SPDX-License-Identifier: BSD-2-Clause */
/* Loads of the TMU. Sources: see v3d_qpu_tmu.c. */
#include "v3d_qpu_tmu.h"

/* Where a component goes. */
static qpu_u32 *fifo_entry(struct qpu_thread *t, const struct qpu_access *access, unsigned component)
{
    return &t->tmu_fifo[(access->entry + component) % QPU_TMU_FIFO];
}

static uint32_t load_element(const uint8_t *at, unsigned type)
{
    switch (type) {
    case TMU_TYPE_S8: return (uint32_t)(int8_t)*at;
    case TMU_TYPE_S16: return (uint32_t)(int16_t) * (const qpu_half_any *)at;
    case TMU_TYPE_U8: return *at;
    case TMU_TYPE_U16: return *(const qpu_half_any *)at;
    default: return *(const qpu_word_any *)at;
    }
}

/* Vectors of four words: those of four lanes are four columns of four. */
static void load_columns(struct qpu_thread *t, const struct qpu_access *access)
{
    const qpu_word_any *offset = (const qpu_word_any *)&access->offset;
    const uint8_t *base = access->base;
    qpu_quad column[4][QPU_QUADS];

    for (int quad = 0; quad < QPU_QUADS; quad++) {
        qpu_quad row[4];

        for (int i = 0; i < 4; i++)
            row[i] = (qpu_quad) * (const qpu_quad_unaligned *)(base + offset[4 * quad + i]);
        qpu_quad low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
        qpu_quad low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
        qpu_quad high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
        qpu_quad high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
        column[0][quad] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
        column[1][quad] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
        column[2][quad] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
        column[3][quad] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
    }
    for (unsigned c = 0; c < 4; c++)
        *fifo_entry(t, access, c) = qpu_join(column[c]);
}

/* One word of each quad. */
QPU_INLINE qpu_u32 load_quads(const uint8_t *base, const qpu_word_any *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS; i++)
        quad[i] = (qpu_quad){0} + *(const qpu_word_any *)(base + offset[4 * i]);
    return qpu_join(quad);
}

/* Words that follow each other in each quad. */
QPU_INLINE qpu_u32 load_rows(const uint8_t *base, const qpu_word_any *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS; i++)
        quad[i] = (qpu_quad) * (const qpu_quad_unaligned *)(base + offset[4 * i]);
    return qpu_join(quad);
}

/* One word of each lane. */
QPU_INLINE qpu_u32 load_scattered(const uint8_t *base, const qpu_word_any *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS; i++, offset += 4)
        quad[i] =
            (qpu_quad){*(const qpu_word_any *)(base + offset[0]), *(const qpu_word_any *)(base + offset[1]),
                       *(const qpu_word_any *)(base + offset[2]), *(const qpu_word_any *)(base + offset[3])};
    return qpu_join(quad);
}

/* Words at the lanes' offsets from the base into the FIFO. */
static inline void load_words(struct qpu_thread *t, const struct qpu_access *access)
{
    const qpu_word_any *offset = (const qpu_word_any *)&access->offset;
    const unsigned components = access->components;
    const qpu_u32 within = access->offset - qpu_first_of_quads(access->offset);

    if (!qpu_any(within)) { /* one address for each quad, or for all */
        for (unsigned c = 0; c < components; c++)
            *fifo_entry(t, access, c) = load_quads(access->base + 4 * c, offset);
    } else if (components == 4) {
        load_columns(t, access);
    } else if (components == 1 && !qpu_any(within ^ QPU_LANE_NUMBERS % 4 * 4)) {
        *fifo_entry(t, access, 0) = load_rows(access->base, offset);
    } else {
        for (unsigned c = 0; c < components; c++)
            *fifo_entry(t, access, c) = load_scattered(access->base + 4 * c, offset);
    }
}

/* Elements of less than 32 bits, vectors that wrap, and words that no range has all of. */
static bool load_each(struct qpu_thread *t, const struct qpu_access *access)
{
    struct qpu_memory *memory = &t->worker->memory;

    for (unsigned c = 0; c < access->components; c++)
        *fifo_entry(t, access, c) = (qpu_u32){0};
    for (unsigned left = access->lanes; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);

        for (unsigned c = 0; c < access->components; c++) {
            uint32_t va = qpu_component_address(access, lane, c);
            const uint8_t *at = qpu_host(memory, access->site, va, access->bytes, false);

            if (!at) {
                qpu_fault(t, va, false);
                return false;
            }
            ((qpu_word_any *)fifo_entry(t, access, c))[lane] = load_element(at, access->type);
        }
    }
    return true;
}

bool qpu_tmu_fetch(struct qpu_thread *t, const struct qpu_uop *u, const struct qpu_access *access)
{
    if (access->components > access->room)
        return qpu_tmu_overflow(t, u);
    if (t->worker->program->tmu_decides)
        qpu_tmu_take(t, access);
    if (!access->base || access->bytes != 4) {
        if (!load_each(t, access))
            return false;
    } else {
        load_words(t, access);
        if (access->lanes != QPU_ALL_LANES)
            for (unsigned c = 0; c < access->components; c++)
                *fifo_entry(t, access, c) &= (qpu_u32)qpu_mask_from_bits(access->lanes);
        if (t->worker->memory.mmu->track)
            qpu_tmu_note(&t->worker->memory, access, false);
    }
    t->worker->bytes_read += (unsigned)__builtin_popcount(access->lanes) * access->components * access->bytes;
    return true;
}
