/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "output_file.h"

static void put_json_string(FILE *file, const char *text)
{
    fputc('"', file);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', file);
        if ((unsigned char)*text >= 0x20)
            fputc(*text, file);
    }
    fputc('"', file);
}

static void put_numbers(FILE *file, const struct stats_number *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        fprintf(file, ", \"%s\": %" PRIu64, numbers[i].name, numbers[i].value);
}

static void put_counters(FILE *file, const vgpu *gpu)
{
    struct vgpu_counters counters;
    vgpu_counters_get(gpu, &counters);
#define NUMBER(name) {#name, counters.name},
    const struct stats_number numbers[] = {VGPU_COUNTERS_LIST(NUMBER)};
#undef NUMBER
    put_numbers(file, numbers, sizeof(numbers) / sizeof(numbers[0]));
}

bool stats_write(const char *path, const char *gpu_name, const vgpu *gpu, const struct stats_number *numbers,
                 size_t count)
{
    struct output_file out;
    bool good = output_open(&out, path);
    if (good) {
        const char *error = vgpu_error(gpu);
        fputs("{\"gpu\": ", out.file);
        put_json_string(out.file, gpu_name);
        fputs(", \"error\": ", out.file);
        if (error)
            put_json_string(out.file, error);
        else
            fputs("null", out.file);
        put_counters(out.file, gpu);
        put_numbers(out.file, numbers, count);
        fputs("}\n", out.file);
        good = output_close(&out, !ferror(out.file));
    }
    if (!good)
        fprintf(stderr, "gramophone: %s: %s\n", path, strerror(errno));
    return good;
}
