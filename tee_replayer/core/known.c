/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether the verification of signatures can say no. */
#include "crypto.h"
#include "load.h"

/* GR_KNOWN_ANSWER if the verification refuses what it must, and computes what it must. A bit of its code that
 * stays flipped, or an instruction that is skipped each time, is the same in both verdicts on a trace. So it
 * is asked about a bad signature whose recomputed point is known: that of a key over its own bytes, by its
 * own coordinates. Nobody can sign with the key: its x is a hash of a text. A verification that
 * accepts everything, that takes another key or hash, or that computes another point, answers something else.
 */
GR_NOINLINE uint32_t gr_known_answer(void)
{
    static const uint8_t key[65] = {
        0x04, 0x0b, 0x74, 0xc5, 0x72, 0x2b, 0xf1, 0x6f, 0x1f, 0x69, 0x7a, 0xc2, 0x5f, 0x00, 0x1f, 0x87, 0xf0,
        0x6c, 0x89, 0x14, 0x8d, 0x57, 0x01, 0xfe, 0x67, 0x36, 0x81, 0xa2, 0xdd, 0xfc, 0xfa, 0x53, 0x3e, 0x9b,
        0x7d, 0x0e, 0x39, 0xf7, 0x4b, 0x4a, 0xc9, 0x60, 0x47, 0x3f, 0x18, 0x9c, 0x64, 0x5e, 0xd9, 0xae, 0xad,
        0xc4, 0x21, 0xba, 0xec, 0xf1, 0xca, 0xc4, 0xde, 0x86, 0xc5, 0x4e, 0x85, 0x4b, 0x8c,
    };
    uint8_t digest[32] = {0};
    gr_sha256(key, sizeof key, digest);
    const uint64_t answer = gr_signature_verify(digest, key, key + 1, GR_KNOWN_VERDICT);
    return (uint32_t)answer ^ (uint32_t)(answer >> 32);
}
