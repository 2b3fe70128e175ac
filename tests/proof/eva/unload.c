/* SPDX-License-Identifier: BSD-2-Clause */
/* Of load.c, with memory.c, what takes memory as bytes and as words: differences, for any manifest and any
 * state of the loader; gr_unload, for each place that `high` may have in a carve-out of a few words, and any
 * low_bytes. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
/* gr_wipe's hint to the compiler; it has no instructions. */
#define __asm__
#define volatile(...)
#include "__fc_builtin.h"
#include "driver.h"
#include "gr_target.h"
#include "load.h"

// The C library's contract asks for a byte that can be read, even to clear none.
/*@ requires room: \valid((char *)to + (0 .. bytes - 1));
    assigns ((char *)to)[0 .. bytes - 1] \from byte;
    assigns \result \from to;
*/
void *memset(void *to, int byte, size_t bytes);

/*@ assigns \result, r->progress[0].tables, r->locked \from \nothing; */
bool gr_driver_reset(struct gr_replayer *r);

enum { WORDS = 8 };
static uint64_t memory[WORDS];
static uint8_t manifest_bytes[GR_MANIFEST_BYTES];

static uint64_t differences(const struct loader *l);

int main(void)
{
    struct gr_replayer r;
    struct loader l;
    Frama_C_make_unknown((char *)manifest_bytes, sizeof manifest_bytes);
    Frama_C_make_unknown((char *)&r, sizeof r);
    Frama_C_make_unknown((char *)&l, sizeof l);
    r.manifest = manifest_bytes;
    l.r = &r;
    differences(&l);
    //@ loop unroll 9;
    for (uint32_t word = 0; word <= WORDS; word++) {
        Frama_C_make_unknown((char *)&r, sizeof r);
        Frama_C_make_unknown((char *)memory, sizeof memory);
        r.touched = Frama_C_interval(0, 1);
        r.memory.base = (uint8_t *)memory;
        r.memory.bytes = sizeof memory;
        r.high = r.memory.base + word * 8;
        r.low_bytes = Frama_C_unsigned_long_long_interval(0, sizeof memory);
        gr_unload(&r);
        //@ assert unloaded: r.state == 0 && r.memory.base == \null && r.high == \null && r.low_bytes == 0;
    }
    return 0;
}
#include "memory.c"
#include "shipped/load.c"
