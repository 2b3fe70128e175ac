/* SPDX-License-Identifier: BSD-2-Clause */
/* Products of matrices at the rate of vectors: pointwise convolutions and fully connected layers. The
 * operands are looked up once; from then on each loop is bounded by sizes that they were looked up with. */
#include "fours.h"

enum { TILE = 8 }; /* rows at once */
#define EACH_ROW(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)

struct product {
    struct gr_work *work;
    uint32_t rows, columns, inner, rounds;
    bool is_stopped;
    float low, high;
    const uint8_t *weights, *from;
    const float *bias;
    uint8_t *to;
    uint64_t weights_step, from_step, to_step;
};

void gr_operator_conv1x1(struct gr_work *w);
void gr_operator_dense(struct gr_work *w);

static const float *floats(const uint8_t *at)
{
    return __builtin_assume_aligned(at, 4);
}

/* Whether so many more rounds may be gone. */
static bool goes_on(struct product *p, uint32_t rounds)
{
    p->rounds += rounds;
    if (p->rounds >= GR_ROUNDS_A_LOOK) {
        p->rounds = 0;
        p->is_stopped = !gr_goes_on(p->work);
    }
    return !p->is_stopped;
}

/* The row that the next tile begins with. */
static uint32_t next(const struct product *p, uint32_t row)
{
    return p->rows - row > TILE ? row + TILE : p->rows;
}

/* The last round that is gone before the next look at the clock, of those up to `end`. */
static uint32_t stop(uint32_t from, uint32_t end)
{
    return end - from > GR_ROUNDS_A_LOOK ? from + GR_ROUNDS_A_LOOK : end;
}

/* Eight rows: their weights and biases; behind the last row the last one again. */
struct band {
    const uint8_t *weights[TILE];
    float bias[TILE];
};

static struct band band_of(const struct product *p, uint32_t row)
{
    struct band band;
    for (uint32_t i = 0; i < TILE; i++) {
        const uint32_t at = p->rows - row > i ? row + i : p->rows - 1;
        band.weights[i] = p->weights + at * p->weights_step;
        band.bias[i] = p->bias[at];
    }
    return band;
}

static float *result(const struct product *p, uint32_t row, uint32_t column)
{
    return (float *)__builtin_assume_aligned(p->to + row * p->to_step, 4) + column;
}

/* Eight or four columns of a row; the second four are used of eight only. */
static inline __attribute__((always_inline)) gr_eight part(const float *from, const bool is_wide,
                                                           const bool is_packed)
{
    if (is_packed && is_wide)
        return gr_eight_at(from);
    const gr_four first = is_packed ? gr_loose_four_at(from) : gr_four_at(from);
    return (gr_eight){{first, is_wide ? gr_four_at(from + GR_LANES) : first}};
}

static inline __attribute__((always_inline)) void put_part(float *to, gr_eight sums, const bool is_wide,
                                                           const bool is_packed)
{
    if (is_packed && is_wide) {
        gr_eight_to(to, sums);
    } else if (is_packed) {
        gr_loose_four_to(to, sums.val[0]);
    } else {
        gr_four_to(to, sums.val[0]);
        if (is_wide)
            gr_four_to(to + GR_LANES, sums.val[1]);
    }
}

