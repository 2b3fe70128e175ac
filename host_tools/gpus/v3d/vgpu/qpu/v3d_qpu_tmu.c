/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TMU general memory access: data words into tmud, then the address into tmua starts the access; results of
 * loads and atomics come out of a FIFO by ldtmu. Accesses are carried out when they start.
 *
 * Each access takes the low byte of the configuration that tmuau or tmuc last brought, shifting it; when
 * nothing is left the byte is 0xff (a regular 32-bit access, lane by lane). Byte: element type 2:0, operation
 * 6:3, bit 7 set: only lanes with a sample mask, clear: every lane of a quad that has one (spilled registers
 * are kept for such lanes too); the condition of the write to tmua then selects among these. Source:
 * Mesa 22.3.6, src/broadcom: compiler/nir_to_vir.c (GENERAL_TMU_LOOKUP_*), cle/v3d_packet_v33.xml ("TMU Op").
 * tmuc: py-videocore6, tests/test_tmu.py, which ran on a Raspberry Pi 4.
 */
#include "meter.h"
#include "v3d_qpu_flow.h"
#include "v3d_qpu_gang.h"

#include <stddef.h>

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

bool qpu_tmu_overflow(struct qpu_thread *t, const struct qpu_uop *u)
{
    qpu_fail(t, u, "TMU result FIFO overflows its %u entries", t->tmu_fifo_limit);
    return false;
}

/* ---- the access map ---- */

void qpu_tmu_note(struct qpu_memory *memory, const struct qpu_access *access, bool write)
{
    const qpu_word_any *address = (const qpu_word_any *)&access->address;
    unsigned left = access->lanes;

    if (left == QPU_ALL_LANES) {
        if (access->components == 1 && qpu_consecutive(access->address) &&
            address[0] % V3D_PAGE_BYTES <= V3D_PAGE_BYTES - sizeof(qpu_u32)) {
            qpu_note(memory, address[0], sizeof(qpu_u32), write);
            return;
        }
        if (!qpu_any(access->address ^ qpu_first_of_quads(access->address)))
            left = 0x1111; /* one address for each quad, or for all */
    }
    for (; left; left &= left - 1)
        qpu_note(memory, address[__builtin_ctz(left)], 4 * access->components, write);
}

void qpu_tmu_take(struct qpu_thread *t, const struct qpu_access *access)
{
    for (unsigned c = 0; c < access->components; c++) {
        struct qpu_taken *taken = &t->tmu_taken[(access->entry + c) % QPU_TMU_FIFO];

        taken->lanes = access->lanes;
        taken->bytes = access->bytes;
        for (unsigned lane = 0; lane < QPU_LANES; lane++) {
            taken->address[lane] = qpu_component_address(access, lane, c);
            if (access->bytes == 4 && access->lanes >> lane & 1 && qpu_own_loads(t, taken->address[lane]))
                taken->lanes &= ~(1u << lane);
        }
    }
}

/* ---- stores: where lanes collide, the highest wins ---- */

static bool store_each(struct qpu_thread *t, const struct qpu_access *access)
{
    struct qpu_memory *memory = &t->worker->memory;

    for (unsigned left = access->lanes; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);

        for (unsigned c = 0; c < access->components; c++) {
            uint32_t va = qpu_component_address(access, lane, c), value = t->tmu_data[c][lane];
            uint8_t *at = qpu_host(memory, access->site, va, access->bytes, true);

            if (!at) {
                qpu_fault(t, va, true);
                return false;
            }
            __builtin_memcpy(at, &value, access->bytes); /* little-endian, as the GPU */
        }
    }
    return true;
}

static inline void store_words(struct qpu_thread *t, const struct qpu_access *access)
{
    const qpu_word_any *offset = (const qpu_word_any *)&access->offset;

    if (access->components == 1 && access->lanes == QPU_ALL_LANES && qpu_consecutive(access->offset)) {
        *(qpu_u32_unaligned *)(access->base + offset[0]) = (qpu_u32_unaligned)t->tmu_data[0];
        return;
    }
    for (unsigned left = access->lanes; left; left &= left - 1) {
        unsigned lane = (unsigned)__builtin_ctz(left);

        for (unsigned c = 0; c < access->components; c++)
            *(qpu_word_any *)(access->base + offset[lane] + 4 * c) = t->tmu_data[c][lane];
    }
}

