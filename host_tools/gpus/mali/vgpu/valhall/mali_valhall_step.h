/* SPDX-License-Identifier: BSD-2-Clause */
/* An instruction on its way to micro-operations. Sources: see mali_valhall.h. */
#ifndef GRAMOPHONE_MALI_VALHALL_STEP_H
#define GRAMOPHONE_MALI_VALHALL_STEP_H

#include "mali_bifrost_translate.h"
#include "mali_valhall.h"

struct valhall_step {
    struct bifrost_translation *t;
    uint64_t va, word;
    const struct valhall_row *row;
    enum valhall_operation operation;
    struct bifrost_uop uop;         /* of which sources and what changes them are known */
    uint16_t high[VALHALL_SOURCES]; /* high words of pairs */
    uint32_t part[VALHALL_SOURCES]; /* what says which part of a source is taken */
    bool ends;                      /* the block: a message, or a branch */
};

/* mali_valhall_source.c: find the operands; parts of words are made words where an operation takes words.
 * False: refused, or no memory. */
bool valhall_read_sources(struct valhall_step *step, bool is_signed);
/* The constant that a source is, into *word; false: it is none. */
bool valhall_is_constant(const struct valhall_step *step, unsigned number, uint32_t *word);
/* Append step->uop, with the result where the instruction says. */
bool valhall_emit(struct valhall_step *step);
/* Append step->uop with the result in a slot. */
bool valhall_emit_to(struct valhall_step *step, uint16_t to);
/* Append a result that is in two slots, to a pair of registers; uop of each is given. */
bool valhall_emit_pair(struct valhall_step *step, const struct bifrost_uop *low, struct bifrost_uop high);
/* Refuse the instruction; false. */
bool valhall_refuse(struct valhall_step *step, const char *reason);

/* mali_valhall_message.c */
bool valhall_message(struct valhall_step *step);
bool valhall_is_message(enum valhall_operation operation);

/* mali_valhall_operations.c: append an operation that is no message and no branch. */
bool valhall_compute(struct valhall_step *step);
/* Whether parts of its sources are extended by their sign. */
bool valhall_is_signed(enum valhall_operation operation);

#endif
