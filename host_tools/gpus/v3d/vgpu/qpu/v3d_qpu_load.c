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
QPU_INLINE qpu_u32 load_quads(const uint8_t *base, const qpu_u32 *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS; i++)
        quad[i] = (qpu_quad){0} + *(const qpu_word_any *)(base + (*offset)[4 * i]);
    return qpu_join(quad);
}

/* Words that follow each other in each quad. */
QPU_INLINE qpu_u32 load_rows(const uint8_t *base, const qpu_u32 *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS; i++)
        quad[i] = (qpu_quad) * (const qpu_quad_unaligned *)(base + (*offset)[4 * i]);
    return qpu_join(quad);
}

/* One word of each lane of a quad. */
QPU_INLINE qpu_quad load_quad(const uint8_t *base, const qpu_u32 *offset, int first)
{
    const qpu_word_any *a = (const qpu_word_any *)(base + (*offset)[first]);
    const qpu_word_any *b = (const qpu_word_any *)(base + (*offset)[first + 1]);
    const qpu_word_any *c = (const qpu_word_any *)(base + (*offset)[first + 2]);
    const qpu_word_any *d = (const qpu_word_any *)(base + (*offset)[first + 3]);

    return (qpu_quad){*a, *b, *c, *d};
}

/* One word of each lane. */
QPU_INLINE qpu_u32 load_scattered(const uint8_t *base, const qpu_u32 *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS; i++)
        quad[i] = load_quad(base, offset, 4 * i);
    return qpu_join(quad);
}

/* One word of each of eight lanes, and the same again. */
QPU_INLINE qpu_u32 load_half(const uint8_t *base, const qpu_u32 *offset)
{
    qpu_quad quad[QPU_QUADS];

    for (int i = 0; i < QPU_QUADS / 2; i++)
        quad[i] = quad[i + 2] = load_quad(base, offset, 4 * i);
    return qpu_join(quad);
}

/* A word of each lane. */
QPU_INLINE qpu_u32 load_word(const uint8_t *base, const qpu_u32 *offset)
{
    const qpu_u32 within = *offset - qpu_first_of_quads(*offset);

    if (!qpu_any(within)) /* one address for each quad, or for all */
        return load_quads(base, offset);
    if (!qpu_any(within ^ QPU_LANE_NUMBERS % 4 * 4))
        return load_rows(base, offset);
    if (!qpu_any(*offset ^ qpu_halves_swapped(*offset)))
        return load_half(base, offset);
    return load_scattered(base, offset);
}

/* Words at the lanes' offsets from the base into the FIFO. */
static inline void load_words(struct qpu_thread *t, const struct qpu_access *access)
{
    if (access->components == 4) {
        load_columns(t, access);
        return;
    }
    for (unsigned c = 0; c < access->components; c++)
        *fifo_entry(t, access, c) = load_word(access->base + 4 * c, &access->offset);
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

/* Words that lie in several ranges, or in one that the site has not accessed last. False: not all can be had.
 */
static bool load_by_ranges(struct qpu_memory *memory, unsigned site, const qpu_u32 *address, unsigned lanes,
                           qpu_u32 *words)
{
    uint32_t word[QPU_LANES] = {0};

    if (qpu_mask_bits((*address & 3) != 0) & lanes)
        return false;
    while (lanes) {
        const uint8_t *at = qpu_granted(memory, site, (*address)[__builtin_ctz(lanes)], false);

        if (!at)
            return false;
        const struct qpu_range *range = qpu_range_of(memory, site, false); /* that of this lane */
        const qpu_u32 offset = *address - range->va;
        unsigned here = qpu_mask_bits(offset < range->bytes) & lanes;

        word[__builtin_ctz(lanes)] = *(const qpu_word_any *)at;
        lanes &= lanes - 1;
        for (here &= lanes, lanes &= ~here; here; here &= here - 1) {
            const int lane = __builtin_ctz(here);

            word[lane] = *(const qpu_word_any *)(range->host + offset[lane]);
        }
    }
    __builtin_memcpy(words, word, sizeof word);
    return true;
}

unsigned qpu_tmu_fetch_plain(struct qpu_thread *t, const struct qpu_uop *u, const struct qpu_access *access,
                             bool exact)
{
    struct qpu_memory *memory = &t->worker->memory;
    const qpu_u32 *before = NULL; /* the thread's before: many load the same */
    unsigned i, lanes_before = 0;

    for (i = 0; i < t->gang; i++) {
        struct qpu_thread *each = t + i;
        const unsigned exist = exact ? each->exist : qpu_quads_with(each->exist);
        const unsigned lanes = exist & qpu_condition_bits(each, u->cond);
        const qpu_u32 *address = &each->slot[u->a];
        qpu_u32 *words = &each->tmu_fifo[access->entry];

        if (lanes == lanes_before && before && !qpu_any(*address ^ *before)) {
            *words = each[-1].tmu_fifo[access->entry];
        } else {
            const struct qpu_range *range = qpu_range_of(memory, access->site, false);
            qpu_u32 offset = *address - range->va;

            if (lanes != QPU_ALL_LANES)
                offset &= (qpu_u32)qpu_mask_from_bits(lanes);
            if (!qpu_any((qpu_u32)(offset >= range->bytes) | (offset & 3)))
                *words = load_word(range->host, &offset) & (qpu_u32)qpu_mask_from_bits(lanes);
            else if (!load_by_ranges(memory, access->site, address, lanes, words))
                break;
        }
        before = address;
        lanes_before = lanes;
        t->worker->bytes_read += 4 * (unsigned)__builtin_popcount(lanes);
    }
    return i;
}
