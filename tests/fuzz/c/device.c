/* SPDX-License-Identifier: BSD-2-Clause */
#include "device.h"
#include "crypto.h"

struct fuzz_device device_state;

bool gr_fuzz_hash_fails(void);
bool gr_fuzz_hash_fails(void)
{
    return false;
}

/* Only the seam is replaced: every signature is good but the one that must not be. */
uint64_t gr_signature_verify(const uint8_t digest[32], const uint8_t key[65], const uint8_t signature[64],
                             uint32_t good)
{
    (void)digest, (void)key, (void)signature;
    return good == GR_KNOWN_VERDICT ? (uint64_t)GR_KNOWN_X << 32 | GR_BAD_VERDICT : good;
}

const uint8_t *gr_port_key_again(void)
{
    static const uint8_t key[65] = {4};
    return key;
}

uint32_t gr_port_lowest_inverted(void)
{
    return ~(uint32_t)0;
}

uint64_t gr_port_now_us(void)
{
    return device_state.clock_us += 7;
}

uint32_t gr_port_read32(uint32_t offset)
{
    PROMISE(offset < FUZZ_WINDOW_BYTES && offset % 4 == 0, "reads lie in the window");
    for (size_t i = 0; i < sizeof fuzz_reads / sizeof *fuzz_reads; i++)
        if (fuzz_reads[i].offset == offset)
            return fuzz_reads[i].value;
    return device_state.written[offset / 4];
}

void gr_port_write32(uint32_t offset, uint32_t value)
{
    PROMISE(offset < FUZZ_WINDOW_BYTES && offset % 4 == 0, "writes lie in the window");
    PROMISE(device_state.may_use, "the GPU is written to only while it is the secure world's");
    device_state.writes++;
    device_state.written[offset / 4] = value;
}

bool gr_port_wait_irq(unsigned line, uint32_t timeout_us)
{
    (void)line;
    device_state.clock_us += timeout_us;
    return true;
}
