/*
 * Raw LZMA1 decoder (format: Igor Pavlov's public domain LZMA specification, 2015). The output is its own
 * dictionary, so it needs no memory but the probabilities. Written for size: every bit goes through one
 * function.
 */
#include "internal.h"

/* Where the probabilities lie: states 0-11, position states 0-15. */
enum {
    STATES = 12,
    FIRST_MATCH_STATE = 7,
    LENGTH = 2 + 2 * 16 * 8 + 256, /* two choices, low and middle by position state, high */
    IS_MATCH = 0,
    IS_REP = IS_MATCH + STATES * 16,
    IS_REP_G0 = IS_REP + STATES,
    IS_REP_G1 = IS_REP_G0 + STATES,
    IS_REP_G2 = IS_REP_G1 + STATES,
    IS_REP0_LONG = IS_REP_G2 + STATES,
    DISTANCE_SLOT = IS_REP0_LONG + STATES * 16,
    DISTANCE_LOW = DISTANCE_SLOT + 4 * 64,
    ALIGN = DISTANCE_LOW + 115,
    MATCH_LENGTH = ALIGN + 16,
    REP_LENGTH = MATCH_LENGTH + LENGTH,
    LITERAL = REP_LENGTH + LENGTH,
};
_Static_assert((LITERAL + (0x300u << GR_LZMA_MAX_LC_LP)) * 2u <= GR_LZMA_BYTES, "room for the probabilities");

struct lzma {
    struct gr_stream *stream;
    uint32_t range, code;
    uint16_t *probability;
};

/* Behind the end, or when the stream has failed: zeros. They decode to something, which nobody uses. */
static uint32_t next_byte(struct lzma *d)
{
    struct gr_stream *s = d->stream;
    if (gr_stream_ready(s) == 0)
        return 0;
    s->section--;
    return *s->at++;
}

static void normalize(struct lzma *d)
{
    if (d->range < 1u << 24) {
        d->range <<= 8;
        d->code = d->code << 8 | next_byte(d);
    }
}

static uint32_t decode_bit(struct lzma *d, uint32_t index)
{
    normalize(d);
    uint32_t p = d->probability[index];
    const uint32_t bound = (d->range >> 11) * p;
    const uint32_t bit = d->code >= bound;
    if (bit) {
        d->range -= bound;
        d->code -= bound;
        p -= p >> 5;
    } else {
        d->range = bound;
        p += (2048 - p) >> 5;
    }
    d->probability[index] = (uint16_t)p;
    return bit;
}

/* A number of `bits` bits, each with the probability of its place in the tree; reversed: lowest bit first. */
static uint32_t decode_tree(struct lzma *d, uint32_t index, uint32_t bits, bool reversed)
{
    uint32_t node = 1, value = 0;
    for (uint32_t i = 0; i < bits; i++) {
        const uint32_t bit = decode_bit(d, index + node);
        node = node << 1 | bit;
        value = reversed ? value | bit << i : value << 1 | bit;
    }
    return value;
}

static uint32_t decode_length(struct lzma *d, uint32_t index, uint32_t position)
{
    if (!decode_bit(d, index))
        return 2 + decode_tree(d, index + 2 + position * 8, 3, false);
    if (!decode_bit(d, index + 1))
        return 10 + decode_tree(d, index + 2 + 16 * 8 + position * 8, 3, false);
    return 18 + decode_tree(d, index + 2 + 2 * 16 * 8, 8, false);
}

static uint32_t decode_distance(struct lzma *d, uint32_t length)
{
    const uint32_t slot = decode_tree(d, DISTANCE_SLOT + 64 * (length < 6 ? length - 2 : 3), 6, false);
    if (slot < 4)
        return slot;
    uint32_t bits = (slot >> 1) - 1;
    const uint32_t distance = (2 | (slot & 1)) << bits;
    if (slot < 14)
        return distance + decode_tree(d, DISTANCE_LOW + distance - slot, bits, true);
    uint32_t direct = 0;
    for (; bits > 4; bits--) {
        normalize(d);
        d->range >>= 1;
        const uint32_t bit = d->code >= d->range;
        d->code -= bit ? d->range : 0;
        direct = direct << 1 | bit;
    }
    return distance + (direct << 4) + decode_tree(d, ALIGN, 4, true);
}

/* Behind a match, the byte at the match's distance guides the first bits, until one differs from it. */
static uint8_t decode_literal(struct lzma *d, uint32_t index, bool guided, uint32_t match)
{
    uint32_t node = 1;
    while (node < 0x100) {
        const uint32_t guide = match >> 7 & 1;
        match <<= 1;
        const uint32_t bit = decode_bit(d, index + node + (guided ? (1 + guide) << 8 : 0));
        node = node << 1 | bit;
        guided = guided && bit == guide;
    }
    return (uint8_t)node;
}

void gr_lzma_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes, uint8_t properties,
                    uint16_t *probability)
{
    const uint32_t lc = properties % 9, lp = properties / 9 % 5, pb = properties / 45;
    if (pb > 4 || lc + lp > GR_LZMA_MAX_LC_LP) {
        s->status = GR_STATUS_CODEC;
        return;
    }
    for (uint32_t i = 0; i < LITERAL + (0x300u << (lc + lp)); i++)
        probability[i] = 1024;
    struct lzma d = {.stream = s, .range = UINT32_MAX, .probability = probability};
    for (uint32_t i = 0; i < 5; i++) /* the first is zero */
        d.code = d.code << 8 | next_byte(&d);

    uint32_t state = 0, rep0 = 0, rep1 = 0, rep2 = 0, rep3 = 0;
    for (uint64_t at = 0; at < out_bytes;) {
        const uint32_t position = (uint32_t)at & ((1u << pb) - 1);
        if (!decode_bit(&d, IS_MATCH + state * 16 + position)) {
            const uint32_t before = at ? out[at - 1] : 0;
            const uint32_t context = ((uint32_t)at & ((1u << lp) - 1)) << lc | before >> (8 - lc);
            const bool guided = state >= FIRST_MATCH_STATE; /* then rep0 has been checked */
            out[at] = decode_literal(&d, LITERAL + 0x300 * context, guided, guided ? out[at - rep0 - 1] : 0);
            at++;
            state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
            continue;
        }
        uint32_t length = 0, next = 8;
        if (!decode_bit(&d, IS_REP + state)) {
            rep3 = rep2;
            rep2 = rep1;
            rep1 = rep0;
            length = decode_length(&d, MATCH_LENGTH, position);
            rep0 = decode_distance(&d, length);
            next = 7;
        } else if (!decode_bit(&d, IS_REP_G0 + state)) {
            if (!decode_bit(&d, IS_REP0_LONG + state * 16 + position)) {
                length = 1;
                next = 9;
            }
        } else {
            uint32_t distance = rep1;
            if (decode_bit(&d, IS_REP_G1 + state)) {
                distance = rep2;
                if (decode_bit(&d, IS_REP_G2 + state)) {
                    distance = rep3;
                    rep3 = rep2;
                }
                rep2 = rep1;
            }
            rep1 = rep0;
            rep0 = distance;
        }
        if (length == 0)
            length = decode_length(&d, REP_LENGTH, position);
        /* After two matches in a row, which kind the second was is only half remembered. */
        state = state < FIRST_MATCH_STATE ? next : next == 7 ? 10 : 11;
        if (rep0 >= at || length > out_bytes - at) {
            s->status = s->status == GR_STATUS_OK ? GR_STATUS_CODEC : s->status;
            return;
        }
        for (; length; length--, at++)
            out[at] = out[at - rep0 - 1];
    }
}
