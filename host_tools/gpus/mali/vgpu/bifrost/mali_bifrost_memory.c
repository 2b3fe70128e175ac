/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads and stores of one to four words a lane. Addresses are multiples of 4, so that a word is in one page.
 * Where lanes write to the same place, the highest wins. Sources: see mali_bifrost.h.
 */
#include "mali_bifrost_batch.h"

#include <string.h>

#include "mali_bifrost_lanes.h"

enum { PAGE_BYTES = 4096, PAGE_SHIFT = 12 };

/* An access of all lanes. */
struct access {
    struct bifrost_batch *batch;
    const struct bifrost_code *code;
    uint64_t lanes;
    bool write;
    uint64_t va[BIFROST_LANES];
};

/* Ask the MMU for an address's page; false after noting the fault. */
static bool refill(struct bifrost_worker *worker, struct bifrost_tlb *tlb, uint64_t va, bool write)
{
    struct bifrost_failure *failure = &worker->failure;
    uint64_t page = va >> PAGE_SHIFT, entry = page % BIFROST_TLB;
    uint8_t *at = worker->memory->host(worker->memory, page << PAGE_SHIFT, PAGE_BYTES,
                                       write ? MALI_WRITE : MALI_READ, &failure->fault, &tlb->flags[entry]);

    tlb->page[entry] = at ? page + 1 : 0;
    tlb->host[entry] = at;
    if (!at) {
        failure->fault.va = va;
        failure->text[0] = '\0';
        failure->status = write ? MALI_JOB_WRITE_FAULT : MALI_JOB_READ_FAULT;
    }
    return at != NULL;
}

/* The entry of an address's page; NULL after noting the fault. */
static inline const struct bifrost_tlb *find(struct bifrost_worker *worker, uint64_t va, bool write,
                                             uint64_t *entry)
{
    struct bifrost_tlb *tlb = write ? &worker->writable : &worker->readable;
    uint64_t page = va >> PAGE_SHIFT;

    *entry = page % BIFROST_TLB;
    return tlb->page[*entry] == page + 1 || refill(worker, tlb, va, write) ? tlb : NULL;
}

/* Host address of bytes in one page, which are accessed now, or NULL after noting the fault. */
static inline uint8_t *host(struct bifrost_worker *worker, uint64_t va, uint32_t bytes, bool write)
{
    uint64_t entry;
    const struct bifrost_tlb *tlb = find(worker, va, write, &entry);

    if (!tlb)
        return NULL;
    if (tlb->flags[entry])
        access_map_mark(tlb->flags[entry] + va % PAGE_BYTES, bytes, write);
    return tlb->host[entry] + va % PAGE_BYTES;
}

static inline void copy(bifrost_vector *reg, int lane, uint8_t *at, unsigned words, bool write)
{
    for (unsigned w = 0; w < words; w++) { /* little-endian, as the GPU */
        if (write)
            memcpy(at + 4 * w, &reg[w][lane], 4);
        else
            memcpy(&reg[w][lane], at + 4 * w, 4);
    }
}

/* Lane by lane, and word by word where a page ends. */
static bool transfer_each(const struct access *access, unsigned words)
{
    struct bifrost_worker *worker = access->batch->worker;
    bifrost_vector *reg = &access->batch->slot[access->code->staging];

    for (uint64_t left = access->lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        uint64_t va = access->va[lane];
        unsigned together = va % PAGE_BYTES + 4 * words <= PAGE_BYTES ? words : 1;
        for (unsigned w = 0; w < words; w += together) {
            uint8_t *at = host(worker, va + 4 * w, 4 * together, access->write);
            if (!at)
                return false;
            copy(reg + w, lane, at, together, access->write);
        }
    }
    return true;
}

/* All lanes, whose words are in one page. */
static inline void transfer_page(const struct access *access, uint8_t *page, unsigned words)
{
    bifrost_vector *reg = &access->batch->slot[access->code->staging];

    for (int lane = 0; lane < BIFROST_LANES; lane++)
        copy(reg, lane, page + access->va[lane] % PAGE_BYTES, words, access->write);
}

/* Note that all lanes access words in one page. */
static void note_page(const struct access *access, uint8_t *flags, unsigned words)
{
    for (int lane = 0; lane < BIFROST_LANES; lane++)
        access_map_mark(flags + access->va[lane] % PAGE_BYTES, 4 * words, access->write);
}