static bool store(struct qpu_thread *t, const struct qpu_access *access)
{
    if (!access->base || access->bytes != 4) {
        if (!store_each(t, access))
            return false;
    } else {
        store_words(t, access);
        if (t->worker->memory.mmu->track)
            qpu_tmu_note(&t->worker->memory, access, true);
    }
    if (t->worker->stored)
        qpu_note_stored(t->worker, access);
    if (t->worker->own)
        qpu_own_stored(t, access);
    t->worker->bytes_written +=
        (unsigned)__builtin_popcount(access->lanes) * access->components * access->bytes;
    return true;
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

static bool atomic(struct qpu_thread *t, const struct qpu_uop *u, const struct qpu_access *access)
{
    struct qpu_memory *memory = &t->worker->memory;
    unsigned operation = access->operation;
    qpu_u32 x = t->tmu_data[0], y = t->tmu_data[1], result = {0};
    unsigned want = operation == TMU_OP_COMPARE_EXCHANGE ? 2 : 1;

    if (access->words == 0 && (operation == TMU_OP_AND || operation == TMU_OP_OR)) {
        x = qpu_splat(operation == TMU_OP_AND ? 1 : UINT32_MAX);
        operation = QPU_TMU_ADD;
    } else if (access->words != want) {
        qpu_fail(t, u, "TMU operation %u with %u data words is not modelled", operation, access->words);
        return false;
    }
    if (access->type != (want == 2 ? TMU_TYPE_VEC2 : TMU_TYPE_U32)) {
        qpu_fail(t, u, "atomic TMU operation %u on element type %u is not modelled", operation, access->type);
        return false;
    }
    if (access->room == 0)
        return qpu_tmu_overflow(t, u);
    if (t->worker->program->tmu_decides)
        qpu_tmu_take(t, access);
    for (unsigned lane = 0; lane < QPU_LANES; lane++) {
        if (!(access->lanes >> lane & 1))
            continue;
        uint32_t va = access->address[lane];
        uint8_t *at = qpu_granted(memory, access->site, va, true);

        if (!at) {
            qpu_fault(t, va, true);
            return false;
        }
        if (memory->mmu->track) {
            qpu_note(memory, va, 4, false); /* before the write: what is there decides the result */
            qpu_note(memory, va, 4, true);
        }
        uint32_t *word = (uint32_t *)(void *)at, old = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(word, &old, combine(operation, old, x[lane], y[lane]), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
            ;
        result[lane] = old;
    }
    t->tmu_fifo[access->entry] = result;
    if (t->worker->stored)
        qpu_note_stored(t->worker, access);
    if (t->worker->own)
        qpu_own_stored(t, access);
    uint64_t bytes = 4u * (unsigned)__builtin_popcount(access->lanes);
    t->worker->bytes_read += bytes;
    t->worker->bytes_written += bytes;
    return true;
}

/* ---- the registers ---- */

const struct qpu_uop *qpu_tmu_data(struct qpu_thread *t, const struct qpu_uop *u)
{
    if (t->tmu_data_count == QPU_TMU_DATA)
        return qpu_fail(t, u, "more than %u TMU data words", QPU_TMU_DATA);
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)
        each->tmu_data[t->tmu_data_count] = each->slot[u->a];
    t->tmu_data_count++;
    QPU_GO_ON(t, u);
}

/* A configuration from a register, as from the uniform stream: one for a whole gang. */
const struct qpu_uop *qpu_tmu_configure(struct qpu_thread *t, const struct qpu_uop *u)
{
    const qpu_u32 config = qpu_splat(t->slot[u->a][0]);

    if (qpu_any(config ^ t->slot[u->a]))
        return qpu_fail(t, u, "TMU configuration with lanes that differ: not modelled");
    for (unsigned i = 1; i < t->gang; i++)
        if (qpu_any(config ^ t[i].slot[u->a]))
            qpu_gang_part(t, u, i);
    t->tmu_config = config[0];
    QPU_GO_ON(t, u);
}

static const struct {
    uint8_t components, bytes; /* bytes of one component */
} elements[8] = {
    [TMU_TYPE_S8] = {1, 1},   [TMU_TYPE_S16] = {1, 2}, [TMU_TYPE_VEC2] = {2, 4}, [TMU_TYPE_VEC3] = {3, 4},
    [TMU_TYPE_VEC4] = {4, 4}, [TMU_TYPE_U8] = {1, 1},  [TMU_TYPE_U16] = {1, 2},  [TMU_TYPE_U32] = {1, 4},
};

/*
 * Set the access's base and offsets if all lanes that take part have aligned addresses in one range of
 * memory, and no vector goes past the end of its 16 bytes, or where it does not wrap there, of its page.
 */
QPU_INLINE void find_base(struct qpu_thread *t, struct qpu_access *access, bool write)
{
    const struct qpu_range *range = qpu_range_of(&t->worker->memory, access->site, write);
    qpu_u32 offset = access->address - range->va;

    if (access->lanes != QPU_ALL_LANES)
        offset &= (qpu_u32)qpu_mask_from_bits(access->lanes);
    qpu_u32 refused = (qpu_u32)(offset >= range->bytes) | (offset & (access->bytes - 1));
    const uint32_t end = access->wraps ? 16 : V3D_PAGE_BYTES;
    if (access->components > 1)
        refused |= (qpu_u32)((offset & (end - 1)) > end - 4 * access->components);
    access->offset = offset;
    access->base = qpu_any(refused) ? NULL : range->host;
}

/* One thread's part in an access; false: it has failed. */
static bool take_part(struct qpu_thread *t, const struct qpu_uop *u, struct qpu_access *access, bool exact)
{
    access->address = t->slot[u->a];
    access->exist = exact ? t->exist : qpu_quads_with(t->exist);
    access->lanes = access->exist & qpu_condition_bits(t, u->cond);
    find_base(t, access, access->words > 0);
    if (!access->base) {
        const qpu_u32 misaligned = access->address & (access->bytes - 1);
        unsigned lanes = qpu_mask_bits(misaligned != 0) & access->lanes;

        if (lanes) {
            qpu_fail(t, u,
                     "TMU access of %u bytes at an address that is no multiple of it (lane mask 0x%04x)",
                     access->bytes, lanes);
            return false;
        }
        /* The site may have gone to another range, which is that of the first lane. */
        if (access->operation == QPU_TMU_REGULAR && access->lanes &&
            qpu_granted(&t->worker->memory, access->site, access->address[__builtin_ctz(access->lanes)],
                        access->words > 0))
            find_base(t, access, access->words > 0);
    }
    if (t->labels)
        qpu_flow_access(t, u, access);
    if (access->operation == QPU_TMU_REGULAR && access->words == 0)
        return qpu_tmu_fetch(t, u, access);
    if (access->operation == QPU_TMU_REGULAR && access->words == access->components)
        return store(t, access);
    if (access->operation == QPU_TMU_REGULAR) {
        qpu_fail(t, u, "store of %u components with %u TMU data words", access->components, access->words);
        return false;
    }
    if (access->operation == QPU_TMU_ADD && access->words == 0)
        return true; /* prefetch */
    if (access->operation <= TMU_OP_XOR)
        return atomic(t, u, access);
    qpu_fail(t, u, "reserved TMU operation %u (configuration 0x%02x)", access->operation,
             (unsigned)exact << 7 | access->operation << 3 | access->type);
    return false;
}

/* What a thread's part costs. A vector that wraps stays in its 16 bytes, and so in one line. */
static void meter_part(struct vgpu_meter *meter, const struct qpu_access *access)
{
    const bool load = access->words == 0 || access->operation != QPU_TMU_REGULAR, write = access->words > 0;
    const unsigned bytes = access->wraps ? 1 : access->components * access->bytes;
    uint64_t va[QPU_LANES];

    for (unsigned lane = 0; lane < QPU_LANES; lane++)
        va[lane] = access->address[lane];
    if (load) {
        meter->row.loads++;
        meter->row.loaded_words += access->components;
        vgpu_meter_access(meter, va, access->lanes, bytes, false);
    }
    if (write) {
        meter->row.stores++;
        meter->row.stored_words += access->components;
        vgpu_meter_access(meter, va, access->lanes, bytes, true);
    }
}

/* Write to tmua or tmuau. */
const struct qpu_uop *qpu_tmu_address(struct qpu_thread *t, const struct qpu_uop *u)
{
    const uint32_t uniform_va = t->uniform_va, tmu_config = t->tmu_config;

    if (u->value & QPU_TMU_CONFIGURED && !qpu_pop_uniform(t, &t->tmu_config))
        return NULL;
    unsigned config = t->tmu_config & 0xff;
    t->tmu_config = t->tmu_config >> 8 | 0xff000000;

    const unsigned type = config & 7, more = t->tmu_fifo_limit < QPU_TMU_FIFO && u->value & QPU_TMU_TAKES,
                   limit = t->tmu_fifo_limit + more;
    struct qpu_access access = {
        .site = u->b,
        .type = type,
        .operation = config >> 3 & 15,
        .components = elements[type].components,
        .bytes = elements[type].bytes,
        .words = t->tmu_data_count,
        .entry = (t->tmu_fifo_head + t->tmu_fifo_count) % QPU_TMU_FIFO,
        .room = limit - t->tmu_fifo_count,
        .own = (config >> 3 & 15) == QPU_TMU_REGULAR && u->value & QPU_TMU_OWN,
        /* Mesa 25.0.7, src/broadcom/vulkan/v3dv_device.c (scalarBlockLayout): a V3D 4.2 does, a 7.1 does not.
         */
        .wraps = elements[type].components > 1 && v3d_traits(t->worker->program->version)->vectors_wrap,
    };
    const bool regular = access.operation == QPU_TMU_REGULAR;
    const bool prefetch = access.operation == QPU_TMU_ADD && access.words == 0;

    const bool plain = regular && access.words == 0 && type == TMU_TYPE_U32 && access.room > 0 &&
                       !t->labels && !t->worker->memory.mmu->track && !t->worker->memory.mmu->meter &&
                       !t->worker->program->tmu_decides;

    for (unsigned i = plain ? qpu_tmu_fetch_plain(t, u, &access, config & 0x80) : 0; i < t->gang; i++) {
        /* What an atomic operation returns depends on all that were before it: threads make them in turn. */
        bool apart = i > 0 && !regular && !prefetch;

        if (!apart && take_part(t + i, u, &access, config & 0x80)) {
            if (t->worker->memory.mmu->meter)
                meter_part(t->worker->memory.mmu->meter, &access);
            continue;
        }
        if (i == 0)
            return NULL;
        struct qpu_thread *rest = qpu_gang_part(t, u, i);
        rest->uniform_va = uniform_va;
        rest->tmu_config = tmu_config;
        if (u->value & QPU_TMU_CONFIGURED) /* which they read again */
            t->worker->bytes_read -= 4 * rest->gang;
    }
    if (!prefetch)
        t->tmu_fifo_count += !regular ? 1 : access.words == 0 ? access.components : 0;
    t->tmu_data_count = 0;
    return u + 1;
}

const struct qpu_uop *qpu_tmu_load(struct qpu_thread *t, const struct qpu_uop *u)
{
    if (t->tmu_fifo_count == 0)
        return qpu_fail(t, u, "ldtmu with no TMU result on its way");
    for (struct qpu_thread *each = t, *end = t + t->gang; each < end; each++)
        each->slot[u->dst] = each->tmu_fifo[t->tmu_fifo_head];
    t->tmu_fifo_head = (t->tmu_fifo_head + 1) % QPU_TMU_FIFO;
    t->tmu_fifo_count--;
    QPU_GO_ON(t, u);
}
