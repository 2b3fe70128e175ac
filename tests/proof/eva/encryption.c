/* SPDX-License-Identifier: BSD-2-Clause */
/* Of encryption.c, all of it: gr_open_body for any head, with a message of any bytes, as many as 0 to 16
 * recipients take or one more or less, behind which there is nothing; with any secret of the device, and a
 * library that may fail at each call. */
#define __builtin_assume_aligned(pointer, bytes) (pointer)
#define _Alignas(bytes) /* not known to Frama-C */
#include "__fc_builtin.h"
#include "crypto.h"
#include "gr_target.h"
#include "load.h"
#include "string.h"

/*@ requires \valid_read(a + (0 .. bytes - 1)) && \initialized(a + (0 .. bytes - 1));
    requires \valid_read(b + (0 .. bytes - 1)) && \initialized(b + (0 .. bytes - 1));
    assigns \result \from a[0 .. bytes - 1], b[0 .. bytes - 1]; ensures 0 <= \result <= 1; */
uint32_t gr_is_same(const uint8_t *a, const uint8_t *b, size_t bytes);
/*@ requires \valid_read((uint8_t *)data + (0 .. bytes - 1)) && \valid(digest + (0 .. 31));
    requires \initialized((uint8_t *)data + (0 .. bytes - 1));
    assigns \result, digest[0 .. 31] \from ((uint8_t *)data)[0 .. bytes - 1];
    ensures 0 <= \result <= 1 && \initialized(digest + (0 .. 31)); */
bool gr_sha256(const void *data, size_t bytes, uint8_t digest[32]);
/*@ requires \valid(cipher) && \valid_read(key + (0 .. 15)) && \valid_read(counter + (0 .. 15));
    requires \initialized(key + (0 .. 15)) && \initialized(counter + (0 .. 15));
    assigns \result, *cipher \from key[0 .. 15], counter[0 .. 15]; ensures 0 <= \result <= 1; */
bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16]);
/*@ requires \valid(cipher) && \valid_read(key + (0 .. 15)) && \initialized(key + (0 .. 15));
    assigns \result, *cipher \from key[0 .. 15]; ensures 0 <= \result <= 1; */
bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16]);
/*@ requires \valid(cipher) && \valid(block + (0 .. 15)) && \initialized(block + (0 .. 15));
    assigns \result, *cipher, block[0 .. 15] \from *cipher, block[0 .. 15];
    ensures 0 <= \result <= 1 && \initialized(block + (0 .. 15)); */
bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16]);
/*@ requires \valid(cipher) && \valid(data + (0 .. 16 * blocks - 1));
    assigns \result, *cipher, data[0 .. 16 * blocks - 1] \from *cipher, data[0 .. 16 * blocks - 1]; */
uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks);
/*@ requires \valid(cipher); assigns *cipher \from \nothing; */
void gr_cipher_end(struct gr_cipher *cipher);
/*@ requires \valid_read(secret + (0 .. 31)) && \initialized(secret + (0 .. 31));
    requires \valid_read(point + (0 .. 64)) && \initialized(point + (0 .. 64)) && point[0] == 4;
    requires \valid(shared + (0 .. 31));
    assigns \result, shared[0 .. 31] \from secret[0 .. 31], point[0 .. 64];
    ensures 0 <= \result <= 1 && \initialized(shared + (0 .. 31)); */
bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32]);

uint64_t gr_port_now_us(void)
{
    return Frama_C_unsigned_long_long_interval(0, UINT64_MAX);
}

void gr_wipe(void *to, uint64_t bytes)
{
    memset(to, 0, bytes);
}

static bool give(uint8_t secret[32])
{
    Frama_C_make_unknown((char *)secret, 32);
    return Frama_C_interval(0, 1);
}

bool gr_port_secret(uint8_t secret[32])
{
    return give(secret);
}

bool gr_port_fleet_key(uint8_t key[32])
{
    return give(key);
}

#include "shipped/encryption.c"

/* With 64 bytes of the head before the message. */
static uint8_t head[64 + MESSAGE_BYTES + GR_MAX_RECIPIENTS * ROW_BYTES + 1];

/* Whether the head has a message, and of how many bytes. */
static void open_body(bool is_encrypted, uint32_t bytes)
{
    struct gr_replayer r;
    struct loader l;
    Frama_C_make_unknown((char *)&r, sizeof r);
    Frama_C_make_unknown((char *)&l, sizeof l);
    Frama_C_make_unknown((char *)head, sizeof head);
    l.r = &r;
    l.head = head;
    l.flags = is_encrypted ? GR_HEADER_FLAG_ENCRYPTED : 0;
    l.stream.body_key = NULL;
    if (gr_open_body(&l, head + sizeof head - bytes, bytes) == GR_STATUS_OK && is_encrypted) {
        //@ assert opened: l.stream.body_key == (const uint8_t *)r.body_key;
    } else {
        //@ assert shut: l.stream.body_key == \null;
    }
    gr_undecrypted(&l);
    gr_close_body(&l);
    //@ assert closed: l.stream.body_key == \null;
}

/* A chunk of any size that the buffer has room for, behind which there is nothing. */
static uint8_t chunk[GR_MIN_CHUNK_BYTES];

static void decrypt(const uint8_t *key)
{
    struct gr_stream s;
    Frama_C_make_unknown((char *)&s, sizeof s);
    Frama_C_make_unknown((char *)chunk, sizeof chunk);
    s.body_key = key;
    s.chunk_bytes = sizeof chunk;
    s.chunk = chunk;
    gr_decrypt(&s, Frama_C_unsigned_int_interval(1, sizeof chunk));
}

int main(void)
{
    //@ loop unroll 17;
    for (uint32_t count = 0; count <= GR_MAX_RECIPIENTS; count++) {
        open_body(true, MESSAGE_BYTES + count * ROW_BYTES - 1);
        open_body(true, MESSAGE_BYTES + count * ROW_BYTES);
        open_body(true, MESSAGE_BYTES + count * ROW_BYTES + 1);
    }
    open_body(true, 0);
    open_body(false, 0);
    uint8_t key[KEY_BYTES + COUNTER_BYTES];
    Frama_C_make_unknown((char *)key, sizeof key);
    decrypt(key);
    decrypt(NULL);
    return 0;
}
