/*
 * DEFLATE decoder (format: RFC 1951). The output is its own window. Codes of up to FAST_BITS bits, nearly
 * all, are looked up; longer ones are found bit by bit.
 */
#include "internal.h"

enum {
    FAST_BITS = 9,
    MAX_BITS = 15,
    LITERALS = 288, /* literals, end of block, lengths; two of them are never used */
    DISTANCES = 32, /* nor are two of these */
    LENGTHS = 19,
    END_OF_BLOCK = 256,
    FIRST_LENGTH = 257,
    LAST_LENGTH = 285,
    LAST_DISTANCE = 29,
    NO_SYMBOL = 0xffff,
};

struct code {
    uint16_t fast[1u << FAST_BITS]; /* by the next bits: symbol << 4 | bits of its code; 0: longer, or none */
    uint16_t count[MAX_BITS + 1];   /* codes of each length */
    uint16_t symbol[LITERALS];      /* in the order of their codes */
};

struct space {
    struct code literal, distance;
    uint8_t length[LITERALS + DISTANCES];
};
_Static_assert(sizeof(struct space) <= GR_INFLATE_BYTES, "room for the tables");

struct inflate {
    struct gr_stream *stream;
    uint64_t bits; /* the next ones, the lowest first */
    uint32_t have; /* how many */
    uint32_t owed; /* zero bits among them that lie behind the section's end */
};

/* As many bits as one symbol with its extra bits, and its distance with its own, can have: 48. */
static void refill(struct inflate *d)
{
    struct gr_stream *s = d->stream;
    while (d->have < 48) {
        if (s->section && gr_stream_ready(s)) {
            /* Not more than are left, so that what comes next in the chunk is another section's. */
            do {
                d->bits |= (uint64_t)*s->at++ << d->have;
                d->have += 8;
                s->section--;
            } while (d->have <= 56 && s->at != s->end && s->section);
        } else {
            d->have += 8;
            d->owed += 8;
        }
    }
}

/* `count` bits of those that refill has seen to. */
GR_INLINE uint32_t take_bits(struct inflate *d, uint32_t count)
{
    const uint32_t value = (uint32_t)d->bits & ((1u << count) - 1);
    d->bits >>= count;
    d->have -= count;
    return value;
}

/* Make the tables of a code from the lengths of its symbols' codes; false: there are more codes than fit. */
static bool make_code(struct code *code, const uint8_t *length, uint32_t symbols)
{
    uint32_t next[MAX_BITS + 1], place[MAX_BITS + 1], first = 0, placed = 0;
    memset(code, 0, sizeof *code);
    for (uint32_t i = 0; i < symbols; i++)
        code->count[length[i]]++;
    code->count[0] = 0;
    for (uint32_t bits = 1; bits <= MAX_BITS; bits++) {
        first = (first + code->count[bits - 1]) << 1;
        next[bits] = first;
        place[bits] = placed;
        placed += code->count[bits];
        if (first + code->count[bits] > 1u << bits)
            return false;
    }
    for (uint32_t i = 0; i < symbols; i++) {
        const uint32_t bits = length[i];
        if (bits == 0)
            continue;
        code->symbol[place[bits]++] = (uint16_t)i;
        uint32_t reversed = 0;
        for (uint32_t k = 0, value = next[bits]++; k < bits; k++, value >>= 1)
            reversed = reversed << 1 | (value & 1);
        for (; bits <= FAST_BITS && reversed < 1u << FAST_BITS; reversed += 1u << bits)
            code->fast[reversed] = (uint16_t)(i << 4 | bits);
    }
    return true;
}

static uint32_t find_symbol(struct inflate *d, const struct code *code)
{
    uint32_t value = 0, first = 0, before = 0;
    for (uint32_t bits = 1; bits <= MAX_BITS; bits++) {
        value |= (uint32_t)(d->bits >> (bits - 1)) & 1;
        const uint32_t count = code->count[bits];
        if (value - first < count) {
            take_bits(d, bits);
            return code->symbol[before + value - first];
        }
        before += count;
        first = (first + count) << 1;
        value <<= 1;
    }
    return NO_SYMBOL;
}

GR_INLINE uint32_t next_symbol(struct inflate *d, const struct code *code)
{
    const uint32_t entry = code->fast[d->bits & ((1u << FAST_BITS) - 1)];
    if (!entry)
        return find_symbol(d, code);
    take_bits(d, entry & 15);
    return entry >> 4;
}

/* The codes that RFC 1951, 3.2.6 fixes. */
static bool fixed_codes(struct space *space)
{
    memset(space->length, 8, 144);
    memset(space->length + 144, 9, 112);
    memset(space->length + 256, 7, 24);
    memset(space->length + 280, 8, 8);
    memset(space->length + LITERALS, 5, DISTANCES);
    return make_code(&space->literal, space->length, LITERALS) &&
           make_code(&space->distance, space->length + LITERALS, DISTANCES);
}

