/* SPDX-License-Identifier: BSD-2-Clause */
/* Sources: see v3d_ioctls.c. */
#include "v3d_buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "output_file.h"
#include "v3d_register_map.h"

uint32_t vgpu_window_bytes(const vgpu *gpu)
{
    (void)gpu;
    return V3D_WINDOW_BYTES;
}

unsigned vgpu_interrupt_lines(const vgpu *gpu)
{
    (void)gpu;
    return 1;
}

void vgpu_observe(vgpu *gpu, const struct vgpu_observer *observer)
{
    gpu->observer = *observer;
}

void vgpu_counters_get(const vgpu *gpu, struct vgpu_counters *out)
{
    *out = gpu->counters;
}

const char *vgpu_error(const vgpu *gpu)
{
    return gpu->error;
}

/* All buffers. Which of their pages a job has written is not known: all, as far as the recorder can tell. */
size_t vgpu_walk(vgpu *gpu, vgpu_visit *visit, void *ctx)
{
    const uint32_t flags =
        VGPU_PAGE_READABLE | VGPU_PAGE_WRITABLE | VGPU_PAGE_EXECUTABLE | VGPU_PAGE_READ | VGPU_PAGE_WRITTEN;
    size_t pages = 0;

    for (uint32_t i = 0; i < gpu->handles; i++) {
        const struct buffer *buffer = &gpu->buffers[i];

        if (buffer->bytes)
            visit(ctx, buffer->va, V3D_MEMORY_BASE + (uint64_t)buffer->va, buffer->bytes, flags);
        pages += buffer->bytes / V3D_PAGE_BYTES;
    }
    return pages;
}

uint8_t *v3d_buffers_at(void *ctx, uint64_t pa, uint64_t *bytes)
{
    const vgpu *gpu = ctx;

    for (uint32_t i = 0; i < gpu->handles; i++) {
        const struct buffer *buffer = &gpu->buffers[i];
        uint64_t offset = pa - V3D_MEMORY_BASE - buffer->va;

        if (offset < buffer->bytes) {
            *bytes = buffer->bytes - offset;
            return (uint8_t *)(uintptr_t)(buffer->host + offset); /* recorder.c only reads */
        }
    }
    return NULL;
}

void v3d_buffers_forget(vgpu *gpu)
{
    for (uint32_t i = 0; i < gpu->lefts; i++)
        free(gpu->left[i].content);
    free(gpu->left);
    gpu->left = NULL;
    gpu->lefts = 0;
}

bool v3d_buffers_keep(vgpu *gpu)
{
    v3d_buffers_forget(gpu);
    gpu->left = calloc(gpu->handles + 1u, sizeof *gpu->left);
    for (uint32_t i = 0; gpu->left && i < gpu->handles; i++) {
        const struct buffer *buffer = &gpu->buffers[i];
        uint8_t *content = buffer->bytes ? malloc(buffer->bytes) : NULL;

        if (content) {
            memcpy(content, buffer->host, buffer->bytes);
            gpu->left[gpu->lefts++] = (struct left){buffer->va, buffer->bytes, content};
        } else if (buffer->bytes) {
            return false;
        }
    }
    return gpu->left != NULL;
}

static bool write_pages(FILE *file, const struct left *left)
{
    static const uint8_t zero_page[V3D_PAGE_BYTES];

    for (uint32_t at = 0; at < left->bytes; at += V3D_PAGE_BYTES) {
        const uint32_t va = left->va + at;

        if (memcmp(left->content + at, zero_page, V3D_PAGE_BYTES) != 0 &&
            (fwrite(&va, sizeof va, 1, file) != 1 ||
             fwrite(left->content + at, V3D_PAGE_BYTES, 1, file) != 1))
            return false;
    }
    return true;
}

bool v3d_buffers_write(const vgpu *gpu, const char *path)
{
    struct output_file out;
    bool good = true;

    if (!output_open(&out, path))
        return false;
    for (uint32_t i = 0; good && i < gpu->lefts; i++)
        good = write_pages(out.file, &gpu->left[i]);
    return output_close(&out, good) && good;
}
