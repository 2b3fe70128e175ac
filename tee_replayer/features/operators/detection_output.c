/* SPDX-License-Identifier: BSD-2-Clause */
/* Boxes of an SSD: ncnn's DetectionOutput, in Caffe's form. A prior whose background is likely enough is
 * passed over; ncnn leaves its box undefined. */
#include "boxes.h"

enum { LOCATION = OTHERS, CONFIDENCE, PRIORS };

static void decode(struct gr_work *w, uint32_t n, uint32_t prior, uint32_t label, double score)
{
    double centre[2], size[2];
    for (uint32_t axis = 0; axis < 2; axis++) {
        const double low = gr_number(w, PRIORS, 0, prior, axis, 0),
                     high = gr_number(w, PRIORS, 0, prior, axis + 2, 0);
        const double move = gr_number(w, LOCATION, prior, axis, 0, 0),
                     grow = gr_number(w, LOCATION, prior, axis + 2, 0, 0);
        centre[axis] = gr_number(w, PRIORS, 1, prior, axis, 0) * move * (high - low) + (low + high) * 0.5;
        size[axis] = gr_exp(gr_number(w, PRIORS, 1, prior, axis + 2, 0) * grow) * (high - low);
    }
    gr_candidate(w, n, label, score, centre[0], centre[1], size[0], size[1]);
}

void gr_operator_detection_output(struct gr_work *w);

void gr_operator_detection_output(struct gr_work *w)
{
    const uint32_t priors = gr_size(w, CONFIDENCE, 0), classes = gr_size(w, CONFIDENCE, 1);
    const double lowest = gr_number(w, PARAMETERS, LOWEST_SCORE, 0, 0, 0);
    const uint32_t most = gr_whole(gr_number(w, PARAMETERS, MOST_CANDIDATES, 0, 0, 0));
    uint32_t boxes = 0;
    for (uint32_t label = 1; label < classes && gr_goes_on(w); label++) {
        uint32_t candidates = 0;
        for (uint32_t n = 0; n < priors; n++) {
            const double score = gr_number(w, CONFIDENCE, n, label, 0, 0);
            if (score > lowest && !(gr_number(w, CONFIDENCE, n, 0, 0, 0) >= 1 - lowest))
                decode(w, candidates++, n, label, score);
        }
        boxes = gr_choose(w, candidates, most, boxes);
    }
    gr_finish(w, boxes);
}
