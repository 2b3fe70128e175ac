/* SPDX-License-Identifier: BSD-2-Clause */
/* What operators that find boxes share: their first operands, candidates, the choice among them. */
#ifndef GRAMOPHONE_BOXES_H
#define GRAMOPHONE_BOXES_H

#include "numbers.h"

enum { BOXES, COUNT, WORK, PARAMETERS, OTHERS }; /* operands */
enum {
    LABEL,
    SCORE,
    LEFT,
    TOP,
    RIGHT,
    BOTTOM,
    STATE
}; /* columns of a candidate; a box has all but the last */
enum { LOWEST_SCORE, GREATEST_OVERLAP, MOST_CANDIDATES }; /* parameters */

/* Note candidate number `n` by its centre and size. */
void gr_candidate(struct gr_work *w, uint32_t n, uint32_t label, double score, double x, double y,
                  double width, double height);

/* Of `candidates`, the `most` with the highest scores are looked at, in the order of their scores; one that
 * no better one overlaps too much becomes a box. `boxes` are there already; returns how many there are then.
 * Boxes are kept in the order of their scores, as many as there is room for. */
uint32_t gr_choose(struct gr_work *w, uint32_t candidates, uint32_t most, uint32_t boxes);

/* The end: how many boxes there are; the other rows become zero, and so does all of the scratch. */
void gr_finish(struct gr_work *w, uint32_t boxes);

#endif
