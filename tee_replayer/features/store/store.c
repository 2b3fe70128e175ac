/* SPDX-License-Identifier: BSD-2-Clause */
/* The rollback store: records, banks, and what the core asks of them. */
#include "crypto.h"
#include "gramophone_store.h"
#include "internal.h"

enum { STORED_BYTES = sizeof(struct gr_store_record), NAME_BYTES = 64, ERASED = 0xff };

_Static_assert(GR_STORE_BANK_BYTES == GR_STORE_PAIRS * 2 * STORED_BYTES, "a bank is pairs of records");
_Static_assert(GR_STORE_PAIRS > GR_STORE_NAMES + 1, "a bank that was copied to has room");

/* A bank as it was read. */
struct bank {
    uint32_t number;
    uint32_t generation; /* 0: it does not count */
    uint32_t used;       /* pairs, up to the last that is not blank */
    bool is_damaged;     /* a pair is neither whole nor cut off */
    bool is_fresh;       /* nothing was ever kept in it: all pairs are blank or cut off */
};

enum record_state { RECORD_BLANK, RECORD_BAD, RECORD_GOOD };
enum pair_state { PAIR_BLANK, PAIR_CUT_OFF, PAIR_ONCE, PAIR_TWICE, PAIR_DAMAGED };

static enum record_state read_record(uint32_t bank, uint32_t number, struct gr_store_record *r)
{
    uint8_t digest[32];
    uint32_t erased = ERASED;
    memset(r, 0, sizeof *r);
    if (!gr_port_flash_read(bank, number * STORED_BYTES, r, sizeof *r))
        return RECORD_BAD;
    for (uint32_t i = 0; i < sizeof *r; i++)
        erased &= ((const uint8_t *)r)[i];
    if (erased == ERASED)
        return RECORD_BLANK;
    const uint32_t kind = (uint32_t)r->kind;
    const bool is_record = r->magic == GR_STORE_RECORD_MAGIC && r->version &&
                           kind - GR_STORE_KIND_TRACE <= GR_STORE_KIND_BANK - GR_STORE_KIND_TRACE &&
                           gr_sha256(r, offsetof(struct gr_store_record, hash), digest) &&
                           gr_is_same(digest, r->hash, sizeof digest);
    return is_record ? RECORD_GOOD : RECORD_BAD;
}

/* *r is what a pair says, if that is PAIR_ONCE or PAIR_TWICE. */
static enum pair_state read_pair(uint32_t bank, uint32_t pair, struct gr_store_record *r)
{
    struct gr_store_record second;
    const enum record_state one = read_record(bank, 2 * pair, r),
                            other = read_record(bank, 2 * pair + 1, &second);
    if (other == RECORD_BLANK)
        return one == RECORD_BLANK ? PAIR_BLANK : one == RECORD_BAD ? PAIR_CUT_OFF : PAIR_ONCE;
    if (one == RECORD_GOOD && other == RECORD_GOOD)
        return gr_is_same((const uint8_t *)r, (const uint8_t *)&second, sizeof *r) ? PAIR_TWICE
                                                                                   : PAIR_DAMAGED;
    if (one == RECORD_GOOD)
        return PAIR_ONCE;
    if (one == RECORD_BAD && other == RECORD_GOOD) {
        *r = second;
        return PAIR_ONCE;
    }
    return PAIR_DAMAGED;
}

static bool says(enum pair_state state)
{
    return state == PAIR_ONCE || state == PAIR_TWICE;
}

/* Whether two records are about the same name. */
static bool is_of(const struct gr_store_record *r, const struct gr_store_record *wanted)
{
    return (uint32_t)r->kind == (uint32_t)wanted->kind && gr_is_same(r->name, wanted->name, NAME_BYTES);
}

static struct bank read_bank(uint32_t number)
{
    struct bank b = {.number = number, .is_fresh = true};
    for (uint32_t i = 0; i < GR_STORE_PAIRS; i++) {
        struct gr_store_record r;
        const enum pair_state state = read_pair(number, i, &r);
        if (state == PAIR_BLANK)
            continue;
        b.used = i + 1;
        if (state == PAIR_CUT_OFF)
            continue;
        b.is_fresh = false;
        if (state == PAIR_DAMAGED)
            b.is_damaged = true;
        else if ((uint32_t)r.kind == GR_STORE_KIND_BANK && r.version > b.generation)
            b.generation = r.version;
    }
    return b;
}

