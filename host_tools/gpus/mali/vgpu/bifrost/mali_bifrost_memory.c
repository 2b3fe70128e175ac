/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Loads and stores of one to four words a lane, and of less. Addresses of words are multiples of 4, so that a
 * word is in one page. Where lanes write to the same place, the highest wins. Sources: see mali_bifrost.h.
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

uint8_t *bifrost_host(struct bifrost_worker *worker, uint64_t va, uint32_t bytes, bool write)
{
    return host(worker, va, bytes, write);
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
    unsigned words = access->code->transfer.words;
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

/* ---- less than words ---- */

/* What is read, as it goes to registers. */
static uint64_t extended(const struct bifrost_transfer *transfer, uint64_t value)
{
    unsigned left = 64 - 8u * transfer->bytes;

    return transfer->is_signed ? (uint64_t)((int64_t)(value << left) >> left) : value;
}

/* Lane by lane and byte by byte: they need not be in one page. */
static bool transfer_bytes(const struct access *access)
{
    const struct bifrost_transfer *transfer = &access->code->transfer;
    bifrost_vector *reg = &access->batch->slot[access->code->staging];
    uint64_t mask = UINT64_MAX >> (64 - transfer->width) << transfer->shift;

    for (uint64_t left = access->lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        uint64_t pair = reg[0][lane] | (transfer->words == 2 ? (uint64_t)reg[1][lane] << 32 : 0), value = 0;

        for (unsigned i = 0; i < transfer->bytes; i++) {
            uint8_t *at = host(access->batch->worker, access->va[lane] + i, 1, access->write);
            if (!at)
                return false;
            if (access->write)
                *at = (uint8_t)(pair >> 8 * i);
            else
                value |= (uint64_t)*at << 8 * i;
        }
        if (access->write)
            continue;
        pair = (pair & ~mask) | (extended(transfer, value) << transfer->shift & mask);
        reg[0][lane] = (uint32_t)pair;
        if (transfer->words == 2)
            reg[1][lane] = (uint32_t)(pair >> 32);
    }
    return true;
}

/* ---- addresses ---- */

static const char *name(const struct bifrost_code *code)
{
    return code->message == MESSAGE_LOAD      ? "a load"
           : code->message == MESSAGE_STORE   ? "a store"
           : code->message == MESSAGE_ADDRESS ? "an address"
                                              : "an atomic";
}

/* Make of the name of a buffer its number. False: refused. */
static bool find_buffer(const struct access *access, uint32_t *buffer)
{
    const struct bifrost_environment *environment = access->batch->worker->environment;
    uint32_t table = *buffer >> 24, first = 0, count = environment->buffers;

    if (environment->tables) {
        if (table == VALHALL_TABLE_OF_TABLES)
            count = environment->tables;
        else if (table >= environment->tables)
            return bifrost_fail(access->batch->worker, access->code, MALI_INSTR_OPERAND_FAULT,
                                "%s from table %u of %u", name(access->code), table, environment->tables);
        else {
            first = environment->table[table];
            count = environment->table[table + 1] - first;
        }
        *buffer &= 0xffffff;
    }
    if (*buffer >= count)
        return bifrost_fail(access->batch->worker, access->code, MALI_INSTR_OPERAND_FAULT,
                            "%s from uniform buffer %u of %u", name(access->code), *buffer, count);
    *buffer += first;
    return true;
}

/* Where a lane's offset counts from, and how far it may reach. False: refused. */
static bool find_base(const struct access *access, int lane, uint64_t *base, uint64_t *room)
{
    const struct bifrost_batch *batch = access->batch;
    const struct bifrost_environment *environment = batch->worker->environment;
    uint32_t high = batch->slot[SLOT_ADDRESS + 1][lane];

    *room = UINT64_MAX;
    switch (access->code->segment) {
    case SEGMENT_NONE: *base = (uint64_t)high << 32; return true;
    case SEGMENT_GROUP: *base = environment->group_storage; return true;
    case SEGMENT_THREAD:
        *base = batch->slot[SLOT_STORAGE][lane] | (uint64_t)batch->slot[SLOT_STORAGE + 1][lane] << 32;
        *room = environment->thread_bytes;
        return true;
    default:
        if (!find_buffer(access, &high))
            return false;
        *base = environment->buffer[high].va;
        *room = environment->buffer[high].bytes;
        return true;
    }
}

/* Addresses in uniform buffers to registers: where they lie is not checked before they are used. */
static bool tell_addresses(const struct access *access)
{
    struct bifrost_batch *batch = access->batch;
    bifrost_vector *reg = &batch->slot[access->code->staging];

    for (uint64_t left = access->lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        uint64_t base = 0, room = 0;

        if (!find_base(access, lane, &base, &room))
            return false;
        base += batch->slot[SLOT_ADDRESS][lane];
        reg[0][lane] = (uint32_t)base;
        reg[1][lane] = (uint32_t)(base >> 32);
    }
    return true;
}

/* Those in storage of a thread or a group, and in uniform buffers, are offsets. False: refused. */
static bool find_addresses(struct access *access)
{
    const struct bifrost_code *code = access->code;
    struct bifrost_worker *worker = access->batch->worker;
    const uint32_t *low = access->batch->slot[SLOT_ADDRESS];

    for (uint64_t left = access->lanes; left; left &= left - 1) {
        int lane = __builtin_ctzll(left);
        uint64_t base = 0, room = 0;

        if (!find_base(access, lane, &base, &room))
            return false;
        access->va[lane] = base + low[lane];
        if (access->va[lane] % code->transfer.align)
            return bifrost_fail(worker, code, MALI_INSTR_ALIGN_FAULT,
                                "%s at GPU address 0x%llx, which is no multiple of %u", name(code),
                                (unsigned long long)access->va[lane], code->transfer.align);
        if ((uint64_t)low[lane] + code->transfer.bytes > room)
            return bifrost_fail(worker, code,
                                code->segment == SEGMENT_THREAD ? MALI_INSTR_TLS_FAULT
                                                                : MALI_INSTR_OPERAND_FAULT,
                                "%s at 0x%x in %s of %llu bytes", name(code), low[lane],
                                code->segment == SEGMENT_THREAD ? "a thread's storage" : "a uniform buffer",
                                (unsigned long long)room);
    }
    return true;
}

/* Of most messages: of all lanes at once, where all are multiples of 4. */
static bool find_pointers(struct access *access)
{
    const bool in_group = access->code->segment == SEGMENT_GROUP;
    const uint64_t group = access->batch->worker->environment->group_storage;
    const uint32_t *low = access->batch->slot[SLOT_ADDRESS], *high = access->batch->slot[SLOT_ADDRESS + 1];
    uint64_t bits = 0;

    for (int i = 0; i < BIFROST_LANES; i++) {
        access->va[i] = low[i] + (in_group ? group : (uint64_t)high[i] << 32);
        bits |= access->va[i];
    }
    return bits % 4 == 0;
}

/* What the access costs, warp by warp. */
static void meter_access(const struct bifrost_worker *worker, const struct access *access, bool write)
{
    const uint64_t warp = (UINT64_C(1) << worker->warp) - 1;
    const uint32_t bytes = access->code->transfer.bytes;
    struct vgpu_dispatch *row = &worker->meter->row;

    for (unsigned first = 0; first < BIFROST_LANES; first += worker->warp) {
        uint64_t lanes = access->lanes & warp << first;

        if (!lanes)
            continue;
        vgpu_meter_access(worker->meter, access->va, lanes, bytes, write);
        *(write ? &row->stores : &row->loads) += 1;
        *(write ? &row->stored_words : &row->loaded_words) += (bytes + 3) / 4;
        row->spills += access->code->segment == SEGMENT_THREAD;
    }
}

bool bifrost_message(struct bifrost_batch *batch, const struct bifrost_code *code, uint64_t active)
{
    struct bifrost_worker *worker = batch->worker;
    const struct bifrost_transfer *transferred = &code->transfer;
    struct access access = {
        .batch = batch, .code = code, .lanes = active, .write = code->message == MESSAGE_STORE};
    uint64_t bytes = transferred->bytes * (uint64_t)__builtin_popcountll(active);
    bool whole = transferred->bytes == 4 * transferred->words && transferred->align == 4;

    if (code->message == MESSAGE_ADDRESS) {
        if (worker->program->seen)
            bifrost_watch_access(batch, code, NULL, active);
        return tell_addresses(&access);
    }
    bool plain = code->segment == SEGMENT_NONE || code->segment == SEGMENT_GROUP;
    if (!(plain && find_pointers(&access)) && !find_addresses(&access))
        return false;
    if (code->message == MESSAGE_ATOMIC ? !bifrost_atomic(batch, code, access.va, active)
        : whole                         ? !transfer(&access)
                                        : !transfer_bytes(&access))
        return false;
    if (worker->program->seen)
        bifrost_watch_access(batch, code, access.va, active);
    if (code->message != MESSAGE_STORE)
        worker->bytes_read += bytes;
    if (code->message != MESSAGE_LOAD)
        worker->bytes_written += bytes;
    if (worker->meter && code->message != MESSAGE_STORE)
        meter_access(worker, &access, false);
    if (worker->meter && code->message != MESSAGE_LOAD)
        meter_access(worker, &access, true);
    return true;
}