/* Eight rows of four or of eight columns; of pictures that are packed each row begins at any number. */
static inline __attribute__((always_inline)) void tile(struct product *p, const struct band *band,
                                                       uint32_t row, uint32_t column, const bool is_wide,
                                                       const bool is_packed)
{
#define BEGIN(i)                                                                                             \
    const uint8_t *w##i = band->weights[i];                                                                  \
    gr_four a##i = gr_four_of(band->bias[i]), b##i = a##i;
    EACH_ROW(BEGIN)
    const uint8_t *from = p->from + 4 * (uint64_t)column;
    const uint64_t step = p->from_step;
    for (uint32_t k = 0; k < p->inner;) {
        const uint32_t end = stop(k, p->inner);
        if (!goes_on(p, end - k))
            return;
        for (; end - k >= GR_LANES; k += GR_LANES) {
#define LOAD(i) const gr_four v##i = gr_four_at(floats(w##i + 4 * (uint64_t)k));
            EACH_ROW(LOAD)
#define ADD(i, lane)                                                                                         \
    a##i = GR_FUSED_LANE(a##i, x, v##i, lane);                                                               \
    if (is_wide)                                                                                             \
        b##i = GR_FUSED_LANE(b##i, y, v##i, lane);
#define ADD0(i) ADD(i, 0)
#define ADD1(i) ADD(i, 1)
#define ADD2(i) ADD(i, 2)
#define ADD3(i) ADD(i, 3)
#define ROUND(ADDED)                                                                                         \
    {                                                                                                        \
        const gr_eight columns = part(floats(from), is_wide, is_packed);                                     \
        const gr_four x = columns.val[0], y = columns.val[1];                                                \
        from += step;                                                                                        \
        EACH_ROW(ADDED)                                                                                      \
    }
            ROUND(ADD0)
            ROUND(ADD1)
            ROUND(ADD2)
            ROUND(ADD3)
        }
        for (; k < end; k++) {
#define ONE(i)                                                                                               \
    const gr_four v##i = gr_four_of(*floats(w##i + 4 * (uint64_t)k));                                        \
    a##i = GR_FUSED(a##i, x, v##i);                                                                          \
    if (is_wide)                                                                                             \
        b##i = GR_FUSED(b##i, y, v##i);
            ROUND(ONE)
        }
    }
#define SUMS(i) {a##i, b##i},
    const gr_four sums[TILE][2] = {EACH_ROW(SUMS)};
    uint8_t *to = (uint8_t *)result(p, row, column);
    for (uint32_t i = 0; i < TILE && p->rows - row > i; i++, to += p->to_step) {
        const gr_four first = gr_four_clamped(sums[i][0], p->low, p->high);
        const gr_eight clamped = {{first, is_wide ? gr_four_clamped(sums[i][1], p->low, p->high) : first}};
        put_part((float *)__builtin_assume_aligned(to, 4), clamped, is_wide, is_packed);
    }
}

/* A band of pictures that are packed; the last columns again where they are no multiple of four. */
static void packed_tiles(struct product *p, const struct band *band, uint32_t row)
{
    uint32_t column = 0;
    for (; p->columns - column >= 2 * GR_LANES && goes_on(p, 1); column += 2 * GR_LANES)
        tile(p, band, row, column, true, true);
    for (; column < p->columns && goes_on(p, 1); column += GR_LANES)
        tile(p, band, row, p->columns - column >= GR_LANES ? column : p->columns - GR_LANES, false, true);
}

/* One number: what is left where columns are no multiple of four. */
static void single(struct product *p, uint32_t row, uint32_t column)
{
    float sum = p->bias[row];
    const float *weights = floats(p->weights + row * p->weights_step);
    const uint8_t *from = p->from + 4 * (uint64_t)column;
    for (uint32_t k = 0; k < p->inner;) {
        const uint32_t end = stop(k, p->inner);
        if (!goes_on(p, end - k))
            return;
        for (; k < end; k++, from += p->from_step)
            sum = gr_fused(sum, *floats(from), weights[k]);
    }
    *result(p, row, column) = gr_clamped(sum, p->low, p->high);
}

