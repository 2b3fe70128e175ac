/* SPDX-License-Identifier: BSD-2-Clause */
/* Of attestations: a nonce of any size, up to what the code takes and beyond, and any log; the library may
 * fail at each call. What is written stays inside of its buffers, whose sizes are numbers in the code. */
#include "log_seam.h"
/* As in OP-TEE; so it begins as zeros, for Eva does not relate how much of it is used to what was written. */
#define GR_SCRATCH static

static struct gr_log state;
static uint8_t out[GR_ATTESTATION_MAX], policy[96];

/*@ requires \valid_read(bytes + (0 .. 31)) && \initialized(bytes + (0 .. 31));
    assigns \result \from bytes[0 .. 31]; ensures 0 <= \result <= 1; */
bool gr_log_is_blank(const uint8_t *bytes);

bool gr_log_derive(const struct gr_log *log, const char *info, uint32_t bytes, struct gr_log_key *key)
{
    //@ assert purpose: bytes <= GR_INFO_MAX && \valid_read(info + (0 .. bytes - 1));
    (void)log;
    (void)info;
    (void)bytes;
    return give_secret(NULL, key->bytes);
}

int main(void)
{
    uint8_t nonce[GR_NONCE_MAX], key[GR_PUBLIC_KEY_BYTES];
    Frama_C_make_unknown((char *)&state, sizeof state);
    Frama_C_make_unknown((char *)nonce, sizeof nonce);
    Frama_C_make_unknown((char *)policy, sizeof policy);
    state.failed = Frama_C_interval(0, 1);
    const uint32_t bytes =
        gr_attest(&state, nonce, Frama_C_unsigned_int_interval(0, UINT32_MAX), policy, sizeof policy, out);
    //@ assert fits: bytes < GR_ATTESTATION_MAX;
    (void)gr_attest_key(&state, key);
    return (int)bytes;
}
#include "shipped/attest.c"
