/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gramophone_gpu.h"

enum { FILES = 4 }; /* of a GPU that a process may have open */

static char message[2 * GR_PATH];

bool gr_fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return false;
}

const char *gramophone_gpu_error(void)
{
    return message;
}

bool gr_path(char path[GR_PATH], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(path, GR_PATH, format, arguments);
    va_end(arguments);
    return (length >= 0 && length < GR_PATH) || gr_fail("%s...: the path is too long", path);
}

long gr_read_text(const char *path, char *to, size_t room)
{
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t length = read(file, to, room - 1);
    close(file);
    if (length >= 0)
        to[length] = '\0';
    return length;
}

bool gr_write_text(const char *path, const char *text)
{
    const int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return gr_fail("%s: %s%s", path, strerror(errno), errno == EACCES ? ": this is for root" : "");
    const bool good = write(file, text, strlen(text)) >= 0;
    const int error = errno;
    close(file);
    return good || gr_fail("%s: writing \"%s\": %s", path, text, strerror(error));
}

bool gr_copy_name(char to[64], const char *name)
{
    const size_t bytes = strlen(name) + 1;
    if (bytes <= 64)
        memcpy(to, name, bytes);
    return bytes <= 64;
}

bool gr_link_name(const char *path, char name[64])
{
    char target[GR_PATH];
    const ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return false;
    target[length] = '\0';
    const char *slash = strrchr(target, '/'), *last = slash ? slash + 1 : target;
    return gr_copy_name(name, last);
}

bool gr_lists(const char *path, const char *text)
{
    char texts[GR_PATH];
    const long length = gr_read_text(path, texts, sizeof texts);
    for (long at = 0; at < length; at += (long)strlen(texts + at) + 1)
        if (!strcmp(texts + at, text))
            return true;
    return false;
}

bool gr_each(const char *folder, bool (*visit)(void *ctx, const char *name), void *ctx)
{
    DIR *entries = opendir(folder);
    bool found = false;
    for (const struct dirent *entry; entries && !found && (entry = readdir(entries));)
        found = entry->d_name[0] != '.' && visit(ctx, entry->d_name);
    if (entries)
        closedir(entries);
    return found;
}

void gr_driver_of(const char *device, char driver[64])
{
    char path[GR_PATH];
    driver[0] = '\0';
    if (gr_path(path, GR_DEVICES "/%s/driver", device))
        gr_link_name(path, driver);
}

/* Files of a GPU, and the process that has one of them open. */
struct search {
    char files[FILES][GR_PATH];
    size_t count;
    const char *prefix, *process;
    char who[64];
};

static bool add_file(void *ctx, const char *name)
{
    struct search *search = ctx;
    if (search->count < FILES &&
        (!strncmp(name, "card", 4) || !strncmp(name, "render", 6) || !strncmp(name, "uio", 3)))
        gr_path(search->files[search->count++], "%s%s", search->prefix, name);
    return false;
}

static bool is_file(void *ctx, const char *descriptor)
{
    const struct search *search = ctx;
    char path[GR_PATH], target[GR_PATH];
    if (!gr_path(path, "/proc/%s/fd/%s", search->process, descriptor))
        return false;
    const ssize_t length = readlink(path, target, sizeof target - 1);
    target[length < 0 ? 0 : length] = '\0';
    for (size_t i = 0; i < search->count; i++)
        if (!strcmp(target, search->files[i]))
            return true;
    return false;
}

static bool is_holder(void *ctx, const char *process)
{
    struct search *search = ctx;
    char path[GR_PATH];
    if (strspn(process, "0123456789") != strlen(process) || atoi(process) == getpid())
        return false;
    search->process = process;
    if (!gr_path(path, "/proc/%s/fd", process) || !gr_each(path, is_file, search))
        return false;
    gr_path(path, "/proc/%s/comm", process);
    const long length = gr_read_text(path, search->who, sizeof search->who);
    if (length > 0)
        search->who[length - 1] = '\0'; /* the line's end */
    return !gr_fail("the GPU is busy: process %s (%s) has it open", process, search->who);
}

bool gr_check_free(const char *gpu)
{
    char folder[GR_PATH];
    struct search search = {.prefix = "/dev/dri/"};
    if (gr_path(folder, GR_DEVICES "/%s/drm", gpu))
        gr_each(folder, add_file, &search);
    search.prefix = "/dev/";
    if (gr_path(folder, GR_DEVICES "/%s/uio", gpu))
        gr_each(folder, add_file, &search);
    return !gr_each("/proc", is_holder, &search);
}
