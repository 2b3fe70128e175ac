/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's ML-DSA-44 (FIPS 204) over mldsa-native, which AWS-LC carries: its memory safety and its
 * bounds are proved with CBMC. Of it only the verification is compiled, in the variant that takes the least
 * memory; what it needs lies in a workspace that the core gives it. SHAKE's permutation is s2n-bignum's,
 * which is proved for the machine code that is linked; here is the sponge around it (FIPS 202, 4), byte by
 * byte. All is public, so nothing hides its timing, and nothing is overwritten. */
#include <string.h>

#include "crypto.h"
#include "s2n-bignum.h"

enum { SHAKE128_BYTES = 168, SHAKE256_BYTES = 136, SHAKE_END = 0x1f };

/* Loops that reject what they squeeze take zeros: after so many blocks, they end. FIPS 204, appendix C: a
 * bound of 894 bytes is reached with a probability of 2^-256. */
enum { MOST_BLOCKS = 64 };

struct sponge {
    uint64_t words[25];
    uint32_t rate, at; /* bytes of a block; of the current one, absorbed or squeezed */
    uint32_t squeezed; /* blocks */
};

static void permute(struct sponge *s)
{
    static const uint64_t rounds[24] = {
        0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000, 0x000000000000808b,
        0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008a, 0x0000000000000088,
        0x0000000080008009, 0x000000008000000a, 0x000000008000808b, 0x800000000000008b, 0x8000000000008089,
        0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
        0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
    };
    sha3_keccak_f1600(s->words, rounds);
    s->at = 0;
}

static void sponge_start(struct sponge *s, uint32_t rate)
{
    memset(s, 0, sizeof *s);
    s->rate = rate;
}

static void sponge_add(struct sponge *s, uint8_t byte)
{
    s->words[s->at / 8] ^= (uint64_t)byte << s->at % 8 * 8;
}

static void absorb(struct sponge *s, const uint8_t *data, size_t bytes)
{
    for (; bytes; bytes--) {
        sponge_add(s, *data++);
        if (++s->at == s->rate)
            permute(s);
    }
}

static void sponge_finish(struct sponge *s)
{
    sponge_add(s, SHAKE_END);
    s->at = s->rate - 1;
    sponge_add(s, 0x80);
    permute(s);
}

static void squeeze(uint8_t *out, size_t bytes, struct sponge *s)
{
    for (; bytes; bytes--) {
        if (s->at == s->rate) {
            permute(s);
            if (++s->squeezed > MOST_BLOCKS)
                memset(s->words, 0, sizeof s->words);
        }
        *out++ = (uint8_t)(s->words[s->at / 8] >> s->at % 8 * 8);
        s->at++;
    }
}

/* What mldsa-native asks of FIPS 202, under its names. */
#define SHAKE128_RATE SHAKE128_BYTES
#define SHAKE256_RATE SHAKE256_BYTES
#define mld_shake128ctx struct sponge
#define mld_shake256ctx struct sponge
#define mld_shake128_init(s) sponge_start(s, SHAKE128_BYTES)
#define mld_shake256_init(s) sponge_start(s, SHAKE256_BYTES)
#define mld_shake128_absorb(s, data, bytes) absorb(s, data, bytes)
#define mld_shake256_absorb(s, data, bytes) absorb(s, data, bytes)
#define mld_shake128_finalize(s) sponge_finish(s)
#define mld_shake256_finalize(s) sponge_finish(s)
#define mld_shake128_squeeze(out, bytes, s) squeeze(out, bytes, s)
#define mld_shake256_squeeze(out, bytes, s) squeeze(out, bytes, s)
#define mld_shake128_release(s) ((void)(s))
#define mld_shake256_release(s) ((void)(s))
#define mld_shake256(out, bytes, data, size) ((void)0) /* of what is not compiled */

