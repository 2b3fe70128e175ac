/* SPDX-License-Identifier: BSD-2-Clause */
/* Pieces of the core's scenes. Each PIECE record is one: bytes 0 to 7 say where, how long and for which jobs,
 * brought to where that means something; from byte 8 on it is what the row says, if the record is hostile. */
#include "core.h"

enum { MOST_PIECES = 5, MOST_PAGES = 3 };

static size_t stream_bytes;

/* Rows, and what they are of: bytes of the section STREAM. */
static size_t lay_out(uint8_t *rows, uint8_t *stream)
{
    const size_t count = count_of(PIECE, MOST_PIECES);
    const uint64_t image_end = (scene.numbers[IMAGE_BYTES] + PAGE - 1) / PAGE,
                   pages = scene.numbers[CARVEOUT_PAGES] > image_end
                               ? scene.numbers[CARVEOUT_PAGES] - image_end
                               : 1;
    uint32_t jobs = 0, before = 0;
    for (size_t i = 0; i < count_of(ACTION, MAX_RECORDS); i++)
        jobs += record_at(ACTION, i)->what >= 0xf0;
    jobs = jobs ? jobs : 1;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        const struct record *r = record_at(PIECE, i);
        const bool stays = r->data[6] & 1, packed = r->data[6] & 2;
        const uint64_t page = number_of(r, 0, 2) % pages, most = pages - page,
                       size = 1 + r->data[2] % (most < MOST_PAGES ? most : MOST_PAGES);
        const uint32_t first = before + r->data[4] % (jobs - before);
        static uint8_t content[MOST_PAGES * PAGE], stored[2 * MOST_PAGES * PAGE];
        for (size_t k = 0; k < size * PAGE; k++)
            content[k] = k / 64 & 1 ? r->data[7] : (uint8_t)(k * 13 >> 2);
        const size_t bytes = packed ? pack(stored, content, size * PAGE) : size * PAGE;
        if (stream)
            memcpy(stream + at, packed ? stored : content, bytes);
        uint8_t *row = rows + i * GR_PIECE_BYTES;
        memset(row, 0, GR_PIECE_BYTES);
        put(row + GR_PIECE_AT_OFFSET, at, 8);
        put(row + GR_PIECE_AT_STORED_BYTES, bytes, 4);
        put(row + GR_PIECE_AT_BYTES, size * PAGE, 4);
        put(row + GR_PIECE_AT_PAGE, image_end + page, 4);
        put(row + GR_PIECE_AT_FROM_JOB, stays ? 0 : first - r->data[3] % (first + 1), 4);
        put(row + GR_PIECE_AT_FIRST_JOB, first, 4);
        put(row + GR_PIECE_AT_LAST_JOB, stays ? jobs - 1 : first + r->data[5] % (jobs - first), 4);
        row[GR_PIECE_AT_CODEC] = packed ? GR_CODEC_LZ4 : GR_CODEC_STORED;
        row[GR_PIECE_AT_FLAGS] = stays;
        if (r->how & 1) /* hostile */
            put(row + r->what % (GR_PIECE_BYTES / 4) * 4, number_of(r, 8, 4), 4);
        before = first;
        const size_t end = at + bytes;
        at = (end + 7) & ~(size_t)7;
        if (stream)
            memset(stream + end, 0, at - end);
    }
    stream_bytes = at;
    return count * GR_PIECE_BYTES;
}

size_t put_pieces(uint8_t *rows)
{
    return lay_out(rows, NULL);
}

size_t put_stream(uint8_t *stream)
{
    static uint8_t rows[MOST_PIECES * GR_PIECE_BYTES];
    lay_out(rows, stream);
    return stream_bytes;
}

static uint64_t field(const uint8_t *row, uint32_t at)
{
    uint32_t value;
    memcpy(&value, row + at, sizeof value);
    return value;
}

void read_pieces(const uint8_t *rows, size_t count)
{
    scene.piece_rows = rows;
    scene.piece_count = count;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *row = rows + i * GR_PIECE_BYTES;
        const uint64_t end = field(row, GR_PIECE_AT_PAGE) * PAGE + field(row, GR_PIECE_AT_BYTES);
        if (row[GR_PIECE_AT_FLAGS] & 1 && end > scene.read_only_end)
            scene.read_only_end = end;
    }
}

void check_pieces(void)
{
    for (size_t i = 0; i < scene.piece_count; i++) {
        const uint8_t *row = scene.piece_rows + i * GR_PIECE_BYTES;
        const uint64_t begin = field(row, GR_PIECE_AT_PAGE) * PAGE,
                       end = begin + field(row, GR_PIECE_AT_BYTES);
        const bool stays = row[GR_PIECE_AT_FLAGS] & 1;
        PROMISE(end > begin && begin >= (stays ? scene.image_end : scene.read_only_end) &&
                    end <= scene.carveout_bytes,
                "a piece lies behind what is only read, in the trace's part of the carve-out");
        for (size_t k = 0; k < i; k++) {
            const uint8_t *other = scene.piece_rows + k * GR_PIECE_BYTES;
            const uint64_t its = field(other, GR_PIECE_AT_PAGE) * PAGE;
            PROMISE(its >= end || begin >= its + field(other, GR_PIECE_AT_BYTES) ||
                        field(other, GR_PIECE_AT_LAST_JOB) < field(row, GR_PIECE_AT_FROM_JOB) ||
                        field(row, GR_PIECE_AT_LAST_JOB) < field(other, GR_PIECE_AT_FROM_JOB),
                    "no piece has memory that another one has meanwhile");
        }
    }
}

void check_stays(uint8_t *known)
{
    for (size_t i = 0; i < scene.piece_count; i++) {
        const uint8_t *row = scene.piece_rows + i * GR_PIECE_BYTES;
        const uint64_t begin = field(row, GR_PIECE_AT_PAGE) * PAGE, bytes = field(row, GR_PIECE_AT_BYTES);
        if (!(row[GR_PIECE_AT_FLAGS] & 1) || scene.replayer->pieces_read[i] != bytes)
            continue;
        if (!scene.has_stayed[i])
            memcpy(known + begin, scene.base + begin, bytes);
        scene.has_stayed[i] = true;
        PROMISE(!memcmp(known + begin, scene.base + begin, bytes), "a resident piece stays as it was signed");
    }
}

/* Of the job that starts now, the latest that an action has begun: the core has read all that it needs. */
void check_job_pieces(void)
{
    const struct gr_replayer *r = scene.replayer;
    uint64_t jobs = 0;
    for (uint32_t i = 0; i <= r->report.action; i++)
        jobs += r->actions[i * GR_ACTION_BYTES + GR_ACTION_AT_OP] == GR_OP_JOB;
    for (size_t i = 0; i < scene.piece_count && jobs; i++) {
        const uint8_t *row = scene.piece_rows + i * GR_PIECE_BYTES;
        PROMISE(field(row, GR_PIECE_AT_FIRST_JOB) > jobs - 1 || jobs - 1 > field(row, GR_PIECE_AT_LAST_JOB) ||
                    r->pieces_read[i] == field(row, GR_PIECE_AT_BYTES),
                "no job starts before its pieces are there");
    }
}
