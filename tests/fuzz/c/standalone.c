/* SPDX-License-Identifier: BSD-2-Clause */
/* A target without libFuzzer, to count what its inputs execute: runs it on each file named. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#undef main /* a target that is a command gives the command's another name */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* For the targets' own mutators, which are not called here. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size)
{
    (void)data, (void)max_size;
    return size;
}

int main(int argc, char **argv)
{
    enum { MOST = 1 << 16 };
    static uint8_t buffer[MOST];
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file)
            return 2;
        const size_t bytes = fread(buffer, 1, sizeof buffer, file);
        fclose(file);
        uint8_t *data = malloc(bytes + 1);
        if (!data)
            return 2;
        for (size_t k = 0; k < bytes; k++)
            data[k] = buffer[k];
        LLVMFuzzerTestOneInput(data, bytes);
        free(data);
    }
    return 0;
}
