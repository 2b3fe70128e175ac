/* SPDX-License-Identifier: BSD-2-Clause */
/* Boxes of YOLO networks: ncnn's YoloDetectionOutput and Yolov3DetectionOutput. Over all boxes of a head and
 * its cells; they differ in what makes a score of the numbers of the classes. */
#include "boxes.h"

enum { X, Y, WIDTH, HEIGHT, OBJECTNESS, CLASSES }; /* what a head says of a box */
#define HEAD(repetition) (OTHERS + 2 * (repetition))
#define ANCHORS(repetition) (HEAD(repetition) + 1)

/* Rounded as a number that is stored. */
static double rounded(double x)
{
    return (double)(float)x;
}

static void find(struct gr_work *w, bool has_softmax)
{
    const double lowest = gr_number(w, PARAMETERS, LOWEST_SCORE, 0, 0, 0);
    uint32_t candidates = 0;
    for (uint32_t r = 0; r < gr_repetitions(w); r++) {
        const uint32_t head = HEAD(r), numbers = gr_size(w, head, 1);
        const uint32_t height = gr_size(w, head, 2), width = gr_size(w, head, 3);
        for (uint32_t box = 0; box < gr_size(w, head, 0); box++) {
            for (uint32_t y = 0; y < height && gr_goes_on(w); y++) {
                for (uint32_t x = 0; x < width; x++) {
                    uint32_t best = 0;
                    double highest = -__builtin_inf(), sum = 0;
                    for (uint32_t n = CLASSES; n < numbers; n++) {
                        const double number = gr_number(w, head, box, n, y, x);
                        if (number > highest) {
                            best = n - CLASSES;
                            highest = number;
                        }
                    }
                    for (uint32_t n = CLASSES; n < numbers && has_softmax; n++)
                        sum += gr_exp(gr_number(w, head, box, n, y, x) - highest);
                    const double objectness = gr_number(w, head, box, OBJECTNESS, y, x);
                    /* The brackets of version 3 are ncnn's: not a product of two sigmoids. */
                    const double score =
                        rounded(has_softmax ? gr_sigmoid(objectness) / sum
                                            : 1 / (1 + gr_exp(-objectness) * (1 + gr_exp(-highest))));
                    if (!(score >= lowest))
                        continue;
                    const double centre_x = (x + gr_sigmoid(gr_number(w, head, box, X, y, x))) / width;
                    const double centre_y = (y + gr_sigmoid(gr_number(w, head, box, Y, y, x))) / height;
                    const double box_width =
                        gr_exp(gr_number(w, head, box, WIDTH, y, x)) * gr_number(w, ANCHORS(r), box, 0, 0, 0);
                    const double box_height = gr_exp(gr_number(w, head, box, HEIGHT, y, x)) *
                                              gr_number(w, ANCHORS(r), box, 1, 0, 0);
                    gr_candidate(w, candidates++, best + 1, score, centre_x, centre_y, box_width, box_height);
                }
            }
        }
    }
    gr_finish(w, gr_choose(w, candidates, candidates, 0));
}

void gr_operator_yolo_detection_output(struct gr_work *w);
void gr_operator_yolov3_detection_output(struct gr_work *w);

void gr_operator_yolo_detection_output(struct gr_work *w)
{
    find(w, true);
}

void gr_operator_yolov3_detection_output(struct gr_work *w)
{
    find(w, false);
}
