/* SPDX-License-Identifier: BSD-2-Clause */
/* What NumPy writes for an array in C order: the magic, version 1.0, the header's length (2 bytes), a header
 * of one form, padded with spaces to a multiple of 64 bytes, the elements. Files of another form, which NumPy
 * reads too, are refused with both headers in the message. */
#include "npy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfs.h"

enum { START = 10, ALIGNMENT = 64, HEADER = 256 };

/* The header, without its padding; its length. */
static int header_of(const struct gramophone_gpu_slot *slot, uint32_t replays, char header[HEADER])
{
    static const char *const types[] = {"", "<f4", "<f2", "<i4", "<u4", "<i2", "<u2", "|i1", "|u1"};
    int length = snprintf(header, HEADER, "{'descr': '%s', 'fortran_order': False, 'shape': (",
                          slot->dtype < sizeof types / sizeof *types ? types[slot->dtype] : "");
    if (replays)
        length += snprintf(header + length, HEADER - (size_t)length, slot->rank ? "%u, " : "%u,", replays);
    for (unsigned i = 0; i < slot->rank; i++)
        length += snprintf(header + length, HEADER - (size_t)length, "%u%s", slot->dims[i],
                           i + 1 < slot->rank            ? ", "
                           : slot->rank == 1 && !replays ? ","
                                                         : "");
    return length + snprintf(header + length, HEADER - (size_t)length, "), }");
}

static size_t bytes_of(const struct gramophone_gpu_slot *slot, uint32_t replays)
{
    return (size_t)slot->bytes * (replays ? replays : 1);
}

static bool read_all(FILE *file, const char *path, const struct gramophone_gpu_slot *slot, uint32_t replays,
                     void *data)
{
    const size_t wanted = bytes_of(slot, replays);
    uint8_t start[START];
    char expected[HEADER], found[HEADER * 4];
    if (fread(start, 1, START, file) != START || memcmp(start, "\x93NUMPY\1", 8))
        return gr_fail("%s: not a .npy file of version 1.0", path);
    const size_t length = (size_t)start[8] | (size_t)start[9] << 8;
    if (length >= sizeof found || fread(found, 1, length, file) != length)
        return gr_fail("%s: offset 8: a header of %zu bytes, which is too long or not there", path, length);
    found[length] = '\0';
    found[strcspn(found, "\n")] = '\0';
    for (size_t end = strlen(found); end && found[end - 1] == ' '; end--)
        found[end - 1] = '\0';
    header_of(slot, replays, expected);
    if (strcmp(found, expected))
        return gr_fail("%s: slot %s: expected %s, found %s", path, slot->name, expected, found);
    const size_t bytes = fread(data, 1, wanted, file);
    if (bytes != wanted || fgetc(file) != EOF)
        return gr_fail("%s: slot %s: expected %zu bytes of data, found %s", path, slot->name, wanted,
                       bytes == wanted ? "more" : "less");
    return true;
}

bool gr_npy_read(const char *path, const struct gramophone_gpu_slot *slot, uint32_t replays, void *data)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return gr_fail("%s: %s", path, strerror(errno));
    const bool good = read_all(file, path, slot, replays, data);
    fclose(file);
    return good;
}

bool gr_npy_write(const char *path, const struct gramophone_gpu_slot *slot, uint32_t replays,
                  const void *data)
{
    char header[HEADER], temporary[GR_PATH];
    const int length = header_of(slot, replays, header);
    const int whole = (START + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT - START;
    if (!gr_path(temporary, "%s.%d", path, (int)getpid()))
        return false;
    FILE *file = fopen(temporary, "wb");
    if (!file)
        return gr_fail("%s: %s", temporary, strerror(errno));
    const uint8_t start[START] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)whole, (uint8_t)(whole >> 8)};
    bool good = fwrite(start, 1, START, file) == START &&
                fprintf(file, "%-*s\n", whole - 1, header) == whole &&
                fwrite(data, 1, bytes_of(slot, replays), file) == bytes_of(slot, replays);
    good = !fclose(file) && good && !rename(temporary, path);
    if (!good) {
        gr_fail("%s: %s", path, strerror(errno));
        unlink(temporary);
    }
    return good;
}
