/* SPDX-License-Identifier: BSD-2-Clause */
/* From clauses to micro-operations: what mali_bifrost_program.c and the translation of clauses share.
 * Sources: see mali_bifrost.h. */
#ifndef GRAMOPHONE_MALI_BIFROST_TRANSLATE_H
#define GRAMOPHONE_MALI_BIFROST_TRANSLATE_H

#include "mali_bifrost.h"
#include "mali_bifrost_block.h"

/* A clause on its way. What is wrong goes to code->status, reason and encoding; the first one stays. */
struct bifrost_translation {
    struct bifrost_program *program;
    const struct bifrost_environment *environment;
    struct bifrost_clause clause;
    struct bifrost_code code;
    struct bifrost_block block[BIFROST_TUPLES];
    uint64_t encoding;   /* of the operation at hand */
    bool out_of_memory;  /* or constants */
    const void *context; /* of a bifrost_translator */
};

/* Translate the clause at t->code.va: append its micro-operations and fill in t->code. */
typedef void bifrost_translator(struct bifrost_translation *t, const struct mali_memory *memory);

/* Translate the program at va, clause by clause. False: as bifrost_program_build. */
bool bifrost_program_make(struct bifrost_program *program, const struct mali_memory *memory, uint64_t va,
                          const struct bifrost_environment *environment, bifrost_translator *translate,
                          const void *context, const char **reason);

/* Note what is wrong; false. */
bool bifrost_refuse(struct bifrost_translation *t, uint32_t status, const char *reason);
/* A micro-operation of one source. */
struct bifrost_uop bifrost_of_one(bifrost_run *run, uint16_t to, uint16_t from);
/* Append a micro-operation; false: no memory. */
bool bifrost_emit(struct bifrost_translation *t, const struct bifrost_uop *uop);
/* A slot that holds a word in all lanes. */
uint16_t bifrost_constant(struct bifrost_translation *t, uint32_t word);
/* Slot of the FAU port's low or high word. False: refused. */
bool bifrost_fau(struct bifrost_translation *t, unsigned fau, bool high, uint16_t *slot);
/* Where a branch goes, from the FAU port's high word; 0: the thread ends. False: refused. */
bool bifrost_target(struct bifrost_translation *t, unsigned fau, unsigned source, uint64_t *va);

/* Append the micro-operations of a clause and fill in `code`. False: refused, or no memory. */
bool bifrost_translate(struct bifrost_translation *t);      /* mali_bifrost_translate.c */
bool bifrost_translate_wide(struct bifrost_translation *t); /* mali_bifrost_wide.c: operands of 64 bits */

#endif
