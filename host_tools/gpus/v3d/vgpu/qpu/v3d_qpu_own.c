/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Words that a thread keeps for itself, as a compiler's spilled registers. What it reads there is what it has
 * written, whatever others do, if their stores go elsewhere. Compilers make that so by the thread's number,
 * which no two have that run at the same time.
 *
 * A word is a thread's own while that thread was the last to store there, by an instruction with QPU_TMU_OWN:
 * its address comes from the thread's number, and its data from no loads but those that decide
 * (v3d_qpu_decide.c). A word that threads of different numbers store to is nobody's. When that happens after
 * a thread has read it as its own, the accesses of the job vary. Sources: see v3d_qpu_exec.c and
 * v3d_qpu_tmu.c.
 */
#include <stdlib.h>

#include "v3d_qpu_tmu.h"

enum { PAGES = 1 << (32 - V3D_PAGE_SHIFT), PAGE_WORDS = V3D_PAGE_BYTES / 4 };

struct word {
    uint64_t thread; /* whose own it is; 0: nobody's */
    uint8_t index;   /* of the thread that has stored to it first, and 1 more */
    bool shared;     /* one with another number has stored to it */
    bool loaded;     /* as a thread's own */
};

struct qpu_own {
    bool varies;
    struct word *page[PAGES]; /* NULL: nobody has stored there */
};

struct qpu_own *qpu_own_create(void)
{
    return calloc(1, sizeof(struct qpu_own));
}

void qpu_own_free(struct qpu_own *own)
{
    for (uint32_t i = 0; own && i < PAGES; i++)
        free(own->page[i]);
    free(own);
}

bool qpu_own_varies(const struct qpu_own *own)
{
    return own->varies;
}

static struct word *word_at(const struct qpu_own *own, uint32_t va)
{
    struct word *page = own->page[va >> V3D_PAGE_SHIFT];

    return page ? &page[va % V3D_PAGE_BYTES / 4] : NULL;
}

static void store(struct qpu_own *own, const struct qpu_thread *t, uint32_t va, bool is_own)
{
    struct word **page = &own->page[va >> V3D_PAGE_SHIFT];

    if (!*page)
        *page = calloc(PAGE_WORDS, sizeof **page);
    struct word *word = word_at(own, va);
    own->varies |= !word;
    if (!word)
        return;
    const uint8_t index = (uint8_t)(t->thread_index + 1);
    word->shared |= word->index && word->index != index;
    word->index = word->index ? word->index : index;
    word->thread = is_own && !word->shared ? t->number : 0;
    own->varies |= word->loaded && word->shared;
}

void qpu_own_stored(struct qpu_thread *t, const struct qpu_access *access)
{
    struct qpu_own *own = t->worker->own;

    for (unsigned left = access->lanes; left; left &= left - 1)
        for (unsigned c = 0; c < access->components; c++)
            store(own, t, qpu_component_address(access, (unsigned)__builtin_ctz(left), c),
                  access->own && access->bytes == 4);
}

bool qpu_own_loads(struct qpu_thread *t, uint32_t va)
{
    struct word *word = t->worker->own ? word_at(t->worker->own, va) : NULL;

    if (!word || word->thread != t->number)
        return false;
    word->loaded = true;
    return true;
}
