/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* `count` numbers with colons between them. Returns the text after them, or NULL when they are not there. */
static const char *scan_numbers(const char *text, unsigned count, uint64_t *const out[])
{
    for (unsigned i = 0; i < count; i++) {
        char *end;
        if (i && *text++ != ':')
            return NULL;
        errno = 0;
        *out[i] = strtoull(text, &end, 0);
        if (end == text || errno || *text < '0' || *text > '9') /* no sign, no space */
            return NULL;
        text = end;
    }
    return text;
}

static bool parse_numbers(const char *text, unsigned count, uint64_t *const out[])
{
    const char *end = scan_numbers(text, count, out);
    return end && !*end;
}

static bool parse_number(const char *text, uint64_t *out)
{
    return parse_numbers(text, 1, &out);
}

/* The address of a page, not 0. */
static bool parse_page(const char *text, uint64_t *out)
{
    return parse_number(text, out) && *out && !(*out & 0xfff);
}

static bool parse_u32(const char *text, uint32_t *out)
{
    uint64_t number;
    bool good = parse_number(text, &number) && number <= UINT32_MAX;
    *out = good ? (uint32_t)number : 0;
    return good;
}

static bool parse_pieces(const char *text, struct arguments *arguments)
{
    while (arguments->piece_count < MAX_PIECES - 1) {
        struct piece *piece = &arguments->pieces[arguments->piece_count++];
        text = scan_numbers(text, 3, (uint64_t *const[]){&piece->offset, &piece->size, &piece->address});
        if (!text || *text != '+')
            return text && !*text;
        text++;
    }
    return false;
}

static bool parse_carveout(const char *text, struct arguments *arguments)
{
    uint64_t *const out[] = {&arguments->carveout_base, &arguments->carveout_size};
    return parse_numbers(text, 2, out) && *out[1] && !((*out[0] | *out[1]) & 0xfff);
}

static bool parse_text(const char *text, const char **out)
{
    *out = text;
    return *text != '\0';
}

static bool parse_switch(const char *text, bool *out)
{
    *out = strcmp(text, "on") == 0;
    return *out || strcmp(text, "off") == 0;
}

static bool parse(const char *name, const char *value, struct arguments *out)
{
    if (!strcmp(name, "gpu"))
        return parse_text(value, &out->gpu_name);
    if (!strcmp(name, "capture"))
        return parse_text(value, &out->capture_path);
    if (!strcmp(name, "stats"))
        return parse_text(value, &out->stats_path);
    if (!strcmp(name, "progress"))
        return parse_text(value, &out->progress_path);
    if (!strcmp(name, "archive"))
        return parse_text(value, &out->archive_path);
    if (!strcmp(name, "window"))
        return parse_page(value, &out->window);
    if (!strcmp(name, "base"))
        return out->has_base = parse_number(value, &out->base);
    if (!strcmp(name, "irq"))
        return out->has_irq = parse_number(value, &out->irq) && out->irq < SPI_COUNT;
    if (!strcmp(name, "ram"))
        return parse_number(value, &out->ram_base);
    if (!strcmp(name, "map"))
        return parse_pieces(value, out);
    if (!strcmp(name, "latency"))
        return parse_number(value, &out->options.latency_ns);
    if (!strcmp(name, "threads"))
        return parse_u32(value, &out->options.threads);
    if (!strcmp(name, "hang"))
        return parse_u32(value, &out->options.hang_job);
    if (!strcmp(name, "fault"))
        return parse_u32(value, &out->options.fault_job);
    if (!strcmp(name, "secure"))
        return parse_switch(value, &out->secure);
    if (!strcmp(name, "firewall"))
        return parse_page(value, &out->firewall);
    if (!strcmp(name, "carveout"))
        return parse_carveout(value, out);
    return false;
}

bool arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    *arguments = (struct arguments){.ram_base = 0x40000000};
    for (int i = 0; i < argc; i++) {
        char *copy = strdup(argv[i]), *equals = copy ? strchr(copy, '=') : NULL;
        if (equals)
            *equals = '\0';
        if (!equals || !parse(copy, equals + 1, arguments)) {
            fprintf(stderr, "gramophone: bad plugin argument \"%s\"\n", argv[i]);
            free(copy);
            return false;
        }
    }
    if (!arguments->gpu_name || !arguments->has_base || !arguments->has_irq ||
        arguments->secure != (arguments->carveout_size != 0) || (arguments->firewall && !arguments->secure) ||
        (arguments->archive_path && !arguments->window)) {
        fprintf(stderr, "gramophone: plugin arguments: gpu=, base= and irq= are needed; secure=on goes with "
                        "carveout=, firewall= with both; archive= goes with window=\n");
        return false;
    }
    return true;
}
