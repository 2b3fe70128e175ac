/* SPDX-License-Identifier: BSD-2-Clause */
/* Of streaming.c, all of it: a section of rows of any bytes, behind which there is nothing; a carve-out of
 * four pages and a row at each place in it and beyond, of each size, which is read if the loader takes it.
 * What reads the file (unit stream) must be given places in the carve-out, and hashes that are there. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
#define volatile        /* memory that keeps what it has: Eva would take any value at each access */
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
/*@ assigns \result \from \nothing; ensures 0 <= \result <= 1; */
bool gr_port_wait_irq(unsigned line, uint32_t timeout_us);
/*@ requires \valid(r); assigns \result, r->report \from \nothing; */
enum gr_status gr_settle(struct gr_replayer *r);

enum { PAGES = 4, ROWS = 3, HASHED = 3, CHUNK_BYTES = GR_MIN_CHUNK_BYTES, BEFORE = 512, BODY_AT = 4096 };
enum { BODY_BYTES = (HASHED - 1) * CHUNK_BYTES + 100, STREAM_BYTES = BODY_BYTES - BEFORE };
static uint8_t memory[PAGES * GR_PAGE_BYTES], chunk[CHUNK_BYTES], hashes[HASHED * 32];
static uint32_t rows[ROWS * GR_PIECE_BYTES / 4], actions[2 * GR_ACTION_BYTES / 4],
    manifest[GR_MANIFEST_BYTES / 4], section[GR_SECTION_BYTES / 4];

/* What a stream has come to: any part of its buffer. */
static void move(struct gr_stream *s)
{
    //@ assert hash: s->section > 0 ==> \valid_read(s->hashes + (0 .. 31));
    //@ assert chunk: \valid(s->chunk + (0 .. s->chunk_bytes - 1));
    //@ assert file: s->left <= BODY_BYTES && BODY_AT <= s->offset <= BODY_AT + BODY_BYTES;
    const uint32_t at = Frama_C_unsigned_int_interval(0, CHUNK_BYTES);
    s->at = chunk + at;
    s->stop = Frama_C_nondet_ptr((void *)s->at, chunk + CHUNK_BYTES);
    s->end = chunk + Frama_C_unsigned_int_interval(at, CHUNK_BYTES);
    s->section = Frama_C_nondet(0, 8);
    s->index = Frama_C_unsigned_int_interval(0, UINT32_MAX);
    s->status = Frama_C_nondet(GR_STATUS_OK, GR_STATUS_CHUNK);
    s->differing = Frama_C_interval(0, 1);
}

void gr_stream_take(struct gr_stream *s, uint8_t *out, uint64_t bytes)
{
    //@ assert room: out != \null ==> \valid(out + (0 .. bytes - 1));
    move(s);
}

void gr_lz4_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes)
{
    //@ assert room: \valid(out + (0 .. out_bytes - 1));
    move(s);
}

#include "shipped/streaming.c"

static struct gr_source source;

static void forget(struct loader *l, struct gr_replayer *r)
{
    Frama_C_make_unknown((char *)rows, sizeof rows);
    Frama_C_make_unknown((char *)actions, sizeof actions);
    Frama_C_make_unknown((char *)manifest, sizeof manifest);
    Frama_C_make_unknown((char *)section, sizeof section);
    Frama_C_make_unknown((char *)hashes, sizeof hashes);
    Frama_C_make_unknown((char *)r, sizeof *r);
    Frama_C_make_unknown((char *)l, sizeof *l);
    l->r = r;
    l->stream.source = &source;
    l->stream.hashes = hashes;
    l->stream.chunk = chunk;
    l->stream.chunk_bytes = CHUNK_BYTES;
    l->stream.index = 0;
    l->stream.offset = BODY_AT;
    l->stream.left = BODY_BYTES;
    l->stream.at = l->stream.stop = l->stream.end = chunk;
    l->head_bytes = BODY_AT;
    l->flags = GR_HEADER_FLAG_STREAMED;
    l->pieces_section = 5;
    l->pieces_at = BODY_AT + BEFORE;
    l->pieces_bytes = STREAM_BYTES;
    r->manifest = (const uint8_t *)manifest;
    r->actions = (const uint8_t *)actions;
    r->memory.base = memory;
    r->memory.bytes = sizeof memory;
    r->carveout_bytes = sizeof memory;
    r->image_end = GR_PAGE_BYTES;
    r->pieces_read[0] = r->pieces_read[1] = 0; /* as the loader leaves them */
}