/* The bank that counts, and the other one. One without a generation: nothing was kept yet. False: flash has
 * lost something. */
static bool find_banks(struct bank *current, struct bank *other)
{
    struct bank one = read_bank(0), two = read_bank(1);
    const bool is_two = two.generation > one.generation;
    *current = is_two ? two : one;
    *other = is_two ? one : two;
    if (!current->generation)
        return one.is_fresh && two.is_fresh;
    return current->generation != other->generation && !current->is_damaged;
}

/* The highest version of a name; 0: there is none. */
static uint32_t highest(const struct bank *b, const struct gr_store_record *wanted)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < b->used; i++) {
        struct gr_store_record r;
        if (says(read_pair(b->number, i, &r)) && is_of(&r, wanted) && r.version > found)
            found = r.version;
    }
    return found;
}

/* Whether a pair, which says something, is the first of its name. */
static bool is_first(const struct bank *b, uint32_t pair, const struct gr_store_record *wanted)
{
    for (uint32_t i = 0; i < pair; i++) {
        struct gr_store_record r;
        if (says(read_pair(b->number, i, &r)) && is_of(&r, wanted))
            return false;
    }
    return true;
}

/* Whether two good records say as much. */
static bool is_firm(const struct bank *b, const struct gr_store_record *wanted)
{
    for (uint32_t i = 0; i < b->used; i++) {
        struct gr_store_record r;
        if (read_pair(b->number, i, &r) == PAIR_TWICE && is_of(&r, wanted) && r.version >= wanted->version)
            return true;
    }
    return false;
}

static bool write_record(uint32_t bank, uint32_t number, const struct gr_store_record *r)
{
    struct gr_store_record found;
    (void)gr_port_flash_program(bank, number * STORED_BYTES, r, sizeof *r);
    return read_record(bank, number, &found) == RECORD_GOOD &&
           gr_is_same((const uint8_t *)&found, (const uint8_t *)r, sizeof found);
}

/* Write a pair behind all that is there; where flash is worn, the next one. False: the bank is full. */
static bool append(struct bank *b, const struct gr_store_record *wanted)
{
    struct gr_store_record r = {.magic = GR_STORE_RECORD_MAGIC, .kind = wanted->kind};
    r.version = wanted->version;
    memcpy(r.name, wanted->name, sizeof r.name);
    if (!gr_sha256(&r, offsetof(struct gr_store_record, hash), r.hash))
        return false;
    while (b->used < GR_STORE_PAIRS) {
        const uint32_t pair = b->used++;
        if (write_record(b->number, 2 * pair, &r) && write_record(b->number, 2 * pair + 1, &r))
            return true;
    }
    return false;
}

static bool erase(struct bank *b)
{
    (void)gr_port_flash_erase(b->number);
    *b = read_bank(b->number);
    return !b->used;
}

/* Continue in the other bank: all names with their highest versions, and what is added. It is erased even if
 * it is blank: where an erase was cut off, bits may read otherwise tomorrow. */
static bool change_banks(struct bank *full, struct bank *other, const struct gr_store_record *added)
{
    const struct gr_store_record end = {.kind = GR_STORE_KIND_BANK, .version = full->generation + 1};
    if (!erase(other))
        return false;
    for (uint32_t i = 0; i < full->used; i++) {
        struct gr_store_record r;
        if (!says(read_pair(full->number, i, &r)) || (uint32_t)r.kind == GR_STORE_KIND_BANK ||
            !is_first(full, i, &r))
            continue;
        r.version = highest(full, &r);
        if (!append(other, &r))
            return false;
    }
    return (!added || append(other, added)) && append(other, &end) && erase(full);
}

