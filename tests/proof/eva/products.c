/* SPDX-License-Identifier: BSD-2-Clause */
/* Of products.c, all of it, with AArch64's vectors and without: any numbers, sizes on both sides of a tile's
 * and of a vector's, and looks at the clock after a few rounds. Each operand is the first or the last bytes
 * of a block of its own, as many as gr_rows says (unit operate); its rows touch, or begin where vectors may.
 */
#include "__fc_builtin.h"
#include "operands.h"
#include "stddef.h"
#undef GR_ROUNDS_A_LOOK
#define GR_ROUNDS_A_LOOK 8u

enum { TO, WEIGHTS, FROM, BIAS, CLAMP, OPERANDS, FLOAT_BYTES = 4, VECTOR_BYTES = 16, ROOM = 1024 };
static uint32_t sizes[OPERANDS][2], steps[OPERANDS];
static uint8_t to[ROOM], weights[ROOM], from[ROOM], bias[ROOM], clamp[ROOM];
static uint8_t *const blocks[OPERANDS] = {to, weights, from, bias, clamp};
static bool is_last;

/* An access that assumes an alignment has it; a block begins where a page may. */
static void *aligned(const void *at, unsigned bytes)
{
    //@ assert aligned: is_last || \offset((uint8_t *)at) % bytes == 0;
    return (void *)at;
}
#define __builtin_assume_aligned(pointer, bytes) aligned(pointer, bytes)
#define _Alignas(bytes) /* Frama-C does not know it; each variable is a block */

/*@ assigns \result \from a, b, sum; */
float proof_fused(float a, float b, float sum);
#define __builtin_fmaf proof_fused

uint32_t gr_size(const struct gr_work *w, uint32_t operand, uint32_t dimension)
{
    (void)w;
    //@ assert dimension: operand < OPERANDS && dimension < 2;
    return sizes[operand][dimension];
}

uint32_t gr_row_step(const struct gr_work *w, uint32_t operand)
{
    (void)w;
    //@ assert operand: operand < OPERANDS;
    return steps[operand];
}

void *gr_rows(struct gr_work *w, uint32_t operand, uint32_t rows, uint32_t columns, bool to_write)
{
    (void)w;
    //@ assert operand: operand < OPERANDS;
    //@ assert written: to_write == (operand == TO);
    //@ assert some: rows >= 1 && columns >= 1;
    const uint32_t bytes = (rows - 1) * steps[operand] + columns * FLOAT_BYTES;
    return Frama_C_nondet_ptr(NULL, blocks[operand] + (is_last ? ROOM - bytes : 0));
}

bool gr_goes_on(struct gr_work *w)
{
    (void)w;
    return Frama_C_interval(0, 1);
}
#include "shipped/products.c"

/* Rows of floats that begin at multiples of so many bytes. */
static void set(uint32_t operand, uint32_t rows, uint32_t columns, uint32_t alignment)
{
    sizes[operand][0] = rows;
    sizes[operand][1] = columns;
    steps[operand] = (columns * FLOAT_BYTES + alignment - 1) / alignment * alignment;
}

/* Whatever was done, the same state follows. */
static void forget(void)
{
    //@ loop unroll OPERANDS;
    for (uint32_t i = 0; i < OPERANDS; i++)
        Frama_C_make_unknown((char *)blocks[i], ROOM);
}

/* Of no columns: a fully connected layer. */
static void multiply(uint32_t rows, uint32_t columns, uint32_t inner, uint32_t row_of_from,
                     uint32_t row_of_to)
{
    const bool is_dense = !columns;
    set(TO, rows, is_dense ? 1 : columns, row_of_to);
    set(WEIGHTS, rows, inner, VECTOR_BYTES);
    set(FROM, inner, is_dense ? 1 : columns, row_of_from);
    set(BIAS, rows, 1, FLOAT_BYTES);
    set(CLAMP, 2, 1, FLOAT_BYTES);
    forget();
    if (is_dense)
        gr_operator_dense(NULL);
    else
        gr_operator_conv1x1(NULL);
    forget();
}

static void multiply_each(uint32_t rows, uint32_t columns, uint32_t inner)
{
    multiply(rows, columns, inner, VECTOR_BYTES, VECTOR_BYTES);
    multiply(rows, columns, inner, FLOAT_BYTES, FLOAT_BYTES);
    multiply(rows, columns, inner, FLOAT_BYTES, VECTOR_BYTES);
}

int main(void)
{
    static const uint32_t columns[] = {0, 1, 3, 4, 7, 13}, inner[] = {1, 8, 11};
    //@ loop unroll 2;
    for (uint32_t end = 0; end < 2; end++) {
        is_last = end;
        //@ loop unroll 2;
        for (uint32_t rows = 8; rows <= 9; rows++) {
            //@ loop unroll 6;
            for (uint32_t j = 0; j < sizeof columns / sizeof columns[0]; j++) {
                //@ loop unroll 3;
                for (uint32_t k = 0; k < sizeof inner / sizeof inner[0]; k++)
                    multiply_each(rows, columns[j], inner[k]);
            }
        }
    }
    return 0;
}
