/* SPDX-License-Identifier: BSD-2-Clause */
/* How much of its heap OP-TEE's core has allocated (CFG_WITH_STATS). */
#ifndef HEAP_H
#define HEAP_H

#include "program.h"

/* OP-TEE's lib/libutee/include/pta_stats.h */
#define STATS_UUID_BYTES                                                                                     \
    {                                                                                                        \
        0xd9, 0x6a, 0x5b, 0x40, 0xe2, 0xc7, 0xb1, 0xaf, 0x87, 0x94, 0x10, 0x02, 0xa5, 0xd5, 0xc6, 0x1b       \
    }
enum { STATS_ALLOCATIONS = 1, STATS_CORE_HEAP = 1 };

struct heap {
    char name[32];
    uint64_t free_squares;
    uint32_t allocated, max_allocated, size, failures, biggest_failure, used_at_failure;
};

static inline uint32_t read_heap(struct heap *heap)
{
    static const uint8_t uuid[16] = STATS_UUID_BYTES;
    uint32_t session, result = tee_open(uuid, &session);
    if (result)
        return result;
    result = INVOKE(session, STATS_ALLOCATIONS, {TEE_VALUE_IN, STATS_CORE_HEAP, 0},
                    {TEE_MEMREF_OUT, (uintptr_t)tee_chunk(), sizeof *heap});
    memcpy(heap, tee_chunk(), sizeof *heap);
    return result ? result : tee_close(session);
}

#endif
