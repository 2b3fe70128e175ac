/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of the carve-out: taking it for the loader's own use, and overwriting it. */
#include "load.h"

void *gr_take_memory(struct loader *l, uint64_t bytes)
{
    bytes = (bytes + 7) & ~(uint64_t)7;
    if (bytes > (uint64_t)(l->r->high - l->r->memory.base))
        return NULL;
    l->r->high -= bytes;
    return l->r->high;
}

void gr_wipe(void *to, uint64_t bytes)
{
    /* To a compiler it could be anyone's memory then, so it is not left out. */
    __asm__ volatile("" : "+r"(to)::"memory");
    memset(to, 0, bytes);
}
