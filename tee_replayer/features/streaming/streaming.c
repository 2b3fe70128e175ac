/* SPDX-License-Identifier: BSD-2-Clause */
/* Pieces of a streamed trace. Each byte is copied into secure memory once, checked there by its chunk's hash,
 * and decoded to where jobs reach it: what lies there is always what has been checked. */
#include "driver.h"
#include "gr_target.h"
#include "load.h"

_Static_assert(GR_PIECES == GR_MAX_PIECES, "replayer.h has the format's limit");
_Static_assert(GR_MAX_PIECE_BYTES % GR_PAGE_BYTES == 0, "a piece is whole pages");

/* Of GR_PIECE_BYTES each, as in the file. */
static const uint8_t *piece_at(const struct gr_replayer *r, uint32_t index)
{
    return gr_aligned(r->pieces + (size_t)index * GR_PIECE_BYTES);
}

/* Read by an access of its own: the compiler takes no earlier value for it. */
static uint32_t piece_field(const struct gr_replayer *r, uint32_t index, uint32_t at)
{
    return *(const volatile uint32_t *)(const void *)(piece_at(r, index) + at);
}

static uint64_t begin_of(const struct gr_replayer *r, uint32_t index)
{
    return (uint64_t)piece_field(r, index, GR_PIECE_AT_PAGE) * GR_PAGE_BYTES;
}

static uint64_t end_of(const struct gr_replayer *r, uint32_t index)
{
    return begin_of(r, index) + piece_field(r, index, GR_PIECE_AT_BYTES);
}

static bool is_resident(const struct gr_replayer *r, uint32_t index)
{
    return piece_at(r, index)[GR_PIECE_AT_FLAGS] & GR_PIECE_FLAG_RESIDENT;
}

/* The first word of a page of pieces: while these are judged none has been read, and it says who else has the
 * page. So each page is asked once, instead of each pair of pieces. */
static volatile uint32_t *mark_at(const struct gr_replayer *r, uint64_t at)
{
    return (volatile uint32_t *)(void *)(r->memory.base + at);
}

/* Mark a piece's pages. False: a page's mark is above `most`. */
static bool mark(const struct gr_replayer *r, uint32_t index, uint32_t most, uint32_t value)
{
    const uint64_t limit = r->carveout_bytes, end = end_of(r, index) < limit ? end_of(r, index) : limit;
    for (uint64_t at = begin_of(r, index); at < end; at += GR_PAGE_BYTES) {
        volatile uint32_t *page = mark_at(r, at);
        if (*page > most)
            return false;
        *page = value;
    }
    return true;
}

/* Whether no piece before has a page of this one and a job in common with it. Its jobs begin no later, so
 * that a page's mark, one more than the job after its last one, says all. */
static bool is_alone(const struct gr_replayer *r, uint32_t index)
{
    return mark(r, index, piece_field(r, index, GR_PIECE_AT_FROM_JOB) + 1,
                piece_field(r, index, GR_PIECE_AT_LAST_JOB) + 2);
}

/* Whether a row keeps the rules, with those before it; trace_format/streamed.py has the same. */
static bool is_piece(const struct loader *l, uint32_t index, uint32_t jobs)
{
    const struct gr_replayer *r = l->r;
    const uint8_t *row = piece_at(r, index);
    const uint32_t bytes = piece_field(r, index, GR_PIECE_AT_BYTES),
                   stored = piece_field(r, index, GR_PIECE_AT_STORED_BYTES),
                   from = piece_field(r, index, GR_PIECE_AT_FROM_JOB),
                   first = piece_field(r, index, GR_PIECE_AT_FIRST_JOB),
                   last = piece_field(r, index, GR_PIECE_AT_LAST_JOB);
    const uint64_t offset = gr_load64(row + GR_PIECE_AT_OFFSET);
    const bool stays = is_resident(r, index);
    /* One less: zero is too small. */
    if (bytes - 1 >= GR_MAX_PIECE_BYTES || bytes % GR_PAGE_BYTES || offset > l->pieces_bytes ||
        stored > l->pieces_bytes - offset ||
        (row[GR_PIECE_AT_CODEC] == GR_CODEC_STORED ? stored != bytes
                                                   : row[GR_PIECE_AT_CODEC] != GR_CODEC_LZ4) ||
        row[GR_PIECE_AT_FLAGS] & ~GR_PIECE_FLAG_RESIDENT ||
        !gr_is_zero(row + GR_PIECE_AT_RESERVED, GR_PIECE_BYTES - GR_PIECE_AT_RESERVED))
        return false;
    if (begin_of(r, index) < (stays ? r->image_end : r->read_only_end) ||
        end_of(r, index) > r->carveout_bytes || from > first || first > last || last >= jobs ||
        (stays && (from || last != jobs - 1)))
        return false;
    return !index || piece_field(r, index - 1, GR_PIECE_AT_FIRST_JOB) <= first;
}

