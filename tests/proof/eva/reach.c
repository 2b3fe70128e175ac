/* SPDX-License-Identifier: BSD-2-Clause */
/* Of reach.c, all of it: bytes of any networks, behind which there is nothing, which read otherwise each
 * time. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#include "__fc_builtin.h"
#include "internal.h"

enum { IMAGE_PAGES = 4 };
static uint8_t section[GR_NETWORKS * GR_NETWORK_BYTES + IMAGE_PAGES];

int main(void)
{
    struct gr_replayer r;
    //@ loop unroll 16;
    for (uint32_t count = 1; count <= GR_NETWORKS; count++) {
        Frama_C_make_unknown((char *)section, sizeof section);
        Frama_C_make_unknown((char *)&r, sizeof r);
        r.rows = count == 1 ? NULL : section + (GR_NETWORKS - count) * GR_NETWORK_BYTES;
        r.image_end = IMAGE_PAGES * GR_PAGE_BYTES;
        r.network_count = count;
        r.network = Frama_C_unsigned_int_interval(0, count - 1);
        const uint64_t first = Frama_C_unsigned_long_long_interval(0, UINT64_MAX),
                       end = Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
        if (gr_reaches(&r, first, end)) {
            //@ assert inside: end <= r.image_end;
        }
        if (count > 1)
            gr_has_owners(&r);
    }
    return 0;
}
#include "shipped/reach.c"
