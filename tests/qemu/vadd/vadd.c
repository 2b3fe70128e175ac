/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds two arrays on the GPU with plain Vulkan, and checks the sum: a program to record.
 *
 *     vadd SHADER.spv [COUNT [TIMES]]
 *
 * One storage buffer holds a, b and their sum, COUNT floats each. a[i] = i / 2, b[i] = 1000 - i: every sum is
 * exact. They are added TIMES times, a submission each. Exit status: 0; 1 when a sum is wrong; 2 when
 * something on the way there failed. */
#include "gpu.h"

#define MAX_COUNT (1u << 20)

static void fill(float *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (float)i / 2.0f;
        x[count + i] = 1000.0f - (float)i;
        x[2 * count + i] = -1.0f;
    }
}

static uint32_t wrong_sums(const float *x, uint32_t count)
{
    uint32_t wrong = 0;

    for (uint32_t i = 0; i < count; i++)
        wrong += x[2 * count + i] != 1000.0f - (float)i / 2.0f;
    return wrong;
}

int main(int argc, char **argv)
{
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    unsigned long times = argc > 3 ? strtoul(argv[3], NULL, 10) : 1;
    struct program program;
    struct buffer buffer;
    VkCommandBuffer commands;
    struct gpu gpu;
    uint32_t n, wrong;

    if (argc < 2 || argc > 4 || count < 1 || count > MAX_COUNT)
        fail("usage: vadd SHADER.spv [COUNT up to %u [TIMES]]", MAX_COUNT);
    n = (uint32_t)count;
    gpu = open_gpu();
    buffer = make_buffer(&gpu, 3 * n * sizeof(float));
    fill(buffer.data, n);
    program = make_program(&gpu, read_shader(&gpu, argv[1]));
    commands = begin_commands(&gpu);
    dispatch(commands, &program, bind_buffer(&gpu, &program, &buffer), n);
    submit(&gpu, commands, times);
    wrong = wrong_sums(buffer.data, n);
    printf("%u of %u sums are wrong\n", wrong, n);
    return wrong != 0;
}
