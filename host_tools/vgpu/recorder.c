/* SPDX-License-Identifier: BSD-2-Clause */
#include "recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gramophone_capture.h"
#include "output_file.h"
#include "page_contents.h"

enum { PAGE_SHIFT = 12, PAGE_BYTES = GR_CAPTURE_PAGE_BYTES, GPU_PAGES = GR_CAPTURE_PAGES };

_Static_assert(1 << PAGE_SHIFT == PAGE_BYTES, "a page's size");
_Static_assert(VGPU_PAGE_READABLE == GR_CAPTURE_MAPPING_READABLE &&
                   VGPU_PAGE_WRITABLE == GR_CAPTURE_MAPPING_WRITABLE &&
                   VGPU_PAGE_EXECUTABLE == GR_CAPTURE_MAPPING_EXECUTABLE,
               "a mapping's flags are those of vgpu_walk");

/* Two changed ranges closer than this are written as one: a record costs 16 bytes. */
enum { MERGE_GAP = 16 };

static const uint8_t zero_page[PAGE_BYTES];
static const char out_of_memory[] = "out of memory";

/* One mapped GPU page. */
struct page {
    uint64_t pa;
    uint32_t flags;
    uint32_t seen;   /* walk number that last met it; 0: not mapped */
    bool fresh;      /* mapped or remapped since the last job */
    uint8_t *shadow; /* content as the GPU and the CPU last agreed on it */
};

struct recorder {
    struct output_file out;
    vgpu *gpu;
    struct vgpu_host host;
    uint64_t (*now)(void *ctx);
    void *ctx;
    uint64_t last_ns;
    uint64_t records;
    uint32_t ordinal, walk;
    struct page *pages; /* GPU_PAGES of them */
    struct contents contents;
    uint64_t *written; /* physical pages that the latest job wrote */
    size_t written_count;
    const char *error; /* NULL, or why there will be no capture */
};

static void fail(struct recorder *r, const char *error)
{
    if (!r->error)
        r->error = error;
}

static void put_bytes(struct recorder *r, const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, r->out.file) != count)
        fail(r, "writing failed");
}

static void put_at(struct recorder *r, enum gr_record_kind kind, uint32_t delta, uint32_t a, uint32_t b)
{
    const struct gr_capture_record record = {.kind = kind, .delta = delta, .a = a, .b = b};
    put_bytes(r, &record, sizeof(record));
    r->records++;
}

static void put_record(struct recorder *r, enum gr_record_kind kind, uint32_t a, uint32_t b)
{
    uint64_t now = r->now(r->ctx), delta = now - r->last_ns;
    r->last_ns = now;
    if (delta > UINT32_MAX) {
        put_at(r, GR_RECORD_KIND_IDLE, 0, (uint32_t)delta, (uint32_t)(delta >> 32));
        delta = 0;
    }
    put_at(r, kind, (uint32_t)delta, a, b);
}

static void on_read(void *ctx, uint32_t offset, uint32_t value)
{
    put_record(ctx, GR_RECORD_KIND_READ, offset, value);
}

static void on_write(void *ctx, uint32_t offset, uint32_t value)
{
    put_record(ctx, GR_RECORD_KIND_WRITE, offset, value);
}

static void on_interrupt(void *ctx, unsigned line, bool level)
{
    put_record(ctx, GR_RECORD_KIND_INTERRUPT, line, level);
}

/* The whole content of a page that is not all zero. */
static void put_content(struct recorder *r, uint32_t index, const uint8_t *bytes)
{
    uint32_t id = 0;
    switch (contents_add(&r->contents, bytes, &id)) {
    case CONTENT_KNOWN: put_record(r, GR_RECORD_KIND_KNOWN_PAGE, index, id); break;
    case CONTENT_NEW:
        put_record(r, GR_RECORD_KIND_NEW_PAGE, index, id);
        put_bytes(r, bytes, PAGE_BYTES);
        break;
    case CONTENT_NO_MEMORY: fail(r, out_of_memory); break;
    }
}

/* What changed in a page since its shadow was taken. */
static void put_changes(struct recorder *r, uint32_t index, const uint8_t *bytes)
{
    uint8_t *shadow = r->pages[index].shadow;
    if (memcmp(shadow, bytes, PAGE_BYTES) == 0)
        return;
    for (uint32_t i = 0; i < PAGE_BYTES; i++) {
        if (shadow[i] == bytes[i])
            continue;
        uint32_t end = i + 1;
        for (uint32_t j = end; j < PAGE_BYTES && j < end + MERGE_GAP; j++)
            if (shadow[j] != bytes[j])
                end = j + 1;
        put_record(r, GR_RECORD_KIND_BYTES, index << PAGE_SHIFT | i, end - i);
        put_bytes(r, bytes + i, end - i);
        put_bytes(r, zero_page, (0u - (end - i)) % GR_CAPTURE_ALIGNMENT);
        i = end;
    }
    memcpy(shadow, bytes, PAGE_BYTES);
}

