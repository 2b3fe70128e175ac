/* The emulated machine's normal world, for host_tools/runners/optee/bare_metal.py. */
#ifndef GRAMOPHONE_NORMAL_WORLD_H
#define GRAMOPHONE_NORMAL_WORLD_H

#include "mailbox.h"

#define NORMAL_WORLD_MAILBOX UINT64_C(0x48000000)

/* At MAILBOX_RESPONSE_AT. */
struct normal_world_response {
    struct mailbox_response mailbox; /* the report is zeros when the pseudo-TA gave none */
    uint32_t result, origin;         /* of the first call that failed: TEE_Result, and who gave it */
};

/* The program; returns the exit status. */
int normal_world(void);
int normal_world_exception(uint64_t address, uint64_t syndrome);

#endif
