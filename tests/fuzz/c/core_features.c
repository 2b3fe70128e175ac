/* SPDX-License-Identifier: BSD-2-Clause */
/* What a replayer with more features asks of its board and of the crypto seam: flash, a day, secrets that
 * every board has, and stand-ins for algorithms. Signatures of all kinds are good where the one of ES256 is,
 * ciphers leave blocks as they are, and a key is unwrapped from whatever there is. */
#include "core.h"
#include "crypto.h"

#ifdef GRAMOPHONE_TRUST
#include "fuzz_trust.h"

void gr_port_policy_again(struct gr_policy *again)
{
    *again = device_policy();
    again->trust = fuzz_trust_again;
}

static uint32_t verdict(uint32_t good)
{
    return ++scene.verdicts == scene.numbers[VERDICT_BAD_AT] ? GR_BAD_VERDICT : good;
}

bool gr_sha384(const void *data, size_t bytes, uint8_t digest[48])
{
    memset(digest, 0, 48);
    return gr_sha256(data, bytes, digest);
}

bool gr_sha512(const uint8_t first[64], const void *data, size_t bytes, uint8_t digest[64])
{
    memcpy(digest, first, 64);
    return gr_sha256(data, bytes, digest);
}

uint32_t gr_es384_verify(const uint8_t digest[48], const uint8_t key[97], const uint8_t signature[96],
                         uint32_t good)
{
    (void)digest, (void)key, (void)signature;
    return verdict(good);
}

uint32_t gr_ed25519_verify(const uint8_t *message, size_t bytes, const uint8_t key[32],
                           const uint8_t signature[64], uint32_t good)
{
    (void)message, (void)bytes, (void)key, (void)signature;
    return verdict(good);
}

uint32_t gr_ml_dsa_verify(const uint8_t *message, size_t bytes, const uint8_t key[GR_ML_DSA_KEY_BYTES],
                          const uint8_t signature[GR_ML_DSA_SIGNATURE_BYTES], void *workspace, uint32_t good)
{
    (void)message, (void)bytes, (void)key, (void)signature;
    memset(workspace, 0x77, GR_ML_DSA_WORKSPACE_BYTES);
    return verdict(good);
}
#endif

#ifdef GRAMOPHONE_CLOCK
uint64_t gr_port_utc_s(void)
{
    return scene.clock;
}
#endif

#ifdef GRAMOPHONE_ENCRYPTION
bool gr_port_secret(uint8_t secret[32])
{
    memset(secret, 0x5e, 32);
    return true;
}

bool gr_port_fleet_key(uint8_t key[32])
{
    memset(key, 0xf1, 32);
    return true;
}

bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32])
{
    memcpy(shared, secret, 32);
    return point[64] & 1;
}

bool gr_inverse_begin(struct gr_cipher *cipher, const uint8_t key[16])
{
    memcpy(cipher, key, 16);
    return true;
}

bool gr_inverse_apply(struct gr_cipher *cipher, uint8_t block[16])
{
    (void)cipher;
    memset(block, 0xa6, 8); /* the check of RFC 3394, 2.2.3.1 */
    return true;
}

bool gr_cipher_begin(struct gr_cipher *cipher, const uint8_t key[16], const uint8_t counter[16])
{
    (void)counter;
    PROMISE(scene.verdicts, "a body is opened only once a signature has been judged");
    memcpy(cipher, key, 16);
    return true;
}

uint32_t gr_cipher_apply(struct gr_cipher *cipher, uint8_t *data, uint32_t blocks)
{
    (void)cipher;
    PROMISE(data >= scene.base && data + 16 * (size_t)blocks <= scene.base + scene.memory.bytes,
            "what is decrypted lies in secure memory");
    return blocks;
}

void gr_cipher_end(struct gr_cipher *cipher)
{
    memset(cipher, 0, sizeof *cipher);
}
#endif

#ifdef GRAMOPHONE_STORE
#include "gramophone_store.h"

static uint8_t flash[GR_STORE_BANKS][GR_STORE_BANK_BYTES];

static bool is_in_bank(uint32_t bank, uint32_t offset, uint32_t bytes)
{
    return bank < GR_STORE_BANKS && offset <= GR_STORE_BANK_BYTES && bytes <= GR_STORE_BANK_BYTES - offset;
}

