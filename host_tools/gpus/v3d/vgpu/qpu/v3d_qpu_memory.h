/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory as one worker thread of the compute engine sees it: ranges of pages that it has used, over the table
 * that all workers share. Sources: see v3d_mmu.h.
 */
#ifndef GRAMOPHONE_V3D_QPU_MEMORY_H
#define GRAMOPHONE_V3D_QPU_MEMORY_H

#include "access_map.h"
#include "v3d_mmu.h"

/*
 * Pages that follow each other in the host's memory, too. The MMU has granted the access to each, and each is
 * marked as touched: nothing is left to do for an access in a range but to make it and, while an access map
 * is kept (track in v3d_mmu.h), to note it.
 */
struct qpu_range {
    uint32_t va, bytes; /* bytes = 0: no range */
    uint8_t *host;
};

/*
 * Who accesses memory: the uniform streams, and from QPU_SITE_TMU on the instructions that start a TMU
 * access, some of which may share a site. A site mostly stays in one buffer.
 */
enum { QPU_SITE_UNIFORM, QPU_SITE_UNIFA, QPU_SITE_TMU, QPU_SITES = 256, QPU_RANGES = 16 };

struct qpu_ranges {
    struct qpu_range range[QPU_RANGES];
    uint8_t latest[QPU_SITES]; /* range of each site's latest access */
    uint8_t next;              /* range to be replaced next */
};

/* A page's flags in the access map. */
struct qpu_noted {
    uint32_t tag;   /* page number + 1; 0: none */
    uint8_t *flags; /* NULL: the host's memory is exhausted */
};

enum { QPU_NOTED = 64 };

/* A page as it was before a worker wrote to it. */
struct qpu_saved {
    struct qpu_saved *before; /* the page saved before this one, or NULL */
    uint8_t *host;
    uint8_t bytes[V3D_PAGE_BYTES];
};

struct qpu_memory {
    struct v3d_mmu *mmu;
    bool undoable;           /* what is written is saved first, for qpu_undo() */
    struct qpu_saved *saved; /* the latest */
    struct qpu_ranges readable, writable;
    struct qpu_noted noted[QPU_NOTED]; /* by page number, the latest; unused without an access map */
};

/* What memory holds, which need not be aligned. */
typedef uint32_t qpu_word_any __attribute__((may_alias, aligned(1)));
typedef uint16_t qpu_half_any __attribute__((may_alias, aligned(1)));

/* Slow path of qpu_granted(). */
uint8_t *qpu_granted_slow(struct qpu_memory *memory, unsigned site, uint32_t va, bool write);

/* Flags in the access map from va to the end of its page, which was granted; NULL: the host's memory is
 * exhausted. */
static inline uint8_t *qpu_flags(struct qpu_memory *memory, uint32_t va)
{
    uint32_t page = va >> V3D_PAGE_SHIFT;
    struct qpu_noted *noted = &memory->noted[page % QPU_NOTED];

    if (noted->tag != page + 1)
        *noted = (struct qpu_noted){page + 1, v3d_mmu_noted(memory->mmu, va)};
    return noted->flags ? noted->flags + va % V3D_PAGE_BYTES : NULL;
}

/* Note an access of `bytes` bytes within one page, which was granted; only while an access map is kept. */
static inline void qpu_note(struct qpu_memory *memory, uint32_t va, uint32_t bytes, bool write)
{
    uint8_t *flags = qpu_flags(memory, va);

    if (flags)
        access_map_mark(flags, bytes, write);
}

/* Note that bytes within one page, which are read, decide what the job does. */
static inline void qpu_note_command(struct qpu_memory *memory, uint32_t va, uint32_t bytes)
{
    uint8_t *flags = qpu_flags(memory, va);

    if (flags)
        access_map_mark_command(flags, bytes);
}

/* Memory as it was before the worker, whose accesses are undoable, wrote to it. */
void qpu_undo(struct qpu_memory *memory);

/* The range that a site is expected to access. */
static inline const struct qpu_range *qpu_range_of(const struct qpu_memory *memory, unsigned site, bool write)
{
    const struct qpu_ranges *ranges = write ? &memory->writable : &memory->readable;

    return &ranges->range[ranges->latest[site]];
}

/* Host address of va, up to the end of its page, for an access that the caller notes; NULL: a fault. */
static inline uint8_t *qpu_granted(struct qpu_memory *memory, unsigned site, uint32_t va, bool write)
{
    const struct qpu_range *range = qpu_range_of(memory, site, write);
    uint32_t offset = va - range->va;

    return offset < range->bytes ? range->host + offset : qpu_granted_slow(memory, site, va, write);
}

/* Host address of va for an access of `bytes` bytes within one page, which is noted; NULL: a fault. */
static inline uint8_t *qpu_host(struct qpu_memory *memory, unsigned site, uint32_t va, uint32_t bytes,
                                bool write)
{
    uint8_t *host = qpu_granted(memory, site, va, write);

    if (host && memory->mmu->track)
        qpu_note(memory, va, bytes, write);
    return host;
}

#endif
