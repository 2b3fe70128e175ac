/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Valhall shaders (v9, v10) in the virtual Mali: instructions of 64 bits to the micro-operations of Bifrost's
 * engine, which runs them (mali_bifrost.h). A block of instructions, up to a message, a branch or a place
 * that a branch goes to, is what a clause is there.
 *
 * Sources: Mesa 25.0.7 src/panfrost/compiler/valhall (ISA.xml, va_pack.c, va_lower_isel.c,
 * va_insert_flow.c); shaders that PanVK compiled of ncnn's networks.
 */
#ifndef GRAMOPHONE_MALI_VALHALL_H
#define GRAMOPHONE_MALI_VALHALL_H

#include "mali_bifrost.h"
#include "mali_valhall_table.h"

enum { VALHALL_INSTRUCTION = 8, VALHALL_SOURCES = 4 };

/* A row of the table. `exact` has all bits but those of `fields`. */
struct valhall_row {
    uint64_t exact, fields;
    uint8_t source[VALHALL_SOURCES]; /* enum valhall_source */
    uint8_t place[VALHALL_SOURCES];  /* bit of the source's part */
};

/* The row of an instruction, or NULL. Its number is its enum valhall_operation. */
const struct valhall_row *valhall_find(uint64_t word, enum valhall_operation *operation);

/* As bifrost_program_build. */
bool valhall_program_build(struct bifrost_program *program, const struct mali_memory *memory, uint64_t va,
                           const struct bifrost_environment *environment, const char **reason);

#endif
