/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The key of an encrypted body: a COSE_Encrypt message in the signed head (signing/cose_encrypt.py) has it
 * for each recipient, wrapped by ECDH-ES + A128KW (RFC 9053, 6.4.1). Which of them this device is, unwrapping
 * says: it fails with any other key, and under any other head.
 */
#include "crypto.h"
#include "load.h"

enum {
    KEY_BYTES = 16,
    COUNTER_BYTES = 16, /* the last four are zero in a message, and count blocks */
    CIPHER_BLOCK_BYTES = 16,
    SECRET_BYTES = 32,
    HASH_BYTES = 32,
    HASH_BLOCK_BYTES = 64,
    POINT_BYTES = 65,
    WRAPPED_BYTES = 24,
    WRAPPED_WORDS = 2, /* of 8 bytes, in a wrapped key of 16 */
    WRAPPING_ROUNDS = 6,
    COUNTER_AT = 11, /* in a message, whose start is one of these */
    MESSAGE_BYTES = COUNTER_AT + COUNTER_BYTES + 2,
    ROW_KID = 9, /* in a recipient */
    ROW_X = ROW_KID + 16 + 9,
    ROW_Y = ROW_X + 32 + 3,
    ROW_WRAPPED = ROW_Y + 32 + 2,
    ROW_BYTES = ROW_WRAPPED + WRAPPED_BYTES,
};

static const uint8_t message_start[COUNTER_AT] = {0xd8, 0x60, 0x84, 0x40, 0xa2, 0x01,
                                                  0x39, 0xff, 0xfd, 0x05, 0x50};
static const uint8_t row_start[ROW_KID] = {0x83, 0x44, 0xa1, 0x01, 0x38, 0x1c, 0xa2, 0x04, 0x50};
static const uint8_t before_x[] = {0x20, 0xa4, 0x01, 0x02, 0x20, 0x01, 0x21, 0x58, 0x20};
static const uint8_t before_y[] = {0x22, 0x58, 0x20};
static const uint8_t before_wrapped[] = {0x58, WRAPPED_BYTES};

/* HMAC-SHA-256 (RFC 2104) with a key of 32 bytes over at most 64. */
static bool hmac(const uint8_t key[SECRET_BYTES], const uint8_t *data, uint32_t bytes,
                 uint8_t mac[HASH_BYTES])
{
    _Alignas(8) uint8_t inner[2 * HASH_BLOCK_BYTES], outer[HASH_BLOCK_BYTES + HASH_BYTES];
    for (uint32_t i = 0; i < HASH_BLOCK_BYTES; i++) {
        const uint8_t byte = i < SECRET_BYTES ? key[i] : 0;
        inner[i] = byte ^ 0x36;
        outer[i] = byte ^ 0x5c;
    }
    memcpy(inner + HASH_BLOCK_BYTES, data, bytes);
    const bool good = gr_sha256(inner, HASH_BLOCK_BYTES + bytes, outer + HASH_BLOCK_BYTES) &&
                      gr_sha256(outer, sizeof outer, mac);
    gr_wipe(inner, sizeof inner);
    gr_wipe(outer, sizeof outer);
    return good;
}

/* The device's own key: HKDF-Expand (RFC 5869) of its secret, as in signing/device_keys.py. */
static bool own_key(uint8_t key[SECRET_BYTES])
{
    static const uint8_t info[] = "gramophone encryption\0\1"; /* candidate 0; the block's number */
    _Alignas(8) uint8_t secret[SECRET_BYTES];
    const bool good = gr_port_secret(secret) && hmac(secret, info, sizeof info - 1, key);
    gr_wipe(secret, sizeof secret);
    return good;
}

/* What wraps a body's key: HKDF (RFC 5869) of an ECDH, with COSE_KDF_Context (RFC 9053, 5.2) and, in it, the
 * hash of the head. */
