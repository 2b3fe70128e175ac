/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs a shader over a buffer: words of a file, and room for its results.
 *
 *     operations SHADER.spv INPUT ITEMS WORDS OUTPUT
 *
 * The buffer has WORDS words, of which the file INPUT has the first; the shader runs once for each of ITEMS.
 * OUTPUT gets the buffer. Exit status: 0; 2 when something on the way failed. */
#include "gpu.h"

#define MAX_WORDS (1u << 20)

static uint32_t number(const char *text, const char *what)
{
    unsigned long value = strtoul(text, NULL, 10);

    if (value < 1 || value > MAX_WORDS)
        fail("%s: expected 1 to %u %s", text, MAX_WORDS, what);
    return (uint32_t)value;
}

int main(int argc, char **argv)
{
    struct program program;
    struct buffer buffer;
    VkCommandBuffer commands;
    struct gpu gpu;
    uint32_t items, words;
    FILE *file;

    if (argc != 6)
        fail("usage: operations SHADER.spv INPUT ITEMS WORDS OUTPUT");
    items = number(argv[3], "items");
    words = number(argv[4], "words");
    gpu = open_gpu();
    buffer = make_buffer(&gpu, words * sizeof(uint32_t));
    memset(buffer.data, 0, words * sizeof(uint32_t));
    file = fopen(argv[2], "rb");
    if (!file || fread(buffer.data, sizeof(uint32_t), words, file) == 0)
        fail("%s: cannot be read", argv[2]);
    fclose(file);
    program = make_program(&gpu, read_shader(&gpu, argv[1]));
    commands = begin_commands(&gpu);
    dispatch(commands, &program, bind_buffer(&gpu, &program, &buffer), items);
    submit(&gpu, commands, 1);
    file = fopen(argv[5], "wb");
    if (!file || fwrite(buffer.data, sizeof(uint32_t), words, file) != words || fclose(file))
        fail("%s: cannot be written", argv[5]);
    return 0;
}
