/* SPDX-License-Identifier: BSD-2-Clause */
/* Signatures of one key, which the device has. Where a trust policy says who signs, features/trust has its
 * place.
 */
#include "crypto.h"
#include "load.h"

/* What the signed header and the envelope must be, up to the signature, except for sizes and key id. */
/* clang-format off */
static const uint8_t expected[SIGNATURE_AT] = {
    0x89, 'G', 'S', 'G', '\r', '\n', 0x1a, '\n', /* GR_SIGNED_HEADER_MAGIC */
    GR_VERSION_MAJOR, 0, GR_VERSION_MINOR, 0,
    ENVELOPE_END - ENVELOPE_AT, 0, 0, 0,
    [ENVELOPE_AT] = 0xd2, 0x84, /* COSE_Sign1 (tag 18), array of 4: */
    0x55, 0xa2, 0x01, 0x26, 0x04, 0x50, /* byte string of {1: ES256, 4: key id} */
    [BEHIND_KID] = 0xa0, 0xf6, 0x58, 0x40, /* {}, nil, byte string of 64 */
};
/* clang-format on */

static bool is_expected(const struct loader *l, uint32_t from, uint32_t to)
{
    return gr_is_same(l->start + from, expected + from, to - from);
}

enum gr_status gr_copy_envelope(struct loader *l)
{
    if (!l->stream.source->read(l->stream.source->ctx, 0, l->start, sizeof l->start))
        return GR_STATUS_READ;
    if (!is_expected(l, 0, GR_SIGNED_HEADER_AT_TRACE_BYTES))
        return GR_STATUS_FORMAT;
    if (!is_expected(l, GR_SIGNED_HEADER_AT_RESERVED, KID_AT) || !is_expected(l, BEHIND_KID, SIGNATURE_AT) ||
        gr_load32(gr_aligned(l->start + TRACE_AT - GR_ALIGNMENT) + GR_ALIGNMENT -
                  (TRACE_AT - ENVELOPE_END)) ||
        !gr_is_low(l->start + SIGNATURE_AT + 32))
        return GR_STATUS_ENVELOPE;
    if (!gr_is_same(l->start + KID_AT, l->policy->key_id, KID_BYTES))
        return GR_STATUS_KEY;
    if (gr_load64(gr_aligned(l->start) + GR_SIGNED_HEADER_AT_TRACE_BYTES) != l->trace_bytes)
        return GR_STATUS_SIZE;
    l->state ^= STEP_ENVELOPE;
    return GR_STATUS_OK;
}
/* From all that is signed to a verdict; called twice, since one call can be made to say anything by one
 * fault, and with another copy of the key, since a pointer to one can be made to point elsewhere. RFC
 * 9052, 4.4: the signature is over ["Signature1", protected header, h'', payload], in CBOR. All that precedes
 * the payload is put in front of the head's copy. */
GR_NOINLINE static enum gr_status check_signature(struct loader *l, const uint8_t *key, uint32_t good)
{
    static const uint8_t context[CONTEXT_BYTES] = {0x84, 0x6a, 'S', 'i', 'g', 'n',
                                                   'a',  't',  'u', 'r', 'e', '1'};
    const uint32_t size = l->head_bytes; /* more than 255: CBOR says it in 16 bits, or else in 32 */
    const uint32_t size_bits = size > 0xffff ? 32 : 16;
    uint8_t *to_be_signed = l->head, digest[32];
    for (uint32_t bit = 0; bit < size_bits; bit += 8)
        *--to_be_signed = (uint8_t)(size >> bit);
    *--to_be_signed = (uint8_t)(0x58 + size_bits / 16);
    *--to_be_signed = 0x40; /* no bytes */
    to_be_signed -= PROTECTED_BYTES;
    memcpy(to_be_signed, l->start + PROTECTED_AT, PROTECTED_BYTES);
    to_be_signed -= sizeof context;
    memcpy(to_be_signed, context, sizeof context);
    if (!gr_sha256(to_be_signed, (uint32_t)(l->head - to_be_signed) + size, digest))
        return GR_STATUS_MEMORY;
    const volatile uint32_t verdict =
        (uint32_t)gr_signature_verify(digest, key, l->start + SIGNATURE_AT, good);
    if (verdict != good)
        return GR_STATUS_SIGNATURE;
    l->state ^= verdict;
    return GR_STATUS_OK;
}

enum gr_status gr_judge(struct loader *l)
{
    return check_signature(l, l->policy->key, FIRST_VERDICT);
}

enum gr_status gr_check_signature_again(struct loader *l)
{
    l->state ^= gr_known_answer();
    return check_signature(l, gr_port_key_again(), SECOND_VERDICT);
}
