/* SPDX-License-Identifier: BSD-2-Clause */
/* Copies, fills and updates buffers around the vector addition of vadd.comp: a program to record.
 *
 *     copies SHADER.spv COUNT
 *
 * The arrays a and b (vadd.c) are copied to the buffer that the shader adds in, over a pattern; pieces of the
 * sum are copied to a third buffer, at offsets and in sizes that take items of 1, 2 and 4 bytes, beside what
 * is filled and updated there. Exit status: 0; 1 when a byte is wrong; 2 when something on the way there
 * failed. */
#include "gpu.h"

#define MAX_COUNT (1u << 18)
#define PATTERN 0xc0ffee42u
#define GAP 8u /* bytes between the pieces, which keep the pattern */
#define UPDATE_BYTES 68u

static const uint32_t pieces[] = {1,  2,   3,    4,    5,   6,
                                  64, 255, 1000, 4098, 4095}; /* bytes, where there are so many */

static void copy(VkCommandBuffer commands, const struct buffer *from, VkDeviceSize at,
                 const struct buffer *to, VkDeviceSize to_at, VkDeviceSize size)
{
    VkBufferCopy region = {.srcOffset = at, .dstOffset = to_at, .size = size};

    vkCmdCopyBuffer(commands, from->handle, to->handle, 1, &region);
}

/* The third buffer: by commands, and in `expected` as it must be. */
static void scatter(VkCommandBuffer commands, const struct buffer *from, const uint8_t *sums, uint32_t bytes,
                    const struct buffer *to, uint8_t *expected)
{
    static const uint8_t update[UPDATE_BYTES] = {3, 1, 4, 1, 5, 9, 2, 6};
    const uint32_t pattern = PATTERN, zero = 0;
    VkDeviceSize at = 0;

    vkCmdFillBuffer(commands, to->handle, 0, VK_WHOLE_SIZE, pattern);
    for (VkDeviceSize i = 0; i + 4 <= to->size; i += 4)
        memcpy(expected + i, &pattern, 4);
    barrier(commands);
    vkCmdUpdateBuffer(commands, to->handle, at, UPDATE_BYTES, update);
    memcpy(expected + at, update, UPDATE_BYTES);
    at += UPDATE_BYTES + GAP;
    vkCmdFillBuffer(commands, to->handle, at, 12, zero);
    memset(expected + at, 0, 12);
    at += 12 + GAP;
    for (uint32_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        uint32_t size = pieces[i] < bytes ? pieces[i] : bytes, first = bytes - size;
        copy(commands, from, 2 * (VkDeviceSize)bytes + first, to, at, size);
        memcpy(expected + at, sums + first, size);
        at += size + GAP;
    }
    copy(commands, from, 2 * (VkDeviceSize)bytes, to, (at + 3) / 4 * 4, bytes);
    memcpy(expected + (at + 3) / 4 * 4, sums, bytes);
    barrier(commands);
}

int main(int argc, char **argv)
{
    unsigned long count = argc == 3 ? strtoul(argv[2], NULL, 10) : 0;
    struct buffer given, work, result;
    struct program program;
    VkCommandBuffer commands;
    uint32_t n, bytes, wrong = 0;
    uint8_t *expected;
    struct gpu gpu;
    float *sums;

    if (count < 1 || count > MAX_COUNT)
        fail("usage: copies SHADER.spv COUNT, up to %u", MAX_COUNT);
    n = (uint32_t)count;
    bytes = n * (uint32_t)sizeof(float);
    gpu = open_gpu();
    given = make_buffer(&gpu, 2 * (VkDeviceSize)bytes);
    work = make_buffer(&gpu, 3 * (VkDeviceSize)bytes);
    result = make_buffer(&gpu, 16384 + (VkDeviceSize)bytes);
    expected = calloc(1, result.size);
    sums = malloc(bytes);
    if (!expected || !sums)
        fail("out of memory");
    for (uint32_t i = 0; i < n; i++) {
        given.data[i] = (float)i / 2.0f;
        given.data[n + i] = 1000.0f - (float)i;
        sums[i] = 1000.0f - (float)i / 2.0f;
    }
    program = make_program(&gpu, read_shader(&gpu, argv[1]));
    commands = begin_commands(&gpu);
    vkCmdFillBuffer(commands, work.handle, 0, VK_WHOLE_SIZE, PATTERN);
    barrier(commands);
    copy(commands, &given, 0, &work, 0, 2 * (VkDeviceSize)bytes);
    barrier(commands);
    dispatch(commands, &program, bind_buffer(&gpu, &program, &work), n);
    scatter(commands, &work, (const uint8_t *)sums, bytes, &result, expected);
    submit(&gpu, commands, 1);
    for (VkDeviceSize i = 0; i < result.size; i++)
        wrong += ((const uint8_t *)result.data)[i] != expected[i];
    printf("%u of %u bytes are wrong\n", wrong, (uint32_t)result.size);
    return wrong != 0;
}