/* Whether a capture can say where these pages are. */
static bool fits(uint64_t va, uint64_t bytes)
{
    return (va + bytes - 1) >> PAGE_SHIFT < GPU_PAGES;
}

/* Host pointer to a physical page; NULL when the GPU has nothing there. */
static const uint8_t *host_page(const struct recorder *r, uint64_t pa)
{
    uint64_t bytes = 0;
    const uint8_t *page = r->host.memory(r->host.ctx, pa, &bytes);
    return page && bytes >= PAGE_BYTES ? page : NULL;
}

static void visit_mappings(void *ctx, uint64_t va, uint64_t pa, uint64_t bytes, uint32_t flags)
{
    struct recorder *r = ctx;
    uint32_t first = (uint32_t)(va >> PAGE_SHIFT), count = (uint32_t)(bytes >> PAGE_SHIFT);
    flags &= VGPU_PAGE_READABLE | VGPU_PAGE_WRITABLE | VGPU_PAGE_EXECUTABLE;
    if (!fits(va, bytes)) {
        fail(r, "a GPU address above 4 GiB is mapped");
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct page *page = &r->pages[first + i];
        uint64_t page_pa = pa + ((uint64_t)i << PAGE_SHIFT);
        bool known = page->seen && page->pa == page_pa && page->flags == flags;
        page->seen = r->walk;
        if (known)
            continue;
        page->pa = page_pa;
        page->flags = flags;
        page->fresh = true;
        free(page->shadow);
        page->shadow = NULL;
    }
}

/* Say which pages of the run [first, first + count) are new. */
static void put_new_mappings(struct recorder *r, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        if (!r->pages[i].fresh)
            continue;
        uint32_t start = i;
        while (i + 1 < first + count && r->pages[i + 1].fresh)
            i++;
        const struct gr_capture_mapping mapping = {.address = r->pages[start].pa,
                                                   .flags = r->pages[start].flags};
        put_record(r, GR_RECORD_KIND_MAP, start, i + 1 - start);
        put_bytes(r, &mapping, sizeof(mapping));
    }
}

static bool is_fresh_zero_page(const struct recorder *r, uint32_t index)
{
    const uint8_t *host = r->pages[index].fresh ? host_page(r, r->pages[index].pa) : NULL;
    return host && memcmp(host, zero_page, PAGE_BYTES) == 0;
}

/* The whole content of a new page is in the stream now. */
static void take_shadow(struct recorder *r, uint32_t index, const uint8_t *bytes)
{
    struct page *page = &r->pages[index];
    page->fresh = false;
    page->shadow = malloc(PAGE_BYTES);
    if (page->shadow)
        memcpy(page->shadow, bytes, PAGE_BYTES);
    else
        fail(r, out_of_memory);
}

static void visit_content(void *ctx, uint64_t va, uint64_t pa, uint64_t bytes, uint32_t flags)
{
    struct recorder *r = ctx;
    uint32_t first = (uint32_t)(va >> PAGE_SHIFT), end = first + (uint32_t)(bytes >> PAGE_SHIFT);
    (void)pa;
    (void)flags;
    if (!fits(va, bytes))
        return;
    put_new_mappings(r, first, end - first);
    for (uint32_t i = first; i < end; i++) {
        const uint8_t *host = host_page(r, r->pages[i].pa);
        if (is_fresh_zero_page(r, i)) {
            uint32_t start = i;
            for (; i < end && is_fresh_zero_page(r, i); i++)
                take_shadow(r, i, zero_page);
            put_record(r, GR_RECORD_KIND_ZERO_PAGES, start, i - start);
            i--;
        } else if (!host) {
            r->pages[i].fresh = false; /* nothing there: the GPU fails on it if it is ever used */
        } else if (r->pages[i].fresh) {
            put_content(r, i, host);
            take_shadow(r, i, host);
        } else if (r->pages[i].shadow) {
            put_changes(r, i, host);
        }
    }
}

static void put_unmappings(struct recorder *r)
{
    for (uint32_t i = 0; i < GPU_PAGES; i++) {
        if (!r->pages[i].seen || r->pages[i].seen == r->walk)
            continue;
        uint32_t first = i;
        while (i < GPU_PAGES && r->pages[i].seen && r->pages[i].seen != r->walk) {
            free(r->pages[i].shadow);
            r->pages[i] = (struct page){0};
            i++;
        }
        put_record(r, GR_RECORD_KIND_UNMAP, first, i - first);
    }
}

