// SPDX-License-Identifier: BSD-2-Clause
// c = a b, then one more; an item for each element of c.
__attribute__((reqd_work_group_size(8, 8, 1))) kernel void matmul(
    global const float *a, global const float *b, global float *c, uint inner)
{
    const size_t row = get_global_id(1), column = get_global_id(0), columns = get_global_size(0);
    float sum = 0;
    for (uint i = 0; i < inner; i++)
        sum += a[row * inner + i] * b[i * columns + column];
    c[row * columns + column] = sum;
}

// Its code reaches the GPU's memory when the first kernel has run.
__attribute__((reqd_work_group_size(8, 8, 1))) kernel void plus_one(global float *c, uint columns)
{
    c[get_global_id(1) * columns + get_global_id(0)] += 1.0f;
}
