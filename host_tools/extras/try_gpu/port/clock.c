/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The V3D's clock is the firmware's. A kernel may have it switched off while no driver of the GPU asks for it
 * (M. Canal, "clk: bcm: rpi: Turn firmware clock on/off when preparing/unpreparing", 2025). The firmware is
 * asked by /dev/vcio, which Raspberry Pi's kernels have. Facts: raspberrypi/firmware wiki, "Mailbox property
 * interface".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "devmem.h"

#define VCIO "/dev/vcio"
#define PROPERTY _IOWR(100, 0, char *)

enum {
    GET_CLOCK_STATE = 0x00030001,
    SET_CLOCK_STATE = 0x00038001,
    CLOCK_V3D = 5,
    IS_ON = 1,
    IS_ABSENT = 2,
    IS_ANSWERED = 0x80000000u,
    GATING_MAJOR = 6, /* kernels from here on may gate it */
    GATING_MINOR = 17,
};

/* Ask about the clock, or set it; its state, or -1. */
static int property(int vcio, uint32_t tag, uint32_t state)
{
    uint32_t message[8] = {sizeof message, 0, tag, 8, 0, CLOCK_V3D, state, 0};
    if (ioctl(vcio, PROPERTY, message) < 0 || message[1] != IS_ANSWERED)
        return -1;
    return (int)(message[6] & (IS_ON | IS_ABSENT));
}

static bool check_without_firmware(void)
{
    struct utsname name;
    int major = 0, minor = 0;
    if (uname(&name) || sscanf(name.release, "%d.%d", &major, &minor) != 2)
        major = GATING_MAJOR + 1;
    const bool is_older = major < GATING_MAJOR || (major == GATING_MAJOR && minor < GATING_MINOR);
    return is_older || getenv("GRAMOPHONE_CLOCK_IS_ON") ||
           gr_fail("clock: expected " VCIO
                   ", found none, and Linux %s may have switched the GPU's clock off: an access "
                   "would hang the board. GRAMOPHONE_CLOCK_IS_ON=1 tries it",
                   name.release);
}

bool gr_clock_check(void)
{
    const int vcio = open(VCIO, O_RDWR | O_CLOEXEC);
    if (vcio < 0 && errno == ENOENT)
        return check_without_firmware();
    if (vcio < 0)
        return gr_fail(VCIO ": %s", strerror(errno));
    int state = property(vcio, GET_CLOCK_STATE, 0);
    if (state == 0)
        state = property(vcio, SET_CLOCK_STATE, IS_ON);
    close(vcio);
    return state == IS_ON || gr_fail("clock: expected the firmware to switch the GPU's clock on, found state "
                                     "%d: update the firmware "
                                     "(rpi-eeprom, raspi-firmware)",
                                     state);
}
