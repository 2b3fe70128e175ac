/* SPDX-License-Identifier: BSD-2-Clause */
/* Instructions of command streams, and which bits each may have. Sources: see mali_csf.h. */
#ifndef GRAMOPHONE_MALI_CSF_INSTRUCTIONS_H
#define GRAMOPHONE_MALI_CSF_INSTRUCTIONS_H

#include <stdint.h>

enum {
    OP_NOP = 0,
    OP_MOVE = 1,
    OP_MOVE32 = 2,
    OP_WAIT = 3,
    OP_RUN_COMPUTE = 4,
    OP_ADD32 = 16,
    OP_ADD64 = 17,
    OP_UMIN32 = 18,
    OP_LOAD = 20,
    OP_STORE = 21,
    OP_BRANCH = 22,
    OP_SET_SCOREBOARD = 23,
    OP_CALL = 32,
    OP_JUMP = 33,
    OP_RESOURCES = 34,
    OP_FLUSH = 36,
    OP_SYNC_ADD32 = 37,
    OP_SYNC_SET32 = 38,
    OP_SYNC_WAIT32 = 39,
    OP_ERROR_BARRIER = 47,
    OP_HEAP_SET = 48,
    OP_SYNC_ADD64 = 51,
    OP_SYNC_SET64 = 52,
    OP_SYNC_WAIT64 = 53,
};
#define A (UINT64_C(0xff) << 40)
#define B (UINT64_C(0xff) << 32)
#define TO (UINT64_C(0xff) << 48)
#define LOW UINT64_C(0xffffffff)
#define SIGNAL (UINT64_C(0xf) << 48)
/* Bits besides the opcode that an instruction may have; 0 and no NOP: it is not known. */
static const uint64_t fields[64] = {
    [OP_MOVE] = UINT64_C(0xffffffffffff) | TO,
    [OP_MOVE32] = LOW | TO,
    [OP_WAIT] = 0xffff0000,
    [OP_RUN_COMPUTE] = 0xffff | A,
    [OP_ADD32] = LOW | A | TO,
    [OP_ADD64] = LOW | A | TO,
    [OP_UMIN32] = A | B | TO,
    [OP_LOAD] = LOW | A | TO,
    [OP_STORE] = LOW | A | TO,
    [OP_BRANCH] = 0x7000ffff | A,
    [OP_SET_SCOREBOARD] = 0xff,
    [OP_CALL] = A | B,
    [OP_JUMP] = A | B,
    [OP_RESOURCES] = 0xf,
    [OP_FLUSH] = 0xffff0fff | A | SIGNAL,
    [OP_SYNC_ADD32] = 0xffff0007 | A | B | SIGNAL,
    [OP_SYNC_SET32] = 0xffff0007 | A | B | SIGNAL,
    [OP_SYNC_WAIT32] = 0x10000001 | A | B,
    [OP_ERROR_BARRIER] = 1, /* has none; see is_known */
    [OP_HEAP_SET] = A,
    [OP_SYNC_ADD64] = 0xffff0007 | A | B | SIGNAL,
    [OP_SYNC_SET64] = 0xffff0007 | A | B | SIGNAL,
    [OP_SYNC_WAIT64] = 0x10000001 | A | B,
};

#endif
