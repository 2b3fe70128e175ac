/* SPDX-License-Identifier: BSD-2-Clause */
/* Products of matrices, and looking things up. */
#include "numbers.h"

void gr_operator_matmul(struct gr_work *w);
void gr_operator_embed(struct gr_work *w);
void gr_operator_argmax(struct gr_work *w);

void gr_operator_matmul(struct gr_work *w)
{
    enum { TO, LEFT, RIGHT, BIAS };
    const uint32_t rows = gr_size(w, TO, 0), columns = gr_size(w, TO, 1), inner = gr_size(w, LEFT, 1);
    for (uint32_t row = 0; row < rows; row++) {
        for (uint32_t column = 0; column < columns && gr_goes_on(w); column++) {
            double sum = 0;
            for (uint32_t i = 0; i < inner; i++)
                sum += gr_number(w, LEFT, row, i, 0, 0) * gr_number(w, RIGHT, i, column, 0, 0);
            if (gr_repetitions(w))
                sum += gr_number(w, BIAS, column, 0, 0, 0);
            gr_store(w, TO, row, column, 0, sum);
        }
    }
}

void gr_operator_embed(struct gr_work *w)
{
    enum { TO, INDICES, TABLE, BIAS };
    const uint32_t words = gr_size(w, TO, 0), width = gr_size(w, TO, 1), entries = gr_size(w, TABLE, 0);
    for (uint32_t word = 0; word < words && gr_goes_on(w); word++) {
        const uint32_t found = gr_get(w, INDICES, word, 0, 0, 0);
        const uint32_t entry = found >> 31 ? 0 : found < entries ? found : entries - 1;
        for (uint32_t i = 0; i < width; i++) {
            const double bias = gr_repetitions(w) ? gr_number(w, BIAS, i, 0, 0, 0) : 0;
            gr_store(w, TO, word, i, 0, gr_number(w, TABLE, entry, i, 0, 0) + bias);
        }
    }
}

void gr_operator_argmax(struct gr_work *w)
{
    enum { TO, FROM };
    const uint32_t most = gr_size(w, TO, 0), elements = gr_size(w, FROM, 0);
    double last = 0;
    uint32_t found =
        elements; /* the number of the latest; `elements` at first, and when there is none left */
    for (uint32_t n = 0; n < most && gr_goes_on(w); n++) {
        const uint32_t before = found;
        double highest = 0;
        found = elements;
        for (uint32_t i = 0; i < elements && (n == 0 || before < elements); i++) {
            const double value = gr_number(w, FROM, i, 0, 0, 0);
            const bool is_left =
                value == value && (n == 0 || value < last || (!(value > last) && i < before));
            if (is_left && (found == elements || value >= highest)) {
                found = i;
                highest = value;
            }
        }
        last = highest;
        gr_put(w, TO, n, 0, 0, found < elements ? found : UINT32_MAX);
    }
}
