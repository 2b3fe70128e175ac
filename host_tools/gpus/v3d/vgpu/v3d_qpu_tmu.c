/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TMU general memory access: data words into tmud, then the address into tmua starts the access; results of
 * loads and atomics come out of a FIFO by ldtmu. Accesses are carried out when they start.
 *
 * Each access takes the low byte of the configuration that tmuau last brought, shifting it; when nothing is
 * left the byte is 0xff (a regular 32-bit access, lane by lane). Byte: element type 2:0, operation 6:3,
 * bit 7 set: only lanes with a sample mask, clear: every lane of a quad that has one (spilled registers are
 * kept for such lanes too); the condition of the write to tmua then selects among these. Source: Mesa 22.3.6,
 * src/broadcom: compiler/nir_to_vir.c (GENERAL_TMU_LOOKUP_*), cle/v3d_packet_v33.xml ("TMU Op").
 */
#include "v3d_qpu_flow.h"

enum {
    TMU_TYPE_S8 = 0,
    TMU_TYPE_S16 = 1,
    TMU_TYPE_VEC2 = 2,
    TMU_TYPE_VEC4 = 4,
    TMU_TYPE_U8 = 5,
    TMU_TYPE_U16 = 6,
    TMU_TYPE_U32 = 7,
};

enum {
    TMU_OP_SUB = 1,
    TMU_OP_EXCHANGE = 2,
    TMU_OP_COMPARE_EXCHANGE = 3,
    TMU_OP_UMIN = 4,
    TMU_OP_UMAX = 5,
    TMU_OP_SMIN = 6,
    TMU_OP_SMAX = 7,
    TMU_OP_AND = 8, /* without data: increment */
    TMU_OP_OR = 9,  /* without data: decrement */
    TMU_OP_XOR = 10,
};

typedef uint32_t word_any __attribute__((may_alias, aligned(1)));
typedef uint16_t half_any __attribute__((may_alias, aligned(1)));

static const struct qpu_uop *fifo_overflow(struct qpu_thread *t, const struct qpu_uop *u)
{
    return qpu_fail(t, u, "TMU result FIFO overflows its %u entries", t->tmu_fifo_limit);
}

static qpu_u32 *fifo_entry(struct qpu_thread *t, unsigned ahead)
{
    return &t->tmu_fifo[(t->tmu_fifo_head + t->tmu_fifo_count + ahead) % QPU_TMU_FIFO];
}

/* ---- loads ---- */

static uint32_t load_element(const uint8_t *at, unsigned type)
{
    switch (type) {
    case TMU_TYPE_S8: return (uint32_t)(int8_t)*at;
    case TMU_TYPE_S16: return (uint32_t)(int16_t) * (const half_any *)at;
    case TMU_TYPE_U8: return *at;
    case TMU_TYPE_U16: return *(const half_any *)at;
    default: return *(const word_any *)at;
    }
}

/* Elements of less than 32 bits, and vectors that wrap. */
static const struct qpu_uop *load_each(struct qpu_thread *t, const struct qpu_uop *u,
                                       const struct qpu_access *access)
{
    for (unsigned c = 0; c < access->components; c++) {
        qpu_u32 result = {0};

        for (unsigned lane = 0; lane < QPU_LANES; lane++) {
            if (!(access->lanes >> lane & 1))
                continue;
            uint32_t va = qpu_component_address(access, lane, c);
            const uint8_t *at = qpu_host(t->worker, va, access->bytes, false);
            if (!at)
                return qpu_fault(t, va, false);
            result[lane] = load_element(at, access->type);
        }
        *fifo_entry(t, c) = result;
    }
    return u + 1;
}

