/* SPDX-License-Identifier: BSD-2-Clause */
/* What threads of a warp take from one another. SLOT_LANE says where in its warp a thread is, SLOT_ACTIVE
 * which take part. Sources: Mesa 25.0.7 src/panfrost/compiler/bifrost (ISA.xml, bifrost_compile.c); else see
 * mali_bifrost.h. */
#include "mali_bifrost_integer.h"

#include <string.h>

/* The lane of the batch that is number `wanted` in the part of a warp that lane i is in; -1: it is not
 * active. */
static int neighbour(const bifrost_vector *slot, int i, uint32_t wanted, uint32_t size)
{
    int lane = i - (int)(slot[SLOT_LANE][i] % size) + (int)(wanted % size);

    return lane >= 0 && lane < BIFROST_LANES && slot[SLOT_ACTIVE][lane] ? lane : -1;
}

void bifrost_clper(const struct bifrost_uop *u, bifrost_vector *slot, uint32_t *to)
{
    uint32_t size = u->detail & 0xff, result[BIFROST_LANES];

    for (int i = 0; i < BIFROST_LANES; i++) {
        uint32_t wanted = slot[u->from[1]][i] & 0xff;
        int lane = neighbour(slot, i, u->detail >> 8 ? slot[SLOT_LANE][i] ^ wanted : wanted, size);
        result[i] = lane < 0 ? 0 : slot[u->from[0]][lane];
    }
    memcpy(to, result, sizeof(result));
}

void bifrost_wmask(const struct bifrost_uop *u, bifrost_vector *slot, uint32_t *to)
{
    uint32_t result[BIFROST_LANES];

    for (int i = 0; i < BIFROST_LANES; i++) {
        result[i] = 0;
        for (uint32_t number = 0; number < u->detail; number++) {
            int lane = neighbour(slot, i, number, u->detail);
            if (lane >= 0 && slot[u->from[0]][lane])
                result[i] |= 1u << number;
        }
    }
    memcpy(to, result, sizeof(result));
}