static bool derive(const uint8_t shared[SECRET_BYTES], const uint8_t binding[HASH_BYTES],
                   uint8_t key[HASH_BYTES])
{
    static const uint8_t zeros[SECRET_BYTES];
    static const uint8_t context[] = {0x84, 0x22, 0x83, 0xf6, 0xf6, 0xf6, 0x83, 0xf6, 0xf6, 0xf6,
                                      0x83, 0x18, 0x80, 0x44, 0xa1, 0x01, 0x38, 0x1c, 0x58, HASH_BYTES};
    uint8_t info[sizeof context + HASH_BYTES + 1];
    _Alignas(8) uint8_t extracted[HASH_BYTES];
    memcpy(info, context, sizeof context);
    memcpy(info + sizeof context, binding, HASH_BYTES);
    info[sizeof info - 1] = 1;
    const bool good = hmac(zeros, shared, SECRET_BYTES, extracted) && hmac(extracted, info, sizeof info, key);
    gr_wipe(extracted, sizeof extracted);
    return good;
}

/* RFC 3394, 2.2.2. False: it was not wrapped with this key. *differing says the same in another form, zero
 * where it was, for the loader's state: one instruction that stays changed does not decide both. */
static bool unwrap(const uint8_t wrapping[KEY_BYTES], const uint8_t *wrapped, uint8_t key[KEY_BYTES],
                   uint32_t *differing)
{
    struct gr_cipher cipher;
    static const uint8_t expected[8] = {0xa6, 0xa6, 0xa6, 0xa6, 0xa6, 0xa6, 0xa6, 0xa6};
    _Alignas(8) uint8_t block[16]; /* what is checked, and a word of the key */
    bool good = gr_inverse_begin(&cipher, wrapping);
    memcpy(block, wrapped, 8);
    memcpy(key, wrapped + 8, KEY_BYTES);
    for (uint32_t step = WRAPPING_ROUNDS * WRAPPED_WORDS; step; step--) {
        uint8_t *const word = key + (step - 1) % WRAPPED_WORDS * 8;
        block[7] ^= (uint8_t)step;
        memcpy(block + 8, word, 8);
        good &= gr_inverse_apply(&cipher, block);
        memcpy(word, block + 8, 8);
    }
    gr_cipher_end(&cipher);
    const uint32_t same = gr_is_same(block, expected, sizeof expected);
    *differing = (gr_load32(block) ^ UINT32_C(0xa6a6a6a6)) | (gr_load32(block + 4) ^ UINT32_C(0xa6a6a6a6));
    gr_wipe(block, sizeof block);
    return good && same == 1;
}

/* Whether the message is in its one encoding. */
static bool is_message(const uint8_t *m, uint64_t bytes, uint32_t *count)
{
    if (bytes < MESSAGE_BYTES || !gr_is_same(m, message_start, sizeof message_start) ||
        !gr_is_zero(m + COUNTER_AT + 12, 4) || m[COUNTER_AT + 16] != 0xf6)
        return false;
    *count = m[COUNTER_AT + 17] - 0x80u;
    if (*count - 1 >= GR_MAX_RECIPIENTS || bytes != MESSAGE_BYTES + (uint64_t)*count * ROW_BYTES)
        return false;
    for (uint32_t i = 0; i < *count; i++) {
        const uint8_t *row = m + MESSAGE_BYTES + i * ROW_BYTES;
        if (!gr_is_same(row, row_start, sizeof row_start) ||
            !gr_is_same(row + ROW_X - sizeof before_x, before_x, sizeof before_x) ||
            !gr_is_same(row + ROW_Y - sizeof before_y, before_y, sizeof before_y) ||
            !gr_is_same(row + ROW_WRAPPED - sizeof before_wrapped, before_wrapped, sizeof before_wrapped))
            return false;
    }
    return true;
}

