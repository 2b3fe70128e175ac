/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Power and reset of a V3D 7.1, besides its power domain: the block "sms". A GPU whose domain goes off and on
 * without it hangs. Facts: M. Canal, "drm/v3d: Use V3D_SMS registers for power on/off and reset on V3D 7.x",
 * dri-devel, March 2025 (v3d_idle_sms, v3d_power_off_sms, v3d_reset_sms: the same order, the same time
 * limit).
 */
#include <inttypes.h>
#include <time.h>

#include "devmem.h"

enum {
    REE_CS = 0,
    TEE_CS = 0x400,
    CLEAR_POWER_OFF = 1 << 29,
    POWER_OFF = 1 << 30,
    RESET = 4, /* in the field of REE_CS that is the state when it is read */
    STATE = 0xf,
    IS_IDLE = 0x0,
    IS_ISOLATING = 0xa, /* for a reset */
    IS_RESETTING = 0xb,
    IS_OFF = 0xd,
    WAITS = 1000, /* of 100 us */
};

static uint32_t state(volatile uint32_t *sms, unsigned offset)
{
    return sms[offset / 4] & STATE;
}

static bool is_off(volatile uint32_t *sms)
{
    return state(sms, TEE_CS) == IS_OFF;
}

static bool is_idle(volatile uint32_t *sms)
{
    return state(sms, TEE_CS) == IS_IDLE;
}

static bool is_reset(volatile uint32_t *sms)
{
    return state(sms, REE_CS) != IS_ISOLATING && state(sms, REE_CS) != IS_RESETTING;
}

/* Write a request, and wait until it is done. */
static bool ask(volatile uint32_t *sms, unsigned offset, uint32_t request,
                bool (*is_done)(volatile uint32_t *sms), const char *what)
{
    const struct timespec moment = {0, 100000};
    __asm__ volatile("dsb sy" ::: "memory");
    sms[offset / 4] = request;
    for (unsigned i = 0; i < WAITS; i++) {
        if (is_done(sms))
            return true;
        nanosleep(&moment, NULL);
    }
    return is_done(sms) ||
           gr_fail("power: sms: expected the GPU to be %s after 100 ms, found state %#" PRIx32, what,
                   state(sms, offset));
}

bool gr_sms_on(volatile uint32_t *sms)
{
    return !sms ||
           (ask(sms, TEE_CS, CLEAR_POWER_OFF, is_idle, "on") && ask(sms, REE_CS, RESET, is_reset, "reset"));
}

bool gr_sms_off(volatile uint32_t *sms)
{
    return !sms || ask(sms, TEE_CS, POWER_OFF, is_off, "off");
}