bool gr_takes_section(struct loader *l, uint32_t index, const uint8_t *s)
{
    const uint32_t type = gr_load16(s + GR_SECTION_AT_TYPE);
    if (type == GR_SECTION_TYPE_IMAGE)
        return !l->pieces_section;
    if (type != GR_SECTION_TYPE_STREAM)
        return true;
    if (l->pieces_section || !GR_HAS(l, GR_STREAMING_FLAG) || s[GR_SECTION_AT_CODEC] != GR_CODEC_STORED)
        return false;
    l->pieces_section = index;
    l->pieces_at = gr_load64(s + GR_SECTION_AT_OFFSET);
    l->pieces_bytes = gr_load64(s + GR_SECTION_AT_STORED_BYTES);
    return true;
}

enum gr_status gr_take_pieces(struct loader *l, const uint8_t *rows, uint64_t bytes)
{
    struct gr_replayer *r = l->r;
    r->read_only_end = r->image_end;
    for (uint32_t i = 0; i < GR_NETWORKS; i++)
        r->progress[i].next_job = UINT32_MAX;
    if (!GR_HAS(l, GR_STREAMING_FLAG))
        return GR_STATUS_OK;
    if (!l->pieces_section || bytes % GR_PIECE_BYTES || bytes / GR_PIECE_BYTES - 1 >= GR_MAX_PIECES)
        return GR_STATUS_SECTIONS;
    r->pieces = rows;
    r->piece_count = (uint32_t)(bytes / GR_PIECE_BYTES);
    for (uint32_t i = 0; i < r->piece_count; i++) {
        if (is_resident(r, i) && end_of(r, i) > r->read_only_end)
            r->read_only_end = end_of(r, i);
    }
    const uint32_t jobs = gr_load32(gr_aligned(r->manifest) + GR_MANIFEST_AT_JOB_COUNT);
    for (uint32_t i = 0; i < r->piece_count; i++) {
        r->report.offset = i;
        if (!is_piece(l, i, jobs))
            return GR_STATUS_PIECES;
        mark(r, i, UINT32_MAX, 0);
    }
    for (uint32_t i = 0; i < r->piece_count; i++) {
        r->report.offset = i;
        if (!is_alone(r, i))
            return GR_STATUS_PIECES;
    }
    return r->read_only_end <= r->carveout_bytes ? GR_STATUS_OK : GR_STATUS_PIECES;
}

/* Whether a piece is the selected network's: as a whole, or not at all. */
static bool is_own(const struct gr_replayer *r, uint32_t index)
{
    return GR_HAS_MEMORY(r, begin_of(r, index), begin_of(r, index) + 1);
}

/* Of two numbers below 2^63: 1 if a < b. Without a branch that a fault could turn. */
GR_INLINE uint64_t comes_before(uint64_t a, uint64_t b)
{
    return (a - b) >> 63;
}

/* Of a row's words. */
GR_INLINE uint64_t sum_of(const volatile uint32_t *row)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < GR_PIECE_BYTES / 4; i++)
        sum += row[i];
    return sum;
}

/* By code of its own, of the head and not of what was taken from it: one fault does not change both answers.
 * The order of pieces, codecs and reserved bytes are left out, because no memory depends on them. */