/* The body's key by one of the device's, if a recipient is for it. */
static bool find_key(struct loader *l, const uint8_t *rows, uint32_t count,
                     const uint8_t secret[SECRET_BYTES], const uint8_t binding[HASH_BYTES])
{
    _Alignas(8) uint8_t shared[SECRET_BYTES], wrapping[HASH_BYTES];
    uint32_t differing = 0;
    bool found = false;
    for (uint32_t i = 0; i < count && !found && gr_port_now_us() < l->stream.deadline_us; i++) {
        const uint8_t *row = rows + i * ROW_BYTES;
        uint8_t point[POINT_BYTES] = {4};
        memcpy(point + 1, row + ROW_X, 32);
        memcpy(point + 33, row + ROW_Y, 32);
        found = gr_agree(secret, point, shared) && derive(shared, binding, wrapping) &&
                unwrap(wrapping, row + ROW_WRAPPED, l->r->body_key, &differing);
    }
    if (found)
        l->state ^= differing;
    gr_wipe(shared, sizeof shared);
    gr_wipe(wrapping, sizeof wrapping);
    return found;
}

enum gr_status gr_open_body(struct loader *l, const uint8_t *message, uint64_t bytes)
{
    if (!GR_HAS(l, GR_ENCRYPTION_FLAG))
        return GR_STATUS_OK;
    _Alignas(8) uint8_t secret[SECRET_BYTES], binding[HASH_BYTES];
    uint32_t count = 0;
    l->r->report.offset = SECTION_OF(l, GR_SECTION_TYPE_ENCRYPTION);
    if (!is_message(message, bytes, &count))
        return GR_STATUS_SECTIONS;
    if (!gr_sha256(l->head, (size_t)(message - l->head), binding))
        return GR_STATUS_MEMORY;
    const uint8_t *rows = message + MESSAGE_BYTES;
    bool found = own_key(secret) && find_key(l, rows, count, secret, binding);
    if (!found)
        found = gr_port_fleet_key(secret) && find_key(l, rows, count, secret, binding);
    gr_wipe(secret, sizeof secret);
    if (!found)
        return GR_STATUS_ENCRYPTED;
    memcpy(l->r->body_key + KEY_BYTES, message + COUNTER_AT, COUNTER_BYTES);
    l->r->is_encrypted = true;
    l->stream.body_key = l->r->body_key;
    return GR_STATUS_OK;
}

void gr_close_body(struct loader *l)
{
    l->stream.body_key = NULL;
    if (GR_HAS(l, GR_STREAMING_FLAG))
        return;
    gr_wipe(l->r->body_key, sizeof l->r->body_key);
    l->r->is_encrypted = false;
}

uint32_t gr_undecrypted(const struct loader *l)
{
    const uint32_t flags = gr_load16(gr_aligned(l->head) + GR_HEADER_AT_FLAGS);
    const uint64_t taken = l->trace_bytes - l->head_bytes - l->stream.left;
    l->r->opens = UINT64_C(0) - (flags / GR_HEADER_FLAG_ENCRYPTED & 1);
    return (uint32_t)(l->stream.opened - ((taken + 15) / 16 & l->r->opens));
}

/* Chunks are whole blocks but for the last, behind which the buffer goes on. */
void gr_decrypt(struct gr_stream *s, uint32_t bytes)
{
    if (!s->body_key)
        return;
    struct gr_cipher cipher;
    uint8_t counter[COUNTER_BYTES];
    uint32_t block = s->index * (s->chunk_bytes / CIPHER_BLOCK_BYTES);
    memcpy(counter, s->body_key + KEY_BYTES, sizeof counter);
    for (uint32_t i = sizeof counter; block; block >>= 8)
        counter[--i] = (uint8_t)block;
    if (gr_cipher_begin(&cipher, s->body_key, counter))
        s->opened +=
            gr_cipher_apply(&cipher, s->chunk, (bytes + CIPHER_BLOCK_BYTES - 1) / CIPHER_BLOCK_BYTES);
    gr_cipher_end(&cipher);
}