/* Codes that the block gives: the lengths of their codes, in a code whose lengths come first. */
static bool read_codes(struct inflate *d, struct space *space)
{
    static const uint8_t order[LENGTHS] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    refill(d);
    const uint32_t literals = 257 + take_bits(d, 5), distances = 1 + take_bits(d, 5);
    const uint32_t lengths = 4 + take_bits(d, 4);
    if (literals > LITERALS - 2)
        return false;
    memset(space->length, 0, LENGTHS);
    for (uint32_t i = 0; i < lengths; i++) {
        refill(d);
        space->length[order[i]] = (uint8_t)take_bits(d, 3);
    }
    if (!make_code(&space->literal, space->length, LENGTHS))
        return false;
    for (uint32_t i = 0; i < literals + distances;) {
        refill(d);
        const uint32_t symbol = next_symbol(d, &space->literal);
        uint32_t repeat = 1;
        uint8_t length = (uint8_t)symbol;
        if (symbol == NO_SYMBOL || (symbol == 16 && i == 0))
            return false;
        if (symbol >= 16) {
            length = symbol == 16 ? space->length[i - 1] : 0;
            repeat = symbol == 16   ? 3 + take_bits(d, 2)
                     : symbol == 17 ? 3 + take_bits(d, 3)
                                    : 11 + take_bits(d, 7);
        }
        if (repeat > literals + distances - i)
            return false;
        memset(space->length + i, length, repeat);
        i += repeat;
    }
    /* The literals' table is the last that is written: until now it held the code of the lengths. */
    return make_code(&space->distance, space->length + literals, distances) &&
           make_code(&space->literal, space->length, literals);
}

/* Bytes as they are, from the next whole byte on: how many, and that number's complement. */
static bool copy_stored(struct inflate *d, uint8_t **out, const uint8_t *end)
{
    take_bits(d, d->have % 8);
    refill(d);
    uint32_t bytes = take_bits(d, 16);
    if ((bytes ^ take_bits(d, 16)) != 0xffff || bytes > (uint64_t)(end - *out))
        return false;
    for (; bytes; bytes--) {
        refill(d);
        *(*out)++ = (uint8_t)take_bits(d, 8);
    }
    return true;
}

static bool decode_block(struct inflate *d, const struct space *space, const uint8_t *start, uint8_t **out_at,
                         const uint8_t *end)
{
    uint8_t *out = *out_at;
    for (;;) {
        refill(d);
        const uint32_t symbol = next_symbol(d, &space->literal);
        if (symbol == END_OF_BLOCK)
            break;
        if (symbol < END_OF_BLOCK) {
            if (out == end)
                return false;
            *out++ = (uint8_t)symbol;
            continue;
        }
        if (symbol > LAST_LENGTH)
            return false;
        /* Lengths and distances come in groups that double, each with one extra bit more. */
        uint32_t length = symbol - FIRST_LENGTH + 3, extra = 0;
        if (symbol == LAST_LENGTH) {
            length = 258;
        } else if (symbol >= 265) {
            extra = (symbol - 261) >> 2;
            length = ((4 + ((symbol - 261) & 3)) << extra) + 3 + take_bits(d, extra);
        }
        const uint32_t place = next_symbol(d, &space->distance);
        if (place > LAST_DISTANCE)
            return false;
        uint32_t distance = place + 1;
        if (place >= 4) {
            extra = (place >> 1) - 1;
            distance = ((2 + (place & 1)) << extra) + 1 + take_bits(d, extra);
        }
        if (distance > (uint64_t)(out - start) || length > (uint64_t)(end - out))
            return false;
        for (const uint8_t *from = out - distance; length; length--)
            *out++ = *from++;
    }
    *out_at = out;
    return true;
}

static bool inflate(struct inflate *d, uint8_t *out, uint64_t out_bytes, struct space *space)
{
    const uint8_t *start = out, *end = out + out_bytes;
    for (bool last = false; !last;) {
        refill(d);
        if (d->owed > d->have) /* bits were used that do not exist; so every block takes some of the input */
            return false;
        last = take_bits(d, 1);
        bool good = false;
        switch (take_bits(d, 2)) {
        case 0: good = copy_stored(d, &out, end); break;
        case 1: good = fixed_codes(space) && decode_block(d, space, start, &out, end); break;
        case 2: good = read_codes(d, space) && decode_block(d, space, start, &out, end); break;
        default: break;
        }
        if (!good)
            return false;
    }
    return out == end && d->owed <= d->have;
}

void gr_inflate(struct gr_stream *s, uint8_t *out, uint64_t out_bytes, void *space)
{
    struct inflate d = {.stream = s};
    if (!inflate(&d, out, out_bytes, space) && s->status == GR_STATUS_OK)
        s->status = GR_STATUS_CODEC;
}
