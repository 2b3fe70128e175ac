/* SPDX-License-Identifier: BSD-2-Clause */
/* Which pages of a joint trace's image are whose: read anew each time, in the section NETWORKS. */
#include "internal.h"

/* Behind the rows: a byte for each page of the image, with a bit for each network that reaches it. */
static const volatile uint8_t *reach(const struct gr_replayer *r)
{
    return r->rows + (size_t)r->network_count * GR_NETWORK_BYTES;
}

bool gr_reaches(const struct gr_replayer *r, uint64_t first, uint64_t end)
{
    if (first >= end || end > r->image_end)
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

bool gr_has_owners(const struct gr_replayer *r)
{
    for (uint64_t page = 0; page < r->image_end / GR_PAGE_BYTES; page++) {
        const uint32_t networks = reach(r)[page];
        if (!networks || networks >> r->network_count)
            return false;
    }
    return true;
}
