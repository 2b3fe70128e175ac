/* SPDX-License-Identifier: BSD-2-Clause */
#include "numbers.h"

double gr_number(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, uint32_t l)
{
    const union {
        uint32_t bits;
        float value;
    } number = {.bits = gr_get(w, operand, i, j, k, l)};
    return (double)number.value;
}

void gr_store(struct gr_work *w, uint32_t operand, uint32_t i, uint32_t j, uint32_t k, double value)
{
    const union {
        float value;
        uint32_t bits;
    } number = {.value = (float)value};
    gr_put(w, operand, i, j, k, number.bits);
}

uint32_t gr_whole(double value)
{
    if (!(value >= 1))
        return 0;
    return value < (double)INT32_MAX ? (uint32_t)value : INT32_MAX;
}

double gr_exp(double x)
{
    if (x > 709)
        return __builtin_inf();
    if (x < -708)
        return 0;
    if (x != x)
        return x;
    /* x = k ln 2 + r with |r| <= 0.35; ln 2 in two parts, so that k times the first is exact. */
    const double scaled = x * 1.4426950408889634074;
    const int k = (int)(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
    const double r = (x - k * 0x1.62e42feep-1) - k * 0x1.a39ef35793c76p-33;
    /* Taylor's series: the first term left out is below 1e-17. */
    double sum = 1;
    for (int n = 14; n > 0; n--)
        sum = 1 + sum * r / n;
    const union {
        uint64_t bits;
        double value;
    } power = {.bits = (uint64_t)(k + 1023) << 52};
    return sum * power.value;
}

double gr_sigmoid(double x)
{
    return 1 / (1 + gr_exp(-x));
}
