/* SPDX-License-Identifier: BSD-2-Clause */
/* What ES256 and ES384 make of a curve y^2 = x^3 - 3 x + b: the group law, which has no exceptions, and
 * ECDSA. A file of the curve comes before it: the types, constants and field functions that it names. Numbers
 * of the field are kept times R = 2^(64 * WORDS) (Montgomery). All is public, so nothing hides its timing. */

/* s2n-bignum's functions for squares alone would be 368 bytes of P-256, and 928 of P-384. */
#define field_square(square, a) field_multiply(square, a, a)

static void load_number(number a, const uint8_t bytes[NUMBER_BYTES])
{
    for (uint32_t i = WORDS; i--;) {
        uint64_t word = 0;
        for (uint32_t j = 0; j < NUMBER_BYTES / WORDS; j++)
            word = word << 8 | *bytes++;
        a[i] = word;
    }
}

static bool is_less(const number a, const number b)
{
    uint32_t i = WORDS - 1;
    while (i && a[i] == b[i])
        i--;
    return a[i] < b[i];
}

/* p = 2 p. Right for all points: none is of order two, and infinity's z stays 0. */
static void double_point(struct point *p)
{
    number alpha, beta, gamma, t;
    field_square(t, p->z);
    field_subtract(alpha, p->x, t);
    field_add(t, p->x, t);
    field_multiply(t, alpha, t);
    field_add(alpha, t, t);
    field_add(alpha, alpha, t); /* 3 x^2 - 3 z^4: the slope */
    field_add(t, p->y, p->y);
    field_multiply(p->z, t, p->z);
    field_multiply(gamma, t, p->y); /* 2 y^2 */
    field_add(t, gamma, gamma);
    field_multiply(beta, p->x, t);   /* 4 x y^2 */
    field_multiply(gamma, gamma, t); /* 8 y^4 */
    field_square(t, alpha);
    field_subtract(t, t, beta);
    field_subtract(p->x, t, beta);
    field_subtract(t, beta, p->x);
    field_multiply(t, alpha, t);
    field_subtract(p->y, t, gamma);
}

/* p = p + q, for all points: infinity, equal and opposite ones too. */
static void add_point(struct point *p, const struct point *q)
{
    number t, u, v, h, s, r;
    if (is_zero(q->z))
        return;
    if (is_zero(p->z)) {
        *p = *q;
        return;
    }
    field_square(t, p->z);
    field_square(v, q->z);
    field_multiply(u, p->x, v);
    field_multiply(h, q->x, t);
    field_subtract(h, h, u); /* 0: the same x */
    field_multiply(v, v, q->z);
    field_multiply(s, p->y, v);
    field_multiply(t, t, p->z);
    field_multiply(r, q->y, t);
    field_subtract(r, r, s); /* 0: the same y */
    if (is_zero(h) && is_zero(r)) {
        double_point(p);
        return;
    }
    field_multiply(p->z, p->z, q->z);
    field_multiply(p->z, p->z, h); /* 0 for opposite points: infinity */
    field_square(t, h);
    field_multiply(u, u, t);
    field_multiply(h, h, t);
    field_multiply(s, s, h);
    field_square(t, r);
    field_subtract(t, t, h);
    field_subtract(t, t, u);
    field_subtract(p->x, t, u);
    field_subtract(u, u, p->x);
    field_multiply(u, r, u);
    field_subtract(p->y, u, s);
}

static uint32_t digit(const number a, uint32_t at)
{
    return (uint32_t)(a[at * BITS / 64] >> at * BITS % 64) & (VALUES - 1);
}

/* a * G + b * q, by Shamir's trick: each step doubles, and adds one of all sums of small multiples. */
static void add_multiples(struct point *sum, const number a, const number b, const struct point *q)
{
    struct point table[VALUES * VALUES];
    memset(sum, 0, sizeof *sum);
    memset(table, 0, sizeof table[0]);
    for (uint32_t i = 1; i < VALUES * VALUES; i++) {
        const bool by_q = i % VALUES;
        table[i] = table[i - (by_q ? 1 : VALUES)];
        add_point(&table[i], by_q ? q : &G);
    }
    for (uint32_t i = STEPS; i--;) {
        for (uint32_t j = 0; j < BITS; j++)
            double_point(sum);
        add_point(sum, &table[digit(a, i) * VALUES + digit(b, i)]);
    }
}