/* Words at `at` of each lane into the FIFO. */
static inline void load_words(struct qpu_thread *t, unsigned components, const uint8_t *const at[QPU_LANES])
{
    if (components == 4) { /* the vectors of four lanes are four columns of four */
        qpu_quad *column[4];

        for (unsigned c = 0; c < 4; c++)
            column[c] = (qpu_quad *)fifo_entry(t, c);
        for (int quad = 0; quad < QPU_QUADS; quad++) {
            qpu_quad row[4];

            for (int i = 0; i < 4; i++)
                row[i] = (qpu_quad) * (const qpu_quad_unaligned *)at[4 * quad + i];
            qpu_quad low01 = __builtin_shufflevector(row[0], row[1], 0, 4, 1, 5);
            qpu_quad low23 = __builtin_shufflevector(row[2], row[3], 0, 4, 1, 5);
            qpu_quad high01 = __builtin_shufflevector(row[0], row[1], 2, 6, 3, 7);
            qpu_quad high23 = __builtin_shufflevector(row[2], row[3], 2, 6, 3, 7);
            column[0][quad] = __builtin_shufflevector(low01, low23, 0, 1, 4, 5);
            column[1][quad] = __builtin_shufflevector(low01, low23, 2, 3, 6, 7);
            column[2][quad] = __builtin_shufflevector(high01, high23, 0, 1, 4, 5);
            column[3][quad] = __builtin_shufflevector(high01, high23, 2, 3, 6, 7);
        }
        return;
    }
    for (unsigned c = 0; c < components; c++) {
        qpu_u32 result = {0};

        for (int lane = 0; lane < QPU_LANES; lane++)
            result[lane] = *(const word_any *)(at[lane] + 4 * c);
        *fifo_entry(t, c) = result;
    }
}

/* All lanes in one page, words that do not wrap. */
static void load_page_words(struct qpu_thread *t, const struct qpu_access *access,
                            const struct qpu_page *page)
{
    const qpu_u32 offset = access->address & (V3D_PAGE_BYTES - 1);
    const qpu_u32 from_first = access->address - access->address[0];
    const uint32_t bytes = 4 * access->components;
    const uint8_t *at[QPU_LANES];

    if (!qpu_any(from_first)) { /* one address for all lanes */
        qpu_note(page, offset[0], bytes, false);
        for (unsigned c = 0; c < access->components; c++)
            *fifo_entry(t, c) = qpu_splat(*(const word_any *)(page->host + offset[0] + 4 * c));
    } else if (access->components == 1 && !qpu_any(from_first ^ QPU_LANE_NUMBERS * 4)) { /* consecutive */
        qpu_note(page, offset[0], sizeof(qpu_u32), false);
        *fifo_entry(t, 0) = (qpu_u32) * (const qpu_u32_unaligned *)(page->host + offset[0]);
    } else {
        for (int lane = 0; lane < QPU_LANES; lane++) {
            qpu_note(page, offset[lane], bytes, false);
            at[lane] = page->host + offset[lane];
        }
        load_words(t, access->components, at);
    }
}

/* Words that do not wrap, anywhere. Lanes that take no part get zero (on the device: unknown). */
static const struct qpu_uop *load_far_words(struct qpu_thread *t, const struct qpu_uop *u,
                                            const struct qpu_access *access)
{
    static const uint8_t nothing[16];
    const uint8_t *at[QPU_LANES];

    for (unsigned lane = 0; lane < QPU_LANES; lane++) {
        at[lane] = nothing;
        if (!(access->lanes >> lane & 1))
            continue;
        uint32_t va = access->address[lane];
        at[lane] = qpu_host(t->worker, va, 4 * access->components, false);
        if (!at[lane])
            return qpu_fault(t, va, false);
    }
    load_words(t, access->components, at);
    return u + 1;
}

/* The page, if all lanes take part and lie in one; else NULL. The access must not wrap. */
static const struct qpu_page *common_page(struct qpu_thread *t, const struct qpu_access *access, bool write)
{
    uint32_t first = access->address[0];

    if (access->lanes != 0xffff || qpu_any((access->address ^ first) & ~(uint32_t)(V3D_PAGE_BYTES - 1)))
        return NULL;
    return qpu_page(t->worker, first, write);
}

/* Whether the access is of whole words and no vector goes past the end of its 16 bytes. */
static bool plain_words(const struct qpu_access *access)
{
    if (access->components == 1)
        return access->bytes == 4;
    return !qpu_any((qpu_u32)((access->address & 15) > 16 - 4 * access->components));
}