/* Look the operands up; their sizes are compared with those that the loops have. */
static bool begins(struct product *p, struct gr_work *w, bool is_dense)
{
    enum { TO, WEIGHTS, FROM, BIAS, CLAMP };
    *p = (struct product){
        .work = w,
        .rows = gr_size(w, TO, 0),
        .columns = is_dense ? 1 : gr_size(w, TO, 1),
        .inner = gr_size(w, FROM, 0),
        .weights_step = gr_row_step(w, WEIGHTS),
        .from_step = gr_row_step(w, FROM),
        .to_step = gr_row_step(w, TO),
    };
    const uint32_t rows = p->rows, columns = p->columns, inner = p->inner;
    p->to = gr_rows(w, TO, is_dense ? 1 : rows, is_dense ? rows : columns, true);
    p->weights = gr_rows(w, WEIGHTS, rows, inner, false);
    p->from = gr_rows(w, FROM, is_dense ? 1 : inner, is_dense ? inner : columns, false);
    p->bias = gr_rows(w, BIAS, 1, rows, false);
    const float *clamp = gr_rows(w, CLAMP, 1, 2, false);
    if (!p->to || !p->weights || !p->from || !p->bias || !clamp)
        return false;
    p->low = clamp[0];
    p->high = clamp[1];
    return gr_goes_on(w);
}

/* A band whose rows begin where vectors do, and one that is narrower than a vector. */
static void tiles(struct product *p, const struct band *band, uint32_t row)
{
    uint32_t column = 0;
    for (; p->columns - column >= 2 * GR_LANES && goes_on(p, 1); column += 2 * GR_LANES)
        tile(p, band, row, column, true, false);
    if (p->columns - column >= GR_LANES && p->columns - column < 2 * GR_LANES) {
        tile(p, band, row, column, false, false);
        column += GR_LANES;
    }
    for (; column < p->columns && !p->is_stopped; column++) {
        for (uint32_t i = row; i < p->rows && i - row < TILE; i++)
            single(p, i, column);
    }
}

void gr_operator_conv1x1(struct gr_work *w)
{
    struct product p;
    if (!begins(&p, w, false))
        return;
    const bool is_packed = (p.from_step | p.to_step) % sizeof(gr_four) && p.columns >= GR_LANES;
    for (uint32_t row = 0; row < p.rows; row = next(&p, row)) {
        const struct band band = band_of(&p, row);
        if (is_packed)
            packed_tiles(&p, &band, row);
        else
            tiles(&p, &band, row);
        if (!gr_goes_on(w))
            return;
    }
}

/* Up to three numbers, and zeros. */
static gr_four some(const float *from, uint32_t count)
{
    _Alignas(16) float numbers[GR_LANES] = {0};
    for (uint32_t i = 0; i < count && i < GR_LANES; i++)
        numbers[i] = from[i];
    return gr_four_at(numbers);
}

void gr_operator_dense(struct gr_work *w)
{
    struct product p;
    if (!begins(&p, w, true))
        return;
    const float *from = floats(p.from);
    for (uint32_t row = 0; row < p.rows; row = next(&p, row)) {
        const struct band band = band_of(&p, row);
#define SUM(i)                                                                                               \
    const float *w##i = floats(band.weights[i]);                                                             \
    gr_four a##i = gr_four_of(0);
        EACH_ROW(SUM)
        for (uint32_t k = 0; k < p.inner;) {
            const uint32_t end = stop(k, p.inner);
            if (!goes_on(&p, end - k))
                return;
            for (; end - k >= GR_LANES; k += GR_LANES) {
                const gr_four x = gr_four_at(from + k);
#define DOT(i) a##i = GR_FUSED(a##i, x, gr_four_at(w##i + k));
                EACH_ROW(DOT)
            }
            if (k < end)
                break;
        }
        const uint32_t left = p.inner % GR_LANES, k = p.inner - left;
#define DOTS(i) a##i,
        const gr_four sums[TILE] = {EACH_ROW(DOTS)};
        for (uint32_t i = 0; i < TILE && p.rows - row > i; i++) {
            const gr_four four =
                GR_FUSED(sums[i], some(from + k, left), some(floats(band.weights[i]) + k, left));
            const float sum = (GR_LANE(four, 0) + GR_LANE(four, 2)) + (GR_LANE(four, 1) + GR_LANE(four, 3));
            *result(&p, 0, row + i) = gr_clamped(sum + band.bias[i], p.low, p.high);
        }
    }
}