/* What the loader asks, with a section for pieces or without one. */
static void load(struct loader *l, uint32_t flags, uint32_t pieces_section, uint32_t count, uint32_t more)
{
    forget(l, l->r);
    const uint8_t *at = (const uint8_t *)rows + sizeof rows - count * GR_PIECE_BYTES - more;
    l->flags = flags;
    l->pieces_section = pieces_section;
    gr_keep_body(l);
    if (gr_take_pieces(l, at, count * GR_PIECE_BYTES + more) == GR_STATUS_OK && flags) {
        //@ assert taken: l->r->pieces == at && l->r->piece_count == count && 1 <= count;
    }
    gr_piece_differences(l, at, count * GR_PIECE_BYTES + more);
    gr_lacks_body(l);
    gr_takes_section(l, Frama_C_unsigned_int_interval(0, GR_MAX_SECTIONS), (const uint8_t *)section);
}

static void set(uint32_t *row, uint32_t page, uint32_t bytes, uint64_t offset)
{
    row[GR_PIECE_AT_OFFSET / 4] = (uint32_t)offset;
    row[GR_PIECE_AT_OFFSET / 4 + 1] = (uint32_t)(offset >> 32);
    row[GR_PIECE_AT_PAGE / 4] = page;
    row[GR_PIECE_AT_BYTES / 4] = bytes;
}

/* Read a row at a place, of a size, at an offset of STREAM, if the loader takes it; another one is on the
 * last page. */
static void replay(struct loader *l, uint32_t page, uint32_t bytes, uint64_t offset)
{
    struct gr_replayer *r = l->r;
    struct gr_action a;
    forget(l, r);
    gr_keep_body(l);
    set(rows, page, bytes, offset);
    set(rows + GR_PIECE_BYTES / 4, PAGES - 1, GR_PAGE_BYTES, 0);
    if (gr_take_pieces(l, (const uint8_t *)rows, 2 * GR_PIECE_BYTES) != GR_STATUS_OK)
        return;
    /*@ assert inside: GR_PAGE_BYTES <= page * GR_PAGE_BYTES &&
                       page * GR_PAGE_BYTES + bytes <= sizeof(memory); */
    Frama_C_make_unknown((char *)&a, sizeof a);
    r->head_pieces = (const uint8_t *)rows;
    r->head_piece_count = 2;
    //@ loop unroll 2;
    for (uint32_t i = 0; i < 2; i++) {
        gr_lacks_pieces(r, 0);
        gr_fetch_pieces(r, &a);
        gr_read_ahead(r, 0);
        r->piece_count = r->head_piece_count = 0; /* as of a trace without pieces */
    }
    manifest[GR_MANIFEST_AT_ACTION_COUNT / 4] = r->action_count = r->next_action =
        sizeof actions / GR_ACTION_BYTES;
    r->begun_action = Frama_C_unsigned_int_interval(0, UINT32_MAX);
    gr_ends_early(r);
}

int main(void)
{
    struct loader l;
    struct gr_replayer r;
    l.r = &r;
    //@ loop unroll 4;
    for (uint32_t count = 0; count <= ROWS; count++) {
        load(&l, GR_HEADER_FLAG_STREAMED, 5, count, 0);
        load(&l, GR_HEADER_FLAG_STREAMED, 0, count, 0);
        load(&l, 0, 0, count, 0);
    }
    load(&l, GR_HEADER_FLAG_STREAMED, 5, 1, 8);
    //@ loop unroll 6;
    for (uint32_t page = 0; page <= PAGES + 1; page++) {
        //@ loop unroll 6;
        for (uint32_t size = 0; size <= PAGES + 1; size++) {
            replay(&l, page, size * GR_PAGE_BYTES, 0);
            replay(&l, page, size * GR_PAGE_BYTES + 1, 0);
        }
    }
    replay(&l, UINT32_MAX, GR_PAGE_BYTES, 0);
    replay(&l, 1, -(uint32_t)GR_PAGE_BYTES, 0);
    //@ loop unroll 3;
    for (uint32_t i = 0; i < 3; i++) {
        replay(&l, 1, GR_PAGE_BYTES, (uint64_t)i * CHUNK_BYTES - BEFORE);
        replay(&l, 1, GR_PAGE_BYTES, (uint64_t)i * CHUNK_BYTES - BEFORE + 8);
        replay(&l, 1, GR_PAGE_BYTES, STREAM_BYTES - 1 + i);
    }
    replay(&l, 1, GR_PAGE_BYTES, UINT64_MAX - BODY_BYTES);
    return 0;
}