GR_NOINLINE uint64_t gr_piece_differences(const struct loader *l, const uint8_t *rows, uint64_t bytes)
{
    struct gr_replayer *r = l->r;
    const uint64_t count = GR_HAS(l, GR_STREAMING_FLAG) ? bytes / GR_PIECE_BYTES : 0,
                   jobs = gr_load32(gr_aligned(r->manifest) + GR_MANIFEST_AT_JOB_COUNT),
                   limit = r->carveout_bytes;
    uint64_t stays_end = r->image_end,
             wrong = (count ^ r->piece_count) | ((uintptr_t)r->chunk ^ (uintptr_t)l->stream.chunk) |
                     ((uintptr_t)(r->hashes + l->stream.index * UINT64_C(32)) ^ (uintptr_t)l->stream.hashes);
    r->head_pieces = rows;
    r->head_piece_count = (uint32_t)count;
    r->pieces_sum = 0;
    r->stream_at = TRACE_START(l) + l->pieces_at;
    for (uint64_t i = 0; i < count; i++) {
        const volatile uint32_t *row = (const volatile void *)gr_aligned(rows + i * GR_PIECE_BYTES);
        r->pieces_sum += sum_of(row);
        const uint64_t size = row[GR_PIECE_AT_BYTES / 4], from = row[GR_PIECE_AT_FROM_JOB / 4],
                       first = row[GR_PIECE_AT_FIRST_JOB / 4], last = row[GR_PIECE_AT_LAST_JOB / 4],
                       begin = row[GR_PIECE_AT_PAGE / 4] * (uint64_t)GR_PAGE_BYTES, end = begin + size,
                       stays = row[GR_PIECE_AT_CODEC / 4] >> 8 & GR_PIECE_FLAG_RESIDENT;
        wrong |= gr_strays(r, begin, end);
        wrong |=
            (size - 1) / GR_MAX_PIECE_BYTES | size % GR_PAGE_BYTES | comes_before(r->carveout_bytes, end) |
            comes_before(begin, stays ? r->image_end : r->read_only_end) | comes_before(first, from) |
            comes_before(last, first) | comes_before(jobs, last + 1) | (stays & (from | ((last + 1) ^ jobs)));
        if (stays && end > stays_end)
            stays_end = end;
    }
    /* From the last piece to the first: a page's mark is one more than the first job of those behind. Behind
     * the last one it is 0, or what is_alone has left there. What is wrong until now is not used as a place.
     */
    for (uint64_t i = wrong ? 0 : count; i--;) {
        const volatile uint32_t *row = (const volatile void *)gr_aligned(rows + i * GR_PIECE_BYTES);
        const uint64_t begin = row[GR_PIECE_AT_PAGE / 4] * (uint64_t)GR_PAGE_BYTES,
                       end = begin + row[GR_PIECE_AT_BYTES / 4], last = row[GR_PIECE_AT_LAST_JOB / 4];
        const uint32_t from = row[GR_PIECE_AT_FROM_JOB / 4];
        for (uint64_t at = begin; at < end && at < limit; at += GR_PAGE_BYTES) {
            volatile uint32_t *page = mark_at(r, at);
            wrong |= 1 ^ comes_before(last, *page - 1);
            *page = from + 1;
        }
    }
    return wrong | (stays_end ^ r->read_only_end);
}

void gr_keep_body(struct loader *l)
{
    struct gr_replayer *r = l->r;
    r->source = *l->stream.source;
    r->hashes = l->stream.hashes;
    r->chunk = l->stream.chunk;
    r->chunk_bytes = l->stream.chunk_bytes;
    r->body_at = l->stream.offset;
    r->body_bytes = l->stream.left;
    r->pieces_at = l->pieces_at - l->head_bytes;
}

/* Without pieces the stream ends with the body, else before STREAM. */
bool gr_lacks_body(const struct loader *l)
{
    const uint64_t rest = l->stream.left + (uint64_t)(l->stream.end - l->stream.at);
    return rest != (l->pieces_section ? l->r->body_bytes - l->r->pieces_at : 0);
}

/* Bytes of a piece that lie in memory: all, or a part that ends with a chunk. */
static uint32_t there(const struct gr_replayer *r, uint32_t index)
{
    return ((const volatile uint32_t *)r->pieces_read)[index];
}

/* Where in the body a step ends that begins so far into a piece: with the chunk, or the piece. A packed one
 * is read in one step. */
