/* SPDX-License-Identifier: BSD-2-Clause */
/* What both targets of the pseudo-TA have: calls, a carve-out, and whose the GPU is. */
#ifndef GRAMOPHONE_FUZZ_PTA_H
#define GRAMOPHONE_FUZZ_PTA_H

#include "device.h"
#include "fake_optee.h"
#include "gramophone_pta.h"
#include "optee_port.h"

#include <sys/mman.h>

enum { CALL_BYTES = 16, PAGE = 4096, MOST_CALLS = 64 };

struct call {
    uint8_t command, how;
    uint16_t types;
    uint32_t a, b, bytes;
};

static uint8_t *carveout;
static bool secure;      /* the GPU is the secure world's */
static bool for_a_while; /* it goes, and what is loaded stays */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

bool gr_optee_find(struct gr_memory *found_memory)
{
    *found_memory = (struct gr_memory){carveout, FUZZ_PHYS, GR_CARVEOUT_BYTES};
    return true;
}

void gr_optee_take(void)
{
    secure = device_state.may_use = true;
}

static void check_wiped(void)
{
    uint8_t left = 0;
    for (size_t i = 0; i < GR_CARVEOUT_BYTES; i++)
        left |= carveout[i];
    PROMISE(!left, "the memory is wiped before the normal world has the GPU for good");
}

void gr_optee_give_back(void)
{
    if (!for_a_while)
        check_wiped();
    PROMISE(secure, "only what was taken is given back");
    secure = device_state.may_use = false;
}

/* Memory and device as after a reset; pages that nobody may touch around the carve-out. */
static void reset_machine(void)
{
    if (!carveout) {
        uint8_t *area =
            mmap(NULL, GR_CARVEOUT_BYTES + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        PROMISE(area != MAP_FAILED && !mprotect(area + PAGE, GR_CARVEOUT_BYTES, PROT_READ | PROT_WRITE),
                "there is memory for the carve-out");
        carveout = area + PAGE;
    }
    memset(carveout, 0, GR_CARVEOUT_BYTES);
    memset(&device_state, 0, sizeof device_state);
    secure = for_a_while = false;
}

#endif