static const struct qpu_uop *load(struct qpu_thread *t, const struct qpu_uop *u,
                                  const struct qpu_access *access)
{
    const struct qpu_uop *next = u + 1;
    const struct qpu_page *page;

    if (t->tmu_fifo_count + access->components > t->tmu_fifo_limit)
        return fifo_overflow(t, u);
    if (!plain_words(access))
        next = load_each(t, u, access);
    else if ((page = common_page(t, access, false)))
        load_page_words(t, access, page);
    else
        next = load_far_words(t, u, access);
    t->tmu_fifo_count += access->components;
    t->worker->bytes_read += (unsigned)__builtin_popcount(access->lanes) * access->components * access->bytes;
    return next;
}

/* ---- stores: where lanes collide, the highest wins ---- */

static const struct qpu_uop *store(struct qpu_thread *t, const struct qpu_uop *u,
                                   const struct qpu_access *access)
{
    bool consecutive = access->components == 1 && access->bytes == 4 &&
                       !qpu_any((access->address - access->address[0]) ^ QPU_LANE_NUMBERS * 4);
    const struct qpu_page *page = consecutive ? common_page(t, access, true) : NULL;

    if (page) {
        qpu_note(page, access->address[0], sizeof(qpu_u32), true);
        *(qpu_u32_unaligned *)(page->host + access->address[0] % V3D_PAGE_BYTES) =
            (qpu_u32_unaligned)t->tmu_data[0];
    } else {
        for (unsigned lane = 0; lane < QPU_LANES; lane++) {
            if (!(access->lanes >> lane & 1))
                continue;
            for (unsigned c = 0; c < access->components; c++) {
                uint32_t va = qpu_component_address(access, lane, c), value = t->tmu_data[c][lane];
                uint8_t *at = qpu_host(t->worker, va, access->bytes, true);

                if (!at)
                    return qpu_fault(t, va, true);
                __builtin_memcpy(at, &value, access->bytes); /* little-endian, as the GPU */
            }
        }
    }
    t->worker->bytes_written +=
        (unsigned)__builtin_popcount(access->lanes) * access->components * access->bytes;
    return u + 1;
}

/* ---- atomics: 32 bits, the value from before is the result ---- */

static uint32_t combine(unsigned operation, uint32_t old, uint32_t x, uint32_t y)
{
    switch (operation) {
    case QPU_TMU_ADD: return old + x;
    case TMU_OP_SUB: return old - x;
    case TMU_OP_EXCHANGE: return x;
    case TMU_OP_COMPARE_EXCHANGE: return old == x ? y : old; /* data: expected, then new */
    case TMU_OP_UMIN: return old < x ? old : x;
    case TMU_OP_UMAX: return old > x ? old : x;
    case TMU_OP_SMIN: return (int32_t)old < (int32_t)x ? old : x;
    case TMU_OP_SMAX: return (int32_t)old > (int32_t)x ? old : x;
    case TMU_OP_AND: return old & x;
    case TMU_OP_OR: return old | x;
    default: return old ^ x;
    }
}