/* Lanes that all read the same words. */
static void transfer_same(const struct access *access, const uint8_t *at, unsigned words)
{
    bifrost_vector *reg = &access->batch->slot[access->code->staging];

    for (unsigned w = 0; w < words; w++) {
        uint32_t value;
        memcpy(&value, at + 4 * w, 4);
        for (int lane = 0; lane < BIFROST_LANES; lane++)
            reg[w][lane] = value;
    }
}

static bool transfer(const struct access *access)
{
    struct bifrost_worker *worker = access->batch->worker;
    unsigned words = access->code->words;
    uint64_t first = access->va[0], differ = 0, far = 0;

    for (int i = 0; i < BIFROST_LANES; i++) {
        differ |= access->va[i] ^ first;
        far |= (uint64_t)(access->va[i] % PAGE_BYTES > PAGE_BYTES - 4 * words);
    }
    if (~access->lanes || far || differ >> PAGE_SHIFT || (!differ && access->write))
        return transfer_each(access, words);
    if (!differ) {
        const uint8_t *at = host(worker, first, 4 * words, false);
        if (at)
            transfer_same(access, at, words);
        return at != NULL;
    }
    uint64_t entry;
    const struct bifrost_tlb *tlb = find(worker, first, access->write, &entry);
    if (!tlb)
        return false;
    uint8_t *page = tlb->host[entry];
    if (tlb->flags[entry])
        note_page(access, tlb->flags[entry], words);
    if (words == 1)
        transfer_page(access, page, 1);
    else if (words == 4)
        transfer_page(access, page, 4);
    else
        transfer_page(access, page, words);
    return true;
}

/* ---- addresses ---- */

/* Those in storage of a thread or a group are offsets. False: refused. */
static bool find_addresses(struct access *access)
{
    const struct bifrost_batch *batch = access->batch;
    const struct bifrost_code *code = access->code;
    const struct bifrost_environment *environment = batch->worker->environment;
    const uint32_t *low = batch->slot[SLOT_ADDRESS], *high = batch->slot[SLOT_ADDRESS + 1];
    const uint32_t *own = batch->slot[SLOT_STORAGE], *own_high = batch->slot[SLOT_STORAGE + 1];
    uint64_t bits = 0;

    for (int i = 0; i < BIFROST_LANES; i++) {
        uint64_t base = code->segment == SEGMENT_NONE     ? (uint64_t)high[i] << 32
                        : code->segment == SEGMENT_THREAD ? own[i] | (uint64_t)own_high[i] << 32
                                                          : environment->group_storage;
        access->va[i] = base + low[i];
        bits |= access->va[i];
    }
    if (code->segment != SEGMENT_THREAD && bits % 4 == 0)
        return true;
    for (uint64_t left = access->lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        if (access->va[lane] % 4)
            return bifrost_fail(batch->worker, code, MALI_INSTR_ALIGN_FAULT,
                                "%s at GPU address 0x%llx, which is no multiple of 4",
                                access->write ? "a store" : "a load", (unsigned long long)access->va[lane]);
        if (code->segment == SEGMENT_THREAD &&
            (uint64_t)low[lane] + 4u * code->words > environment->thread_bytes)
            return bifrost_fail(batch->worker, code, MALI_INSTR_TLS_FAULT,
                                "%s at 0x%x in a thread's storage of %u bytes",
                                access->write ? "a store" : "a load", low[lane], environment->thread_bytes);
    }
    return true;
}

bool bifrost_message(struct bifrost_batch *batch, const struct bifrost_code *code, uint64_t active)
{
    struct bifrost_worker *worker = batch->worker;
    struct access access = {
        .batch = batch, .code = code, .lanes = active, .write = code->message == MESSAGE_STORE};
    uint64_t bytes = 4u * code->words * (uint64_t)__builtin_popcountll(active);

    if (!find_addresses(&access) || !transfer(&access))
        return false;
    if (worker->program->seen)
        bifrost_watch_access(batch, code, access.va, active);
    if (access.write)
        worker->bytes_written += bytes;
    else
        worker->bytes_read += bytes;
    return true;
}