static void on_job_start(void *ctx, unsigned kind)
{
    struct recorder *r = ctx;
    r->walk++;
    vgpu_walk(r->gpu, visit_mappings, r);
    put_unmappings(r);
    vgpu_walk(r->gpu, visit_content, r);
    r->ordinal++;
    put_record(r, GR_RECORD_KIND_JOB_START, kind, r->ordinal);
}

static void on_call(void *ctx, const struct vgpu_call *called)
{
    struct gr_capture_call call = {
        .bytes = called->bytes, .queue = called->queue, .is_rest = called->is_rest};
    memcpy(call.registers, called->registers, sizeof(call.registers));
    put_record(ctx, GR_RECORD_KIND_CALL, (uint32_t)called->va, (uint32_t)(called->va >> 32));
    put_bytes(ctx, &call, sizeof(call));
}

static void collect_written(void *ctx, uint64_t va, uint64_t pa, uint64_t bytes, uint32_t flags)
{
    struct recorder *r = ctx;
    size_t count = (size_t)(bytes >> PAGE_SHIFT);
    (void)va;
    if (!(flags & VGPU_PAGE_WRITTEN))
        return;
    uint64_t *written = realloc(r->written, (r->written_count + count) * sizeof(*written));
    if (!written) {
        fail(r, out_of_memory);
        return;
    }
    r->written = written;
    for (size_t i = 0; i < count; i++)
        r->written[r->written_count++] = pa + ((uint64_t)i << PAGE_SHIFT);
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

/* Take over what the job wrote, in every GPU page that shows a physical page it wrote to. */
static void refresh_written(struct recorder *r)
{
    r->written_count = 0;
    vgpu_walk(r->gpu, collect_written, r);
    if (!r->written_count)
        return;
    qsort(r->written, r->written_count, sizeof(*r->written), compare_u64);
    for (uint32_t i = 0; i < GPU_PAGES; i++) {
        struct page *page = &r->pages[i];
        if (page->shadow &&
            bsearch(&page->pa, r->written, r->written_count, sizeof(*r->written), compare_u64))
            memcpy(page->shadow, host_page(r, page->pa), PAGE_BYTES);
    }
}

static void on_job_end(void *ctx, unsigned kind)
{
    struct recorder *r = ctx;
    refresh_written(r);
    put_record(r, GR_RECORD_KIND_JOB_END, kind, r->ordinal);
}

static void free_recorder(struct recorder *r)
{
    if (!r)
        return;
    for (size_t i = 0; r->pages && i < GPU_PAGES; i++)
        free(r->pages[i].shadow);
    contents_free(&r->contents);
    free(r->written);
    free(r->pages);
    free(r);
}

struct recorder *recorder_open(const char *path, const char *gpu_name, vgpu *gpu,
                               const struct vgpu_host *host, uint64_t (*now)(void *ctx), void *ctx,
                               const char **error)
{
    struct recorder *r = calloc(1, sizeof(*r));
    struct gr_capture_header header = {.magic = GR_CAPTURE_HEADER_MAGIC};
    if (!r || !(r->pages = calloc(GPU_PAGES, sizeof(*r->pages))))
        *error = out_of_memory;
    else if (strlen(gpu_name) > sizeof(header.gpu))
        *error = "GPU name too long";
    else if (!output_open(&r->out, path))
        *error = strerror(errno);
    if (!r || !r->out.file) {
        free_recorder(r);
        return NULL;
    }
    r->gpu = gpu;
    r->host = *host;
    r->now = now;
    r->ctx = ctx;
    r->last_ns = now(ctx);
    header.window_bytes = vgpu_window_bytes(gpu);
    header.interrupt_lines = vgpu_interrupt_lines(gpu);
    memcpy(header.gpu, gpu_name, strlen(gpu_name));
    put_bytes(r, &header, sizeof(header));
    const struct vgpu_observer observer = {r,          on_read, on_write, on_interrupt, on_job_start,
                                           on_job_end, on_call};
    vgpu_observe(gpu, &observer);
    return r;
}

bool recorder_close(struct recorder *r, const char **error)
{
    static const struct vgpu_observer nobody;
    struct gr_capture_end end = {.records = r->records};
    vgpu_observe(r->gpu, &nobody);
    vgpu_counters_get(r->gpu, &end.counters);
    put_at(r, GR_RECORD_KIND_END, 0, vgpu_error(r->gpu) != NULL, 0);
    put_bytes(r, &end, sizeof(end));
    *error = r->error ? r->error : "writing failed";
    bool good = output_close(&r->out, !r->error);
    free_recorder(r);
    return good;
}