/* Its settings. It asks for its arrays by name, and gets the members of the workspace. */
#define MLD_CONFIG_FILE <stdint.h>
#define MLD_CONFIG_PARAMETER_SET 44
#define MLD_CONFIG_NAMESPACE_PREFIX mldsa
#define MLD_CONFIG_NO_SUPERCOP
#define MLD_CONFIG_INTERNAL_API_QUALIFIER static __attribute__((unused))
#define MLD_CONFIG_EXTERNAL_API_QUALIFIER static __attribute__((unused))
#define MLD_CONFIG_NO_SIGN_API
#define MLD_CONFIG_NO_KEYPAIR_API
#define MLD_CONFIG_NO_RANDOMIZED_API
#define MLD_CONFIG_CORE_API_ONLY
#define MLD_CONFIG_REDUCE_RAM
#define MLD_CONFIG_SERIAL_FIPS202_ONLY
#define MLD_CONFIG_FIPS202_CUSTOM_HEADER <stdint.h>
#define MLD_CONFIG_CUSTOM_ZEROIZE
#define mld_zeroize(data, bytes) ((void)(data), (void)(bytes))
#define MLD_CONFIG_CONTEXT_PARAMETER
#define MLD_CONFIG_CONTEXT_PARAMETER_TYPE struct workspace *
#define MLD_CONFIG_CUSTOM_ALLOC_FREE
#define MLD_CUSTOM_ALLOC(name, type, count, from)                                                            \
    _Static_assert(sizeof(type) * (count) <= sizeof(from)->name, "room for " #name);                         \
    type *name = (type *)(void *)(from)->name
#define MLD_CUSTOM_FREE(name, type, count, from) ((void)(from))

/* What they are by FIPS 204, table 1 (k, l: 4; lambda / 4: 32), and 3.5.5 (a byte of w1 is 6 bits). */
enum {
    ALIGNMENT = 32,
    POLYNOMIAL_BYTES = 1024,
    VECTOR = 4,
    CHALLENGE_BYTES = 32,
    PACKED_BYTES = 192,
    MU_BYTES = 64
};

struct workspace {
    _Alignas(ALIGNMENT) uint8_t z[VECTOR * POLYNOMIAL_BYTES];
    uint8_t mat[POLYNOMIAL_BYTES + 32]; /* one polynomial, and the seed of all */
    uint8_t cp[POLYNOMIAL_BYTES], w1[POLYNOMIAL_BYTES], tmp[POLYNOMIAL_BYTES], buf[VECTOR * PACKED_BYTES];
    uint8_t mu[MU_BYTES], c[CHALLENGE_BYTES], c2[CHALLENGE_BYTES];
};
_Static_assert(sizeof(struct workspace) + ALIGNMENT == GR_ML_DSA_WORKSPACE_BYTES,
               "crypto.h says how large it is");

#include <mldsa_native_bcm.c> /* of mldsa-native; included for its static functions */

/* 0: the challenge that was recomputed is the signature's. mldsa-native compares them too; here the bytes
 * that are compared are counted as they are, and its one bit does not decide alone. */
static uint32_t challenge_difference(const struct workspace *w, const uint8_t *signature)
{
    volatile uint32_t difference = 0, compared = 0;
    for (uint32_t i = CHALLENGE_BYTES; i--; compared++)
        difference |= (uint32_t)w->c2[i] ^ signature[i];
    return difference | (compared ^ CHALLENGE_BYTES);
}

GR_SEAM uint32_t gr_ml_dsa_verify(const uint8_t *message, size_t bytes,
                                  const uint8_t key[GR_ML_DSA_KEY_BYTES],
                                  const uint8_t signature[GR_ML_DSA_SIGNATURE_BYTES], void *workspace,
                                  uint32_t good)
{
    static const uint8_t no_context[2] = {0, 0}; /* FIPS 204, algorithm 3: not pre-hashed, 0 bytes of it */
    struct workspace *w =
        (struct workspace *)(void *)((uint8_t *)workspace + (-(uintptr_t)workspace & (ALIGNMENT - 1)));
    for (uint32_t i = 0; i < CHALLENGE_BYTES; i++)
        w->c2[i] = (uint8_t)~signature[i];
    const volatile int verdict = mldsa_verify_internal(signature, GR_ML_DSA_SIGNATURE_BYTES, message, bytes,
                                                       no_context, sizeof no_context, key, 0, w);
    if (verdict != 0 || challenge_difference(w, signature))
        return GR_BAD_VERDICT;
    return verdict == 0 ? good ^ challenge_difference(w, signature) : GR_BAD_VERDICT;
}