bool gr_port_flash_read(uint32_t bank, uint32_t offset, void *to, uint32_t bytes)
{
    PROMISE(is_in_bank(bank, offset, bytes), "flash is read inside its banks");
    memcpy(to, flash[bank] + offset, bytes);
    return true;
}

bool gr_port_flash_program(uint32_t bank, uint32_t offset, const void *from, uint32_t bytes)
{
    PROMISE(is_in_bank(bank, offset, bytes), "flash is programmed inside its banks");
    for (uint32_t i = 0; i < bytes; i++)
        PROMISE(flash[bank][offset + i] == 0xff, "only erased flash is programmed");
    memcpy(flash[bank] + offset, from, bytes);
    return true;
}

bool gr_port_flash_erase(uint32_t bank)
{
    PROMISE(bank < GR_STORE_BANKS, "a bank is erased that there is");
    memset(flash[bank], 0xff, sizeof flash[bank]);
    return true;
}
#endif

#ifdef GRAMOPHONE_LOG
/* The library's, less its signatures: these are replaced below. */
#undef GRAMOPHONE_ATTEST
#include "bearssl_log.c"
#define GRAMOPHONE_ATTEST
#include "attest.h"

static struct gr_log log;
static uint64_t kept; /* entries */

bool gr_is_private_key(const uint8_t secret[32])
{
    (void)secret;
    return true;
}

bool gr_sign(const uint8_t secret[32], const uint8_t digest[32], uint8_t signature[64])
{
    memcpy(signature, secret, 32);
    memcpy(signature + 32, digest, 32);
    return true;
}

bool gr_public_key(const uint8_t secret[32], uint8_t key[65])
{
    memset(key, 4, 65);
    memcpy(key + 1, secret, 32);
    return true;
}

static bool keep(void *ctx, const struct gr_log_entry *entry, const struct gr_log_tail *tail)
{
    (void)ctx, (void)entry;
    PROMISE(tail->entries == ++kept, "entries are counted one by one");
    return true;
}

static bool give(void *ctx, uint8_t secret[GR_SECRET_BYTES])
{
    (void)ctx;
    memset(secret, 0x5e, 31);
    secret[31] = 0x5f;
    return true;
}
#endif

struct gr_policy device_policy(void)
{
    struct gr_policy found = {.min_security_version = (uint32_t)scene.numbers[MIN_SECURITY_VERSION]};
#ifdef GRAMOPHONE_TRUST
    found.trust = fuzz_trust;
    found.platform = fuzz_platform;
    found.device_id = fuzz_device_id;
#else
    static const uint8_t key_id[16];
    found.key = gr_port_key_again();
    found.key_id = key_id;
#endif
#ifdef GRAMOPHONE_LOG
    found.log = &log;
#endif
    return found;
}

void features_begin(void)
{
#ifdef GRAMOPHONE_STORE
    memset(flash, 0xff, sizeof flash);
#endif
#ifdef GRAMOPHONE_LOG
    static const struct gr_log_port port = {keep, give, NULL};
    static const struct gr_log_tail tail = {.boots = 1};
    static const uint8_t firmware[GR_DIGEST_BYTES] = {1};
    kept = 0;
    PROMISE(gr_log_open(&log, &port, &tail, firmware), "a log is opened");
#endif
}

void features_tell(bool was_loading)
{
    (void)was_loading;
#ifdef GRAMOPHONE_LOG
    const uint64_t before = kept;
    PROMISE(gr_log_append(&log, was_loading ? GR_LOG_KIND_LOAD : GR_LOG_KIND_REPLAY,
                          &scene.replayer->report) == (kept == before + 1),
            "an entry that is written is kept");
    static const uint8_t nonce[GR_NONCE_MIN];
    static uint8_t out[GR_ATTESTATION_MAX];
    PROMISE(gr_attest(&log, nonce, sizeof nonce, NULL, 0, out) <= sizeof out, "an attestation fits");
#endif
}

void features_end(void)
{
#ifdef GRAMOPHONE_LOG
    gr_log_close(&log);
#endif
}
