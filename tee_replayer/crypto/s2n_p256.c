/* SPDX-License-Identifier: BSD-2-Clause */
/* The crypto seam's ES256, and where traces are encrypted its key agreement. */
#include "s2n_p256.h"

#include "s2n_ecdsa.h"

#ifdef GRAMOPHONE_ENCRYPTION
/* sum = p + q, for all points, in the same steps: Renes, Costello and Batina, "Complete addition formulas for
 * prime order elliptic curves" (2016), algorithm 4. Its points are (x / z, y / z); infinity is (0, 1, 0). */
static void add_secret_point(struct point *sum, const struct point *p, const struct point *q)
{
    number t0, t1, t2, t3, t4, x, y, z;
    field_multiply(t0, p->x, q->x);
    field_multiply(t1, p->y, q->y);
    field_multiply(t2, p->z, q->z);
    field_add(t3, p->x, p->y);
    field_add(t4, q->x, q->y);
    field_multiply(t3, t3, t4);
    field_subtract(t3, t3, t0);
    field_subtract(t3, t3, t1); /* x1 y2 + x2 y1 */
    field_add(t4, p->y, p->z);
    field_add(x, q->y, q->z);
    field_multiply(t4, t4, x);
    field_subtract(t4, t4, t1);
    field_subtract(t4, t4, t2); /* y1 z2 + y2 z1 */
    field_add(x, p->x, p->z);
    field_add(y, q->x, q->z);
    field_multiply(y, x, y);
    field_subtract(y, y, t0);
    field_subtract(y, y, t2); /* x1 z2 + x2 z1 */
    field_multiply(z, B, t2);
    field_subtract(x, y, z);
    field_add(z, x, x);
    field_add(x, x, z);
    field_subtract(z, t1, x);
    field_add(x, t1, x);
    field_multiply(y, B, y);
    field_add(t1, t2, t2);
    field_add(t2, t1, t2);
    field_subtract(y, y, t2);
    field_subtract(y, y, t0);
    field_add(t1, y, y);
    field_add(y, t1, y);
    field_add(t1, t0, t0);
    field_add(t0, t1, t0);
    field_subtract(t0, t0, t2);
    field_multiply(t1, t4, y);
    field_multiply(t2, t0, y);
    field_multiply(y, x, z);
    field_add(sum->y, y, t2);
    field_multiply(x, t3, x);
    field_subtract(sum->x, x, t1);
    field_multiply(z, t4, z);
    field_multiply(t1, t3, t0);
    field_add(sum->z, z, t1);
}

/* Whether a < b, in the same steps for all numbers. */
static bool is_less_in_secret(const number a, const number b)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < WORDS; i++)
        borrow = (a[i] < b[i]) | ((a[i] == b[i]) & borrow);
    return borrow;
}

/* Each bit doubles, adds, and then chooses, without a branch or an address that says which. */
GR_SEAM bool gr_agree(const uint8_t secret[32], const uint8_t point[65], uint8_t shared[32])
{
    number scalar, inverse;
    uint64_t scratch[3 * WORDS];
    struct point q, sum = {0}, more;
    load_number(scalar, secret);
    if (is_zero(scalar) || !is_less_in_secret(scalar, N) || !load_point(&q, point))
        return false;
    memcpy(sum.y, G.z, sizeof sum.y);
    for (uint32_t bit = 64 * WORDS; bit--;) {
        add_secret_point(&sum, &sum, &sum);
        add_secret_point(&more, &sum, &q);
        const uint64_t mask = -(scalar[bit / 64] >> bit % 64 & 1);
        for (uint32_t i = 0; i < WORDS; i++) {
            sum.x[i] ^= mask & (sum.x[i] ^ more.x[i]);
            sum.y[i] ^= mask & (sum.y[i] ^ more.y[i]);
            sum.z[i] ^= mask & (sum.z[i] ^ more.z[i]);
        }
    }
    bignum_modinv(WORDS, inverse, sum.z, P, scratch); /* of z times 2^256 */
    field_multiply(sum.x, sum.x, inverse);
    field_multiply(sum.x, sum.x, TO_FIELD);
    for (uint32_t i = 0; i < NUMBER_BYTES; i++)
        shared[i] = (uint8_t)(sum.x[WORDS - 1 - i / 8] >> (56 - i % 8 * 8));
    memset(scalar, 0, sizeof scalar);
    memset(&sum, 0, sizeof sum);
    memset(&more, 0, sizeof more);
    __asm__ volatile("" ::"r"(scalar), "r"(&sum), "r"(&more) : "memory"); /* none of it is left out */
    return true;
}
#endif