static uint64_t step_end(const struct gr_replayer *r, uint32_t index, uint32_t done)
{
    const uint64_t begin = r->pieces_at + gr_load64(piece_at(r, index) + GR_PIECE_AT_OFFSET),
                   end = begin + piece_field(r, index, GR_PIECE_AT_STORED_BYTES),
                   next = ((begin + done) | (r->chunk_bytes - 1)) + 1;
    return piece_at(r, index)[GR_PIECE_AT_CODEC] == GR_CODEC_STORED && next < end ? next : end;
}

/* Read a step of a piece to its place. Nobody uses that now. */
static enum gr_status fetch(struct gr_replayer *r, uint32_t index)
{
    const uint8_t *row = piece_at(r, index);
    const uint32_t bytes = piece_field(r, index, GR_PIECE_AT_BYTES), codec = row[GR_PIECE_AT_CODEC],
                   done = there(r, index);
    if (done >= bytes ||
        (done && (codec != GR_CODEC_STORED || piece_field(r, index, GR_PIECE_AT_STORED_BYTES) != bytes)))
        return GR_STATUS_FLOW;
    const uint64_t at = r->pieces_at + gr_load64(row + GR_PIECE_AT_OFFSET) + done;
    if (at >= r->body_bytes) /* it has no hash */
        return GR_STATUS_FLOW;
    const uint32_t chunk = (uint32_t)(at / r->chunk_bytes), before = (uint32_t)at & (r->chunk_bytes - 1),
                   stored = (uint32_t)(step_end(r, index, done) - at), room = bytes - done,
                   part = codec == GR_CODEC_STORED && stored < room ? stored : room;
    const uint64_t skipped = chunk * (uint64_t)r->chunk_bytes;
    uint8_t *out = r->memory.base + begin_of(r, index) + done;
    struct gr_stream s;
    memset(&s, 0, sizeof s);
    s.source = &r->source;
    s.offset = r->body_at + skipped;
    s.left = r->body_bytes - skipped;
    s.deadline_us = r->deadline_us;
    s.hashes = r->hashes + chunk * UINT64_C(32);
    s.chunk = r->chunk;
    s.chunk_bytes = r->chunk_bytes;
    s.index = chunk;
    s.section = before;
    s.status = GR_STATUS_OK;
    GR_OPEN_PIECE(r, &s);
    gr_stream_take(&s, NULL, before);
    s.section = stored;
    s.stop = s.at;
    if (codec == GR_CODEC_LZ4)
        gr_lz4_decode(&s, out, part);
    else
        gr_stream_take(&s, out, part);
    r->report.offset = index;
    r->report.seen = s.index;
    /* That it was the next step's bytes, each of a chunk that was hashed: where the stream has come to, and
     * how many chunks it has taken, follow from the row and from what was there, read again. */
    const uint32_t again = there(r, index);
    const uint64_t offset = piece_field(r, index, GR_PIECE_AT_OFFSET) |
                            (uint64_t)piece_field(r, index, GR_PIECE_AT_OFFSET + 4) << 32,
                   end = step_end(r, index, again);
    s.differing |= ((r->body_at + at) ^ (r->stream_at + offset + again)) |
                   ((s.offset - (uint64_t)(s.end - s.at)) ^ (r->stream_at + (end - r->pieces_at))) |
                   (s.index ^ ((end - 1) / r->chunk_bytes + 1)) | (s.index ^ (chunk + s.hashed)) |
                   GR_UNOPENED(r, &s, s.offset - r->body_at - skipped);
    if (s.status == GR_STATUS_OK && s.differing)
        s.status = GR_STATUS_CHUNK;
    if (s.status == GR_STATUS_OK && (s.section || s.at != s.stop))
        s.status = GR_STATUS_CODEC;
    /* What is not there, or was another's, makes no piece: of all bytes the last ones are counted by the
     * stream, and a difference makes another number, should the question above be passed over. */
    if (s.status == GR_STATUS_OK)
        r->pieces_read[index] =
            (again + part - (uint32_t)s.section) ^ (uint32_t)(s.differing | s.differing >> 32);
    r->pieces_hashed[index] += part;
    return s.status;
}

/* Whether a job of the selected network needs a piece. */
static bool is_needed(const struct gr_replayer *r, uint32_t index, uint32_t job)
{
    return piece_field(r, index, GR_PIECE_AT_FIRST_JOB) <= job &&
           job <= piece_field(r, index, GR_PIECE_AT_LAST_JOB) && is_own(r, index);
}

