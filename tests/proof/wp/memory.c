/* SPDX-License-Identifier: BSD-2-Clause */
/* Relies on nothing. */
#include "loader.h"
/* Here it is defined. */
#undef gr_wipe
#undef memset

/*@ requires ready(l) && bytes <= 8589934592;
    assigns l->r->high;
    ensures taken: \result == \null || (\result == l->r->high &&
      \base_addr(l->r->high) == \base_addr(l->r->memory.base) &&
      l->r->high - l->r->memory.base + bytes <= \old(l->r->high - l->r->memory.base));
    ensures kept: \result == \null ==> l->r->high == \old(l->r->high);
    ensures ready(l);
*/
void *gr_take_memory(struct loader *l, uint64_t bytes);
#include "shipped/memory.c"
