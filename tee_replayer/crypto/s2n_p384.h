/* SPDX-License-Identifier: BSD-2-Clause */
/* P-384 for s2n_ecdsa.h, over s2n-bignum, whose functions are proved. */
#include <string.h>

#include "crypto.h"
#include "s2n-bignum.h"

/* Names of this curve's parts: in generated firmware they stand behind P-256's, in the same file. */
#define WORDS WORDS_384
#define NUMBER_BYTES NUMBER_BYTES_384
#define BITS BITS_384
#define STEPS STEPS_384
#define VALUES VALUES_384
#define number number384
#define point point384
#define P P_384
#define N N_384
#define B B_384
#define TO_FIELD TO_FIELD_384
#define G G_384
#define is_zero is_zero384
#define load_number load_number384
#define is_less is_less384
#define double_point double_point384
#define add_point add_point384
#define digit digit384
#define add_multiples add_multiples384
#define load_point load_point384
#define difference difference384
#define affine_x affine_x384
#define multiply_modulo_n multiply_modulo_n384
#define verdict verdict384

#undef field_multiply
#undef field_add
#undef field_subtract
#undef reduce_modulo_n
#undef verify_signature
#define field_multiply bignum_montmul_p384_alt
#define field_add bignum_add_p384
#define field_subtract bignum_sub_p384
#define reduce_modulo_n bignum_mod_n384_alt
#define verify_signature gr_es384_verify

enum {
    WORDS = 6, /* of a number, the least significant first */
    NUMBER_BYTES = 48,
    BITS = 1, /* of each scalar, that one step takes: a small table, for OP-TEE's stack */
    STEPS = 384 / BITS,
    VALUES = 1 << BITS,
};

typedef uint64_t number[WORDS];
typedef uint32_t verdict;

/* In Jacobian coordinates: (x / z^2, y / z^3); z is 0 at infinity. Each is kept times R, modulo P. */
struct point {
    number x, y, z;
};

static const number P = {0x00000000ffffffff, 0xffffffff00000000, 0xfffffffffffffffe,
                         UINT64_MAX,         UINT64_MAX,         UINT64_MAX};
static const number N = {0xecec196accc52973, 0x581a0db248b0a77a, 0xc7634d81f4372ddf,
                         UINT64_MAX,         UINT64_MAX,         UINT64_MAX};
static const number B = {0x081188719d412dcc, 0xf729add87a4c32ec, 0x77f2209b1920022e,
                         0xe3374bee94938ae2, 0xb62b21f41f022094, 0xcd08114b604fbff9};
static const number TO_FIELD = {0xfffffffe00000001, 0x0000000200000000, 0xfffffffe00000000, /* R^2 */
                                0x0000000200000000, 0x0000000000000001, 0};
static const struct point G = {
    {0x3dd0756649c0b528, 0x20e378e2a0d6ce38, 0x879c3afc541b4d6e, 0x6454868459a30eff, 0x812ff723614ede2b,
     0x4d3aadc2299e1513},
    {0x23043dad4b03a4fe, 0xa1bfa8bf7bb4a9ac, 0x8bade7562e83b050, 0xc6c3521968f4ffd9, 0xdd8002263969a840,
     0x2b78abc25a15c5e9},
    {0xffffffff00000001, 0x00000000ffffffff, 0x0000000000000001, 0, 0, 0},
};

static bool is_zero(const number a)
{
    return !(a[0] | a[1] | a[2] | a[3] | a[4] | a[5]);
}

/* Not zero where two numbers differ: by no loop, which a fault could cut short. */
#define differences(a, b)                                                                                    \
    ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]) | (a[4] ^ b[4]) | (a[5] ^ b[5]))