/* The key as a point; false: it is not on the curve. */
static bool load_point(struct point *q, const uint8_t key[1 + 2 * NUMBER_BYTES])
{
    number left, right, t;
    load_number(q->x, key + 1);
    load_number(q->y, key + 1 + NUMBER_BYTES);
    if (key[0] != 4 || !is_less(q->x, P) || !is_less(q->y, P))
        return false;
    field_multiply(q->x, q->x, TO_FIELD);
    field_multiply(q->y, q->y, TO_FIELD);
    memcpy(q->z, G.z, sizeof q->z);
    /* y^2 = x^3 - 3 x + b */
    field_square(left, q->y);
    field_square(t, q->x);
    field_multiply(right, t, q->x);
    field_add(right, right, B);
    for (uint32_t i = 0; i < 3; i++)
        field_subtract(right, right, q->x);
    field_subtract(left, left, right);
    return is_zero(left);
}

/* 0: the x of a point that is not at infinity is r, or r + n. Without a division: x = r z^2. The words that
 * are compared are counted as they are; a loop that a fault cuts short has not compared all of them. */
static uint64_t difference(const struct point *point, const number r)
{
    number z_squared, one, other;
    volatile uint64_t from_r = 0, from_r_and_n = 0;
    volatile uint32_t compared = 0;
    field_square(z_squared, point->z);
    field_add(other, r, N);
    const bool wraps = is_less(other, N); /* r + n is no x: it is not less than P */
    field_multiply(one, r, TO_FIELD);
    field_multiply(one, one, z_squared);
    field_multiply(other, other, TO_FIELD);
    field_multiply(other, other, z_squared);
    for (uint32_t i = WORDS; i--; compared++) {
        from_r |= one[i] ^ point->x[i];
        from_r_and_n |= other[i] ^ point->x[i];
    }
    return (compared ^ WORDS) | is_zero(point->z) | (from_r && (from_r_and_n | wraps));
}

/* x of a point as a number modulo N; 0 at infinity. */
static void affine_x(number x, const struct point *point)
{
    number inverse, t;
    uint64_t scratch[3 * WORDS];
    bignum_modinv(WORDS, inverse, point->z, P, scratch); /* of z times R */
    field_multiply(t, point->x, inverse);
    field_multiply(t, t, inverse); /* x / z^2 times R^-3 */
    for (uint32_t i = 0; i < 3; i++)
        field_multiply(t, t, TO_FIELD);
    reduce_modulo_n(x, WORDS, t);
}

/* a * b modulo N, for any two numbers. */
static void multiply_modulo_n(number product, const number a, const number b)
{
    uint64_t whole[2 * WORDS];
    bignum_mul(2 * WORDS, whole, WORDS, a, WORDS, b);
    reduce_modulo_n(product, 2 * WORDS, whole);
}

GR_SEAM verdict verify_signature(const uint8_t digest[NUMBER_BYTES], const uint8_t key[1 + 2 * NUMBER_BYTES],
                                 const uint8_t signature[2 * NUMBER_BYTES], uint32_t good)
{
    number r, s, e, inverse;
    uint64_t scratch[3 * WORDS];
    struct point q, sum;
    load_number(r, signature);
    load_number(s, signature + NUMBER_BYTES);
    if (is_zero(r) || is_zero(s) || !is_less(r, N) || !is_less(s, N) || !load_point(&q, key))
        return GR_BAD_VERDICT;
    load_number(e, digest);
    bignum_modinv(WORDS, inverse, s, N, scratch);
    multiply_modulo_n(e, e, inverse);
    multiply_modulo_n(s, r, inverse);
    add_multiples(&sum, e, s, &q);
    affine_x(e, &sum);
    if (difference(&sum, r))
        return (verdict)(e[0] << 32 | GR_BAD_VERDICT);
    /* Compared once more in another form, the textbook's, so that one fault does not change both. */
    const uint64_t other = differences(e, r);
    return (verdict)(e[0] << 32 | (good ^ (uint32_t)(other | other >> 32)));
}