static const struct qpu_uop *atomic(struct qpu_thread *t, const struct qpu_uop *u,
                                    const struct qpu_access *access)
{
    unsigned operation = access->operation;
    qpu_u32 x = t->tmu_data[0], y = t->tmu_data[1], result = {0};
    unsigned want = operation == TMU_OP_COMPARE_EXCHANGE ? 2 : 1;

    if (t->tmu_data_count == 0 && (operation == TMU_OP_AND || operation == TMU_OP_OR)) {
        x = qpu_splat(operation == TMU_OP_AND ? 1 : UINT32_MAX);
        operation = QPU_TMU_ADD;
    } else if (t->tmu_data_count != want) {
        return qpu_fail(t, u, "TMU operation %u with %u data words is not modelled", operation,
                        t->tmu_data_count);
    }
    if (access->type != (want == 2 ? TMU_TYPE_VEC2 : TMU_TYPE_U32))
        return qpu_fail(t, u, "atomic TMU operation %u on element type %u is not modelled", operation,
                        access->type);
    if (t->tmu_fifo_count == t->tmu_fifo_limit)
        return fifo_overflow(t, u);
    for (unsigned lane = 0; lane < QPU_LANES; lane++) {
        if (!(access->lanes >> lane & 1))
            continue;
        uint32_t va = access->address[lane];
        const struct qpu_page *page = qpu_page(t->worker, va, true);

        if (!page)
            return qpu_fault(t, va, true);
        qpu_note(page, va, 4, false); /* before the write: what is there decides the result */
        qpu_note(page, va, 4, true);
        uint8_t *at = page->host + va % V3D_PAGE_BYTES;
        uint32_t *word = (uint32_t *)(void *)at, old = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(word, &old, combine(operation, old, x[lane], y[lane]), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            ;
        result[lane] = old;
    }
    *fifo_entry(t, 0) = result;
    t->tmu_fifo_count++;
    uint64_t bytes = 4u * (unsigned)__builtin_popcount(access->lanes);
    t->worker->bytes_read += bytes;
    t->worker->bytes_written += bytes;
    return u + 1;
}

/* ---- the registers ---- */

const struct qpu_uop *qpu_tmu_data(struct qpu_thread *t, const struct qpu_uop *u)
{
    if (t->tmu_data_count == QPU_TMU_DATA)
        return qpu_fail(t, u, "more than %u TMU data words", QPU_TMU_DATA);
    t->tmu_data[t->tmu_data_count++] = t->slot[u->a];
    return u + 1;
}

/* Write to tmua or, with u->value, tmuau: the configuration comes from the uniform stream. */
const struct qpu_uop *qpu_tmu_address(struct qpu_thread *t, const struct qpu_uop *u)
{
    if (u->value && !qpu_pop_uniform(t, &t->tmu_config))
        return NULL;
    unsigned config = t->tmu_config & 0xff;
    t->tmu_config = t->tmu_config >> 8 | 0xff000000;

    struct qpu_access access = {.address = t->slot[u->a], .type = config & 7, .operation = config >> 3 & 15};
    unsigned exist = qpu_mask_bits(t->msf != 0);

    if (!(config & 0x80)) {
        unsigned quads = exist | exist >> 1;
        exist = ((quads | quads >> 2) & 0x1111) * 15;
    }
    access.exist = exist;
    access.lanes = exist & qpu_mask_bits(qpu_condition(t, u->cond));
    access.components = access.type >= TMU_TYPE_VEC2 && access.type <= TMU_TYPE_VEC4 ? access.type : 1;
    access.bytes = access.type == TMU_TYPE_S8 || access.type == TMU_TYPE_U8     ? 1
                   : access.type == TMU_TYPE_S16 || access.type == TMU_TYPE_U16 ? 2
                                                                                : 4;
    qpu_u32 misaligned = access.address & (access.bytes - 1);
    if (qpu_any(misaligned) && (qpu_mask_bits(misaligned != 0) & access.lanes))
        return qpu_fail(t, u,
                        "TMU access of %u bytes at an address that is no multiple of it (lane mask 0x%04x)",
                        access.bytes, qpu_mask_bits(misaligned != 0) & access.lanes);

    if (t->labels)
        qpu_flow_access(t, u, &access);
    const struct qpu_uop *next;
    if (access.operation == QPU_TMU_REGULAR && t->tmu_data_count == 0)
        next = load(t, u, &access);
    else if (access.operation == QPU_TMU_REGULAR && t->tmu_data_count == access.components)
        next = store(t, u, &access);
    else if (access.operation == QPU_TMU_REGULAR)
        next = qpu_fail(t, u, "store of %u components with %u TMU data words", access.components,
                        t->tmu_data_count);
    else if (access.operation == QPU_TMU_ADD && t->tmu_data_count == 0)
        next = u + 1; /* prefetch */
    else if (access.operation <= TMU_OP_XOR)
        next = atomic(t, u, &access);
    else
        next = qpu_fail(t, u, "reserved TMU operation %u (configuration 0x%02x)", access.operation, config);
    t->tmu_data_count = 0;
    return next;
}

const struct qpu_uop *qpu_tmu_load(struct qpu_thread *t, const struct qpu_uop *u)
{
    if (t->tmu_fifo_count == 0)
        return qpu_fail(t, u, "ldtmu with no TMU result on its way");
    t->slot[u->dst] = t->tmu_fifo[t->tmu_fifo_head];
    t->tmu_fifo_head = (t->tmu_fifo_head + 1) % QPU_TMU_FIFO;
    t->tmu_fifo_count--;
    return u + 1;
}