static bool is_there(const struct gr_replayer *r, uint32_t index)
{
    return there(r, index) == piece_field(r, index, GR_PIECE_AT_BYTES);
}

enum gr_status gr_fetch_pieces(struct gr_replayer *r, const struct gr_action *a)
{
    const uint32_t job = a->value;
    if (!r->piece_count || a->op != GR_OP_JOB)
        return GR_STATUS_OK;
    enum gr_status status = gr_settle(r);
    if (job != GR_PROGRESS(r)->next_job) {
        /* A replay begins, or goes on after a fault: others may lie there. */
        for (uint32_t i = 0; i < r->piece_count; i++) {
            if (is_own(r, i) && (!is_resident(r, i) || !is_there(r, i)))
                r->pieces_read[i] = r->pieces_hashed[i] = 0;
        }
    }
    GR_PROGRESS(r)->next_job = job + 1;
    for (uint32_t i = 0; i < r->piece_count; i++) {
        while (status == GR_STATUS_OK && is_needed(r, i, job) && !is_there(r, i))
            status = fetch(r, i);
    }
    return status;
}

/* Of the action as the trace has it, by code and a pointer of its own: one fault leaves no job without its
 * memory. An action that was passed over may have been a job's. A fault may have written to the rows. */
GR_NOINLINE uint64_t gr_lacks_pieces(struct gr_replayer *r, uint32_t index)
{
    const volatile uint32_t *a =
        (const volatile void *)gr_aligned(r->actions + (size_t)index * GR_ACTION_BYTES);
    uint64_t missing = index ^ r->next_action;
    r->next_action = index + 1;
    if ((a[GR_ACTION_AT_OP / 4] & 0xff) != GR_OP_JOB)
        return missing;
    const uint64_t job = a[GR_ACTION_AT_VALUE / 4];
    uint64_t sum = 0;
    missing |= r->head_piece_count ? (job + 1) ^ GR_PROGRESS(r)->next_job : 0;
    for (uint64_t i = r->head_piece_count; i--;) {
        const volatile uint32_t *row = (const volatile void *)gr_aligned(r->head_pieces + i * GR_PIECE_BYTES);
        sum += sum_of(row);
        const uint64_t is_idle = comes_before(job, row[GR_PIECE_AT_FIRST_JOB / 4]) |
                                 comes_before(row[GR_PIECE_AT_LAST_JOB / 4], job) |
                                 gr_is_foreign(r, row[GR_PIECE_AT_PAGE / 4]);
        missing |= (is_idle - 1) & ((row[GR_PIECE_AT_BYTES / 4] ^ r->pieces_read[i]) |
                                    (row[GR_PIECE_AT_BYTES / 4] ^ r->pieces_hashed[i]));
    }
    return missing | (sum ^ r->pieces_sum);
}

/* By the head: a network's actions are executed from the first, or from the mark, to the last. A replay that
 * can stop between jobs goes on with others. */
GR_NOINLINE bool gr_ends_early(const struct gr_replayer *r)
{
    const uint32_t count = gr_load32(gr_aligned(r->manifest) + GR_MANIFEST_AT_ACTION_COUNT),
                   begun = r->begun_action;
    return r->next_action != GR_END_ACTION(r) || (GR_COUNT(r) == 1 && r->next_action != count) ||
           begun >= count ||
           (!GR_STOPS && begun != GR_FIRST_ACTION(r) &&
            r->actions[begun * (size_t)GR_ACTION_BYTES] != GR_OP_REPLAY_START);
}

/* The line is asked before each step, so that the GPU waits for the end of one at most. */
enum gr_status gr_read_ahead(struct gr_replayer *r, uint32_t line)
{
    const uint32_t job = GR_PROGRESS(r)->next_job - 1;
    for (uint32_t i = 0; i < r->piece_count; i++) {
        if (piece_field(r, i, GR_PIECE_AT_FROM_JOB) > job ||
            piece_field(r, i, GR_PIECE_AT_FIRST_JOB) <= job || !is_own(r, i))
            continue;
        while (!is_there(r, i)) {
            if (gr_port_wait_irq(line, 0))
                return GR_STATUS_OK;
            const enum gr_status status = fetch(r, i);
            if (status != GR_STATUS_OK)
                return status;
        }
    }
    return GR_STATUS_OK;
}
