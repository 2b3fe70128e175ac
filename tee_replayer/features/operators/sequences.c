/* SPDX-License-Identifier: BSD-2-Clause */
/* Along one dimension of a tensor, which is the middle one of three: ncnn's GLU, CumulativeSum and Flip. */
#include "numbers.h"

enum { TO, FROM, GATE };

void gr_operator_glu(struct gr_work *w);
void gr_operator_cumulative_sum(struct gr_work *w);
void gr_operator_flip(struct gr_work *w);

void gr_operator_glu(struct gr_work *w)
{
    for (uint32_t i = 0; i < gr_size(w, TO, 0); i++) {
        for (uint32_t j = 0; j < gr_size(w, TO, 1) && gr_goes_on(w); j++) {
            for (uint32_t k = 0; k < gr_size(w, TO, 2); k++)
                gr_store(w, TO, i, j, k,
                         gr_number(w, FROM, i, j, k, 0) * gr_sigmoid(gr_number(w, GATE, i, j, k, 0)));
        }
    }
}

void gr_operator_cumulative_sum(struct gr_work *w)
{
    for (uint32_t i = 0; i < gr_size(w, TO, 0); i++) {
        for (uint32_t k = 0; k < gr_size(w, TO, 2) && gr_goes_on(w); k++) {
            double sum = 0;
            for (uint32_t j = 0; j < gr_size(w, TO, 1); j++) {
                sum += gr_number(w, FROM, i, j, k, 0);
                gr_store(w, TO, i, j, k, sum);
            }
        }
    }
}

void gr_operator_flip(struct gr_work *w)
{
    const uint32_t length = gr_size(w, TO, 1);
    for (uint32_t i = 0; i < gr_size(w, TO, 0); i++) {
        for (uint32_t j = 0; j < length && gr_goes_on(w); j++) {
            for (uint32_t k = 0; k < gr_size(w, TO, 2); k++)
                gr_put(w, TO, i, j, k, gr_get(w, FROM, i, length - 1 - j, k, 0));
        }
    }
}
