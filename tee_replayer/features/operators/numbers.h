/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers of operands: computed in double precision, rounded once, when they are stored. */
#ifndef GRAMOPHONE_NUMBERS_H
#define GRAMOPHONE_NUMBERS_H

#include "operands.h"

double gr_number(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, uint32_t l);
void gr_store(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, double value);

/* A whole number up to 2^31 - 1; 0 for what is less, and for a NaN. */
uint32_t gr_whole(double value);

double gr_sigmoid(double x);

/* e^x, right to 15 digits; infinity above 709, 0 below -708, NaN for a NaN. */
double gr_exp(double x);

#endif
