/* SPDX-License-Identifier: BSD-2-Clause */
/* Of networks.c, all of it: a section of any bytes, behind which there is nothing, which reads otherwise each
 * time; the selected network's memory, for each place that it and its page tables may have in a carve-out of
 * a few pages; whatever the driver says. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
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
/*@ requires room: \valid((char *)to + (0 .. bytes - 1)) && \valid_read((char *)from + (0 .. bytes - 1));
    assigns ((char *)to)[0 .. bytes - 1] \from ((char *)from)[0 .. bytes - 1];
    assigns \result \from to;
*/
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \valid_read(b + (0 .. bytes - 1));
    assigns \result \from a[0 .. bytes - 1], b[0 .. bytes - 1]; ensures 0 <= \result <= 1; */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);
/*@ assigns \result \from r->va_bytes; */
uint64_t gr_driver_bytes(const struct gr_replayer *r);
/*@ assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_driver_switch(struct gr_replayer *r);
/*@ assigns \result \from first, end; ensures 0 <= \result <= 1; */
bool gr_shows(const struct gr_replayer *r, uint64_t first, uint64_t end);
/*@ assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_has_owners(const struct gr_replayer *r);
enum { ACTIONS = 100, PAGES = 3, IMAGE_PAGES = 4 };
static uint32_t section[(GR_NETWORKS * GR_NETWORK_BYTES + IMAGE_PAGES) / 4];
static uint32_t manifest[GR_MANIFEST_BYTES / 4];
static uint64_t memory[PAGES];

void gr_wipe(void *to, uint64_t bytes)
{
    memset(to, 0, bytes);
}

/* Where replays can stop between jobs. */
#ifdef GRAMOPHONE_STEPS
#define SET_AWAY(progress, value)                                                                            \
    (progress.is_away = (value), progress.under_way.is_begun = Frama_C_interval(0, 1))
#else
#define SET_AWAY(progress, value) ((void)(value))
#endif

/* What run.c does, as far as it is seen here. */
void gr_leave(struct gr_replayer *r, uint32_t keeper)
{
    (void)keeper;
    //@ loop unroll 16;
    for (uint32_t i = 0; i < r->network_count; i++) {
        r->progress[i].started = Frama_C_interval(0, 1);
        SET_AWAY(r->progress[i], true);
    }
}

/* A loaded trace of any networks, whose fields are any; with a section, or without one. */
static void forget(struct gr_replayer *r, uint32_t count)
{
    Frama_C_make_unknown((char *)section, sizeof section);
    Frama_C_make_unknown((char *)manifest, sizeof manifest);
    Frama_C_make_unknown((char *)r, sizeof *r);
    r->manifest = (const uint8_t *)manifest;
    r->rows = (const uint8_t *)section + (GR_NETWORKS - count) * GR_NETWORK_BYTES;
    if (count == 1)
        r->rows = NULL;
    r->image_end = IMAGE_PAGES * GR_PAGE_BYTES;
    r->state = Frama_C_nondet(0, GR_STATE_LOADED);
    r->network_count = count;
    r->network = Frama_C_unsigned_int_interval(0, count - 1);
    r->is_exclusive = Frama_C_interval(0, 1);
    //@ loop unroll 16;
    for (uint32_t i = 0; i < GR_NETWORKS; i++) {
        r->networks[i].replay_start = Frama_C_unsigned_int_interval(0, ACTIONS - 1);
        r->progress[i].started = Frama_C_interval(0, 1);
        SET_AWAY(r->progress[i], Frama_C_interval(0, 1));
    }
}

static enum gr_status take(struct gr_replayer *r, const uint8_t *rows, uint64_t bytes)
{
    const struct loader l = {.r = r, .flags = rows ? GR_HEADER_FLAG_JOINT : 0};
    return gr_take_networks(&l, rows, bytes);
}

static void load(struct gr_replayer *r, uint32_t count)
{
    uint64_t bytes = count == 1 ? 0 : count * GR_NETWORK_BYTES + IMAGE_PAGES,
             low_bytes = Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
    if (take(r, r->rows, bytes) == GR_STATUS_OK) {
        //@ assert taken: r->network_count == count;
    }
    forget(r, count);
    r->action_count = ACTIONS;
    //@ loop unroll 16;
    for (uint32_t i = 0; i < count; i++) {
        r->networks[i].first_action = Frama_C_unsigned_int_interval(0, ACTIONS);
        r->networks[i].end_action = Frama_C_unsigned_int_interval(0, ACTIONS);
    }
    gr_check_start(r, Frama_C_unsigned_int_interval(0, ACTIONS - 1),
                   Frama_C_unsigned_int_interval(0, ACTIONS));
    gr_check_end(r, Frama_C_unsigned_int_interval(0, ACTIONS), &low_bytes);
    forget(r, count);
    gr_network_differences(r);
}

static void choose(struct gr_replayer *r, uint32_t count)
{
    struct gr_network_info info;
    forget(r, count);
    if (gr_network_info(r, Frama_C_unsigned_int_interval(0, UINT32_MAX), &info)) {
        //@ assert named: info.name[32] == 0;
    }
    gr_select(r, Frama_C_unsigned_int_interval(0, UINT32_MAX));
    //@ assert network: r->network < GR_NETWORKS;
    gr_take_over(r);
    gr_needs_reset(r);
    const struct gr_progress *p = gr_progress_of(r, Frama_C_unsigned_int_interval(0, UINT32_MAX));
    //@ assert progress: \valid_read(p);
    struct gr_action a;
    Frama_C_make_unknown((char *)&a, sizeof a);
    gr_is_own_action(r, Frama_C_unsigned_int_interval(0, UINT32_MAX));
    gr_maps_own(r, &a);
}

/* From a place on, up to another: in words, for which pages are too many. */
static void prepare(struct gr_replayer *r, uint32_t count, uint32_t from, uint32_t to)
{
    forget(r, count);
    r->network = count - 1;
    r->memory.base = (uint8_t *)memory;
    r->networks[count - 1].work_at = r->networks[count - 1].driver_at = from * 8;
    r->networks[count - 1].work_end = r->networks[count - 1].driver_end = to * 8;
    gr_wipe_tables(r);
}

int main(void)
{
    struct gr_replayer r;
    //@ loop unroll 16;
    for (uint32_t count = 1; count <= GR_NETWORKS; count++) {
        forget(&r, count);
        load(&r, count);
        choose(&r, count);
    }
    //@ loop unroll 4;
    for (uint32_t from = 0; from <= PAGES; from++) {
        //@ loop unroll 4;
        for (uint32_t to = from; to <= PAGES; to++)
            prepare(&r, GR_NETWORKS, from, to);
    }
    /* Sections of other sizes are refused unread. */
    const uint8_t *nothing = (const uint8_t *)section + sizeof section;
    forget(&r, 2);
    take(&r, nothing, 0);
    take(&r, nothing, IMAGE_PAGES);
    take(&r, nothing, GR_NETWORK_BYTES + IMAGE_PAGES);
    take(&r, nothing, 2 * GR_NETWORK_BYTES);
    take(&r, nothing, 2 * GR_NETWORK_BYTES + IMAGE_PAGES + 1);
    take(&r, nothing, (GR_NETWORKS + 1) * GR_NETWORK_BYTES + IMAGE_PAGES);
    take(&r, nothing, IMAGE_PAGES - (uint64_t)GR_NETWORK_BYTES);
    return 0;
}
#include "shipped/networks.c"
