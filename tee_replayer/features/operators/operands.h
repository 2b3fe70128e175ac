/* SPDX-License-Identifier: BSD-2-Clause */
/* What operators see of their operands. Indices are checked with every access; after an access that is not
 * allowed, reads give 0, writes do nothing, and gr_goes_on is false. */
#ifndef GRAMOPHONE_OPERANDS_H
#define GRAMOPHONE_OPERANDS_H

#include <stdbool.h>
#include <stdint.h>

struct gr_work;

/* Times that the repeated operands are there; size of an operand's dimension; elements in all. */
uint32_t gr_repetitions(const struct gr_work *w);
uint32_t gr_size(const struct gr_work *w, uint32_t operand, uint32_t dimension);

/* An element's bits, by its indices; those of dimensions that the operand has not are left out. */
uint32_t gr_get(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, uint32_t l);
void gr_put(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, uint32_t bits);

/* Operands that the operator has as a whole (GR_OPERAND_WHOLE): the first of `rows` dense rows of `columns`
 * elements of four bytes, each aligned, or NULL, after which gr_goes_on is false: such rows are not there,
 * their pages do not follow one another, or the operator may not access them. One of rank 1 is one row. */
void *gr_rows(struct gr_work *w, uint32_t operand, uint32_t rows, uint32_t columns, bool to_write);

/* Bytes from one row to the next. */
uint32_t gr_row_step(const struct gr_work *w, uint32_t operand);

/* Whether there is time left, and nothing has gone wrong: asked in every outer loop, and after so many rounds
 * of an inner one, or accesses. */
bool gr_goes_on(struct gr_work *w);
#define GR_ROUNDS_A_LOOK 4096u

/* Copy operand 1 to operand 0. */
void gr_operator_copy(struct gr_work *w);

#endif
