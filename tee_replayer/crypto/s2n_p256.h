/* SPDX-License-Identifier: BSD-2-Clause */
/* P-256 for s2n_ecdsa.h, over s2n-bignum, whose functions are proved. */
#include <string.h>

#include "crypto.h"
#include "s2n-bignum.h"

/* Of some functions, those variants that need neither SIMD registers nor extensions of x86-64. */
#define field_multiply bignum_montmul_p256_alt
#define field_add bignum_add_p256
#define field_subtract bignum_sub_p256
#define reduce_modulo_n bignum_mod_n256_alt
#define verify_signature gr_signature_verify

enum {
    WORDS = 4, /* of a number, the least significant first */
    NUMBER_BYTES = 32,
    BITS = 2, /* of each scalar, that one step takes */
    STEPS = 256 / BITS,
    VALUES = 1 << BITS,
};

typedef uint64_t number[WORDS], verdict;

/* In Jacobian coordinates: (x / z^2, y / z^3); z is 0 at infinity. Each is kept times R, modulo P. */
struct point {
    number x, y, z;
};

static const number P = {UINT64_MAX, 0x00000000ffffffff, 0, 0xffffffff00000001};
static const number N = {0xf3b9cac2fc632551, 0xbce6faada7179e84, UINT64_MAX, 0xffffffff00000000};
static const number B = {0xd89cdf6229c4bddf, 0xacf005cd78843090, 0xe5a220abf7212ed6, 0xdc30061d04874834};
static const number TO_FIELD = {3, 0xfffffffbffffffff, 0xfffffffffffffffe, 0x00000004fffffffd}; /* R^2 */
static const struct point G = {
    {0x79e730d418a9143c, 0x75ba95fc5fedb601, 0x79fb732b77622510, 0x18905f76a53755c6},
    {0xddf25357ce95560a, 0x8b4ab8e4ba19e45c, 0xd2e88688dd21f325, 0x8571ff1825885d85},
    {1, 0xffffffff00000000, UINT64_MAX, 0x00000000fffffffe},
};

static bool is_zero(const number a)
{
    return !(a[0] | a[1] | a[2] | a[3]);
}

/* Not zero where two numbers differ: by no loop, which a fault could cut short. As a function it would be
 * larger. */
#define differences(a, b) ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]))