/* Whether there is room for a name that has no version yet. */
static bool has_room(const struct bank *b)
{
    uint32_t names = 0;
    for (uint32_t i = 0; i < b->used; i++) {
        struct gr_store_record r;
        if (says(read_pair(b->number, i, &r)) && (uint32_t)r.kind != GR_STORE_KIND_BANK)
            names += is_first(b, i, &r);
    }
    return names < GR_STORE_NAMES;
}

GR_NOINLINE bool gr_store_open(void)
{
    struct bank current, other;
    if (!find_banks(&current, &other))
        return false;
    if (!current.generation)
        return true;
    /* A record that is there once may be one that was cut off, and read otherwise tomorrow: what counts from
     * now on is there twice. */
    const uint32_t used = current.used;
    for (uint32_t i = 0; i < used; i++) {
        struct gr_store_record r;
        if (read_pair(current.number, i, &r) == PAIR_ONCE && !is_firm(&current, &r) && !append(&current, &r))
            return change_banks(&current, &other, NULL);
    }
    return !other.used || erase(&other);
}

/* The least version that may be used. False: it is not known. */
static bool find_least(const struct gr_store_record *wanted, uint32_t *least, struct bank *current,
                       struct bank *other)
{
    if (!find_banks(current, other))
        return false;
    *least = current->generation ? highest(current, wanted) : 0;
    return true;
}

GR_NOINLINE uint32_t gr_store_least_policy(void)
{
    const struct gr_store_record wanted = {.kind = GR_STORE_KIND_POLICY};
    struct bank current, other;
    uint32_t least = UINT32_MAX;
    return find_least(&wanted, &least, &current, &other) ? least : UINT32_MAX;
}

GR_NOINLINE enum gr_status gr_store_check(const uint8_t name[NAME_BYTES], uint32_t version)
{
    struct gr_store_record wanted = {.kind = GR_STORE_KIND_TRACE, .version = version};
    struct bank current, other;
    uint32_t least = UINT32_MAX;
    memcpy(wanted.name, name, sizeof wanted.name);
    if (!find_least(&wanted, &least, &current, &other))
        return GR_STATUS_STORE;
    if (version < least)
        return GR_STATUS_ROLLBACK;
    return least || !version || has_room(&current) ? GR_STATUS_OK : GR_STATUS_STORE;
}

/* Keep a version, unless as much is kept. False: it cannot be kept; the old one or this one is. */
GR_NOINLINE static bool keep(const struct gr_store_record *wanted)
{
    static const struct gr_store_record first = {.kind = GR_STORE_KIND_BANK, .version = 1};
    struct gr_store_record r = *wanted;
    struct bank current, other;
    uint32_t least = UINT32_MAX;
    if (!r.version)
        return true;
    if (!find_least(&r, &least, &current, &other))
        return false;
    if (r.version < least)
        r.version = least;
    if (is_firm(&current, &r))
        return true;
    if (!least && !has_room(&current))
        return false;
    if (!current.generation) {
        if (!append(current.used < GR_STORE_PAIRS ? &current : &other, &first) ||
            !find_banks(&current, &other))
            return false;
    }
    return append(&current, &r) || change_banks(&current, &other, &r);
}

enum gr_status gr_store_keep(struct gr_replayer *r)
{
    const uint8_t *m = gr_aligned(r->manifest);
    struct gr_store_record trace = {.kind = GR_STORE_KIND_TRACE};
    if (r->is_kept)
        return GR_STATUS_OK;
    if (r->state != GR_STATE_LOADED || r->report.status != GR_STATUS_OK || r->report.phase != GR_PHASE_REPLAY)
        return GR_STATUS_STATE;
#ifdef GRAMOPHONE_TRUST
    const struct gr_store_record policy = {.kind = GR_STORE_KIND_POLICY, .version = r->trust_version};
    if (!keep(&policy))
        return GR_STATUS_STORE;
#endif
    trace.version = gr_load32(m + GR_MANIFEST_AT_SECURITY_VERSION);
    memcpy(trace.name, m + GR_MANIFEST_AT_NAME, sizeof trace.name);
    if (!keep(&trace))
        return GR_STATUS_STORE;
    r->is_kept = true;
    return GR_STATUS_OK;
}
