/* SPDX-License-Identifier: BSD-2-Clause */
/* Boxes and the choice among them, as ncnn's layers make it (their documents: docs/adr/0026-operators.md). */
#include "boxes.h"

enum { WAITS, OVERLAPS, DONE }; /* states of a candidate */

static double candidate(struct gr_work *w, uint32_t n, uint32_t column)
{
    return gr_number(w, WORK, n, column, 0, 0);
}

void gr_candidate(struct gr_work *w, uint32_t n, uint32_t label, double score, double x, double y,
                  double width, double height)
{
    gr_store(w, WORK, n, LABEL, 0, label);
    gr_store(w, WORK, n, SCORE, 0, score);
    gr_store(w, WORK, n, LEFT, 0, x - width * 0.5);
    gr_store(w, WORK, n, TOP, 0, y - height * 0.5);
    gr_store(w, WORK, n, RIGHT, 0, x + width * 0.5);
    gr_store(w, WORK, n, BOTTOM, 0, y + height * 0.5);
    gr_store(w, WORK, n, STATE, 0, WAITS);
}

/* Intersection over union; a NaN where a corner is one. */
static double overlap(struct gr_work *w, uint32_t a, uint32_t b)
{
    double corners[2][BOTTOM + 1];
    for (uint32_t i = LEFT; i <= BOTTOM; i++) {
        corners[0][i] = candidate(w, a, i);
        corners[1][i] = candidate(w, b, i);
    }
    const double *p = corners[0], *q = corners[1];
    double inside = 0;
    if (!(p[LEFT] > q[RIGHT] || p[RIGHT] < q[LEFT] || p[TOP] > q[BOTTOM] || p[BOTTOM] < q[TOP])) {
        const double right = q[RIGHT] < p[RIGHT] ? q[RIGHT] : p[RIGHT],
                     left = p[LEFT] < q[LEFT] ? q[LEFT] : p[LEFT];
        const double bottom = q[BOTTOM] < p[BOTTOM] ? q[BOTTOM] : p[BOTTOM],
                     top = p[TOP] < q[TOP] ? q[TOP] : p[TOP];
        inside = (right - left) * (bottom - top);
    }
    const double areas =
        (p[RIGHT] - p[LEFT]) * (p[BOTTOM] - p[TOP]) + (q[RIGHT] - q[LEFT]) * (q[BOTTOM] - q[TOP]);
    return inside / (areas - inside);
}

/* Put a candidate among the boxes, after those that are as good. */
static uint32_t insert(struct gr_work *w, uint32_t n, uint32_t boxes)
{
    const uint32_t room = gr_size(w, BOXES, 0);
    const double score = candidate(w, n, SCORE);
    uint32_t at = boxes;
    while (at > 0 && gr_number(w, BOXES, at - 1, SCORE, 0, 0) < score) {
        at--;
        for (uint32_t i = LABEL; i <= BOTTOM && at + 1 < room; i++)
            gr_put(w, BOXES, at + 1, i, 0, gr_get(w, BOXES, at, i, 0, 0));
    }
    if (at == room)
        return boxes;
    for (uint32_t i = LABEL; i <= BOTTOM; i++)
        gr_put(w, BOXES, at, i, 0, gr_get(w, WORK, n, i, 0, 0));
    return boxes < room ? boxes + 1 : boxes;
}

uint32_t gr_choose(struct gr_work *w, uint32_t candidates, uint32_t most, uint32_t boxes)
{
    const double greatest = gr_number(w, PARAMETERS, GREATEST_OVERLAP, 0, 0, 0);
    for (uint32_t looked_at = 0; looked_at < candidates && looked_at < most && gr_goes_on(w); looked_at++) {
        uint32_t best = candidates;
        double highest = 0;
        for (uint32_t n = 0; n < candidates; n++) {
            const double score = candidate(w, n, SCORE);
            if (candidate(w, n, STATE) < DONE && (best == candidates || score > highest)) {
                best = n;
                highest = score;
            }
        }
        if (best == candidates)
            break;
        const bool is_box = candidate(w, best, STATE) < OVERLAPS;
        gr_store(w, WORK, best, STATE, 0, DONE);
        if (!is_box)
            continue;
        boxes = insert(w, best, boxes);
        for (uint32_t n = 0; n < candidates; n++) {
            if (candidate(w, n, STATE) < OVERLAPS && overlap(w, n, best) > greatest)
                gr_store(w, WORK, n, STATE, 0, OVERLAPS);
        }
    }
    return boxes;
}

void gr_finish(struct gr_work *w, uint32_t boxes)
{
    gr_put(w, COUNT, 0, 0, 0, boxes);
    for (uint32_t n = boxes; n < gr_size(w, BOXES, 0) && gr_goes_on(w); n++) {
        for (uint32_t i = LABEL; i <= BOTTOM; i++)
            gr_put(w, BOXES, n, i, 0, 0);
    }
    /* Only some rows hold candidates of this run: the others' would be of an earlier caller's data. After a
     * failure memory is wiped before the next replay begins. */
    for (uint32_t n = 0; n < gr_size(w, WORK, 0) && gr_goes_on(w); n++) {
        for (uint32_t i = LABEL; i <= STATE; i++)
            gr_put(w, WORK, n, i, 0, 0);
    }
}
