/* SPDX-License-Identifier: BSD-2-Clause */
/* Which pages that nothing writes are whose in a joint trace: read anew each time, in the section NETWORKS.
 */
#include "internal.h"

/* Behind the rows: a byte for each of those pages, with a bit for each network that reaches it. */
static const volatile uint8_t *reach(const struct gr_replayer *r)
{
    return r->rows + (size_t)r->network_count * GR_NETWORK_BYTES;
}

bool gr_shows(const struct gr_replayer *r, uint64_t first, uint64_t end)
{
    if (first >= end || end > GR_READ_ONLY_END(r))
        return false;
    if (!r->rows)
        return true;
    const uint64_t last = (end - 1) / GR_PAGE_BYTES;
    uint64_t page = first / GR_PAGE_BYTES;
    uint32_t networks = reach(r)[page];
    while (page < last)
        networks &= reach(r)[++page];
    return networks >> r->network & 1;
}

bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end)
{
    return end <= r->image_end && gr_shows(r, first, end);
}

bool gr_has_owners(const struct gr_replayer *r)
{
    for (uint64_t page = 0; page < GR_READ_ONLY_END(r) / GR_PAGE_BYTES; page++) {
        const uint32_t networks = reach(r)[page];
        if (!networks || networks >> r->network_count)
            return false;
    }
    return true;
}

#ifdef GRAMOPHONE_STREAMING
/* 1 if memory is not all between two places. */
static uint64_t is_outside(const volatile struct gr_own *own, uint64_t first, uint64_t end)
{
    return ((first - own->work_at) | (own->work_end - end)) >> 63;
}

uint64_t gr_strays(const struct gr_replayer *r, uint64_t first, uint64_t end)
{
    uint64_t strays = first >= GR_READ_ONLY_END(r);
    for (uint32_t i = 0; i < r->network_count; i++)
        strays &= is_outside(&r->networks[i], first, end);
    for (uint64_t page = first / GR_PAGE_BYTES;
         r->rows && page * GR_PAGE_BYTES < GR_READ_ONLY_END(r) && page * GR_PAGE_BYTES < end; page++)
        strays |= (uint64_t)(reach(r)[page] ^ reach(r)[first / GR_PAGE_BYTES]);
    return strays;
}

uint64_t gr_is_foreign(const struct gr_replayer *r, uint64_t page)
{
    if (!r->rows)
        return 0;
    if (page < GR_READ_ONLY_END(r) / GR_PAGE_BYTES)
        return 1 & ~((uint64_t)reach(r)[page] >> r->network);
    return is_outside(&r->networks[r->network], page * GR_PAGE_BYTES, (page + 1) * GR_PAGE_BYTES);
}

bool gr_have_owners(struct gr_replayer *r)
{
    for (uint32_t i = 0; i < r->piece_count; i++) {
        const uint8_t *row = gr_aligned(r->pieces + (size_t)i * GR_PIECE_BYTES);
        const uint64_t begin = (uint64_t)gr_load32(row + GR_PIECE_AT_PAGE) * GR_PAGE_BYTES,
                       all = gr_load32(row + GR_PIECE_AT_BYTES) / GR_PAGE_BYTES;
        uint32_t owners = 0;
        r->report.offset = i;
        for (uint32_t number = 0; number < GR_COUNT(r); number++) {
            uint64_t pages = 0;
            GR_CHOOSE(r, number);
            for (uint64_t at = begin; at < begin + all * GR_PAGE_BYTES; at += GR_PAGE_BYTES)
                pages += GR_HAS_MEMORY(r, at, at + GR_PAGE_BYTES);
            if (pages && pages != all && row[GR_PIECE_AT_FLAGS] & GR_PIECE_FLAG_RESIDENT)
                return false;
            owners += pages == all;
        }
        if (!owners)
            return false;
    }
    GR_CHOOSE(r, 0u);
    return true;
}
#endif
