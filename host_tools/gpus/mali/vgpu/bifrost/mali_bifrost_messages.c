/* SPDX-License-Identifier: BSD-2-Clause */
/* ADD operations that access memory, or what other threads have: their encodings. Sources: Mesa 25.0.7
 * src/panfrost/compiler/bifrost/ISA.xml; else see mali_bifrost.h. */
#include "mali_bifrost_encoding.h"

/* ---- loads and stores of words ---- */

static bool modify_words(uint32_t w, struct bifrost_operation *o)
{
    uint8_t words = 4;

    switch (w & 0xffe00) {
    case 0x60c00:
    case 0x62c00: words = 1; break;
    case 0x60e00:
    case 0x62e00: words = 2; break;
    case 0x65400:
    case 0x65c00: words = 3; break;
    default: break;
    }
    o->segment = (uint8_t)bits(w, 6, 3);
    o->transfer = (struct bifrost_transfer){
        .words = words, .bytes = (uint8_t)(4 * words), .align = 4, .width = (uint8_t)(32 * words)};
    return true;
}

/* ---- of less: elements of 8 or 16 bits ---- */

/* To `width` bits of one or two registers, from `shift` on. */
static bool part(uint32_t w, struct bifrost_operation *o, unsigned bytes, unsigned width, unsigned shift)
{
    o->segment = (uint8_t)bits(w, 6, 3);
    o->transfer = (struct bifrost_transfer){.words = width + shift > 32 ? 2 : 1,
                                            .bytes = (uint8_t)bytes,
                                            .align = bytes % 2   ? 1
                                                     : bytes % 4 ? 2
                                                                 : 4,
                                            .shift = (uint8_t)shift,
                                            .width = (uint8_t)width};
    return true;
}

/* Bit 9: with zeros. */
static bool extended(uint32_t w, struct bifrost_operation *o, unsigned bytes, unsigned width, unsigned shift)
{
    part(w, o, bytes, width, shift);
    o->transfer.is_signed = !bit(w, 9);
    return true;
}

static bool modify_byte_to_byte(uint32_t w, struct bifrost_operation *o)
{
    return part(w, o, 1, 8, 8 * bits(w, 9, 2));
}

static bool modify_byte_to_half(uint32_t w, struct bifrost_operation *o)
{
    return extended(w, o, 1, 16, 16 * bits(w, 10, 1));
}

static bool modify_byte_to_word(uint32_t w, struct bifrost_operation *o)
{
    return extended(w, o, 1, 32, 0);
}

static bool modify_byte_to_two(uint32_t w, struct bifrost_operation *o)
{
    return extended(w, o, 1, 64, 0);
}

static bool modify_half_to_half(uint32_t w, struct bifrost_operation *o)
{
    return part(w, o, 2, 16, 16 * bits(w, 9, 1));
}

static bool modify_half_to_word(uint32_t w, struct bifrost_operation *o)
{
    return extended(w, o, 2, 32, 0);
}

static bool modify_half_to_two(uint32_t w, struct bifrost_operation *o)
{
    return extended(w, o, 2, 64, 0);
}

static bool modify_word_to_two(uint32_t w, struct bifrost_operation *o)
{
    return extended(w, o, 4, 64, 0);
}

static bool modify_byte_store(uint32_t w, struct bifrost_operation *o)
{
    return part(w, o, 1, 8, 0);
}

static bool modify_half_store(uint32_t w, struct bifrost_operation *o)
{
    return part(w, o, 2, 16, 0);
}

static bool modify_three_bytes(uint32_t w, struct bifrost_operation *o)
{
    return part(w, o, 3, 24, 0);
}

static bool modify_three_halves(uint32_t w, struct bifrost_operation *o)
{
    return part(w, o, 6, 48, 0);
}

/* ---- exchanges ---- */

/* Bit 9: in the storage of the group. */
static bool exchange(uint32_t w, struct bifrost_operation *o, unsigned words, enum bifrost_atomic operation)
{
    o->segment = bit(w, 9) ? SEGMENT_GROUP : SEGMENT_NONE;
    o->transfer = (struct bifrost_transfer){
        .words = (uint8_t)words, .bytes = 4, .align = 4, .width = 64, .atomic = (uint8_t)operation};
    return true;
}

static bool modify_exchange(uint32_t w, struct bifrost_operation *o)
{
    return exchange(w, o, 1, ATOMIC_EXCHANGE);
}

static bool modify_compare_exchange(uint32_t w, struct bifrost_operation *o)
{
    return exchange(w, o, 2, ATOMIC_COMPARE_EXCHANGE);
}

/* v6: of four threads. */
static bool modify_clper_old(uint32_t w, struct bifrost_operation *o)
{
    (void)w;
    o->detail = 4;
    return true;
}

/* Bits 7:6: by number, or by exclusive or with one's own; what threads that are not active give is zero. */
static bool modify_clper(uint32_t w, struct bifrost_operation *o)
{
    o->detail = 2u << bits(w, 8, 2) | bits(w, 6, 2) << 8;
    return bits(w, 6, 2) < 2 && bits(w, 10, 4) == 0 && bits(w, 8, 2) < 3;
}

/* Bit 3: what threads that are not active give, whose meaning is not known. */
static bool modify_wmask(uint32_t w, struct bifrost_operation *o)
{
    o->detail = 2u << bits(w, 4, 2);
    return bits(w, 4, 2) < 3 && !bit(w, 3);
}

static const struct bifrost_row rows[] = {
    {0x3d700, 0xfffc0, 1, BIFROST_EXCHANGE, bifrost_wmask, modify_wmask},
    {0x3f0c0, 0xfffc0, 2, BIFROST_EXCHANGE, bifrost_clper, modify_clper_old},
    {0x60000, 0xff800, 2, BIFROST_LOAD, NULL, modify_byte_to_byte},
    {0x60800, 0xffc00, 2, BIFROST_LOAD, NULL, modify_half_to_half},
    {0x60c00, 0xffe00, 2, BIFROST_LOAD, NULL, modify_words},
    {0x60e00, 0xffe00, 2, BIFROST_LOAD, NULL, modify_words},
    {0x61000, 0xffe00, 2, BIFROST_LOAD, NULL, modify_words},
    {0x61200, 0xffe00, 2, BIFROST_STORE, NULL, modify_words},
    {0x61400, 0xffc00, 2, BIFROST_LOAD, NULL, modify_byte_to_two},
    {0x61800, 0xffc00, 2, BIFROST_LOAD, NULL, modify_half_to_two},
    {0x61c00, 0xffc00, 2, BIFROST_LOAD, NULL, modify_word_to_two},
    {0x62000, 0xffe00, 2, BIFROST_STORE, NULL, modify_byte_store},
    {0x62800, 0xffe00, 2, BIFROST_STORE, NULL, modify_half_store},
    {0x62c00, 0xffe00, 2, BIFROST_STORE, NULL, modify_words},
    {0x62e00, 0xffe00, 2, BIFROST_STORE, NULL, modify_words},
    {0x63000, 0xffc00, 2, BIFROST_LOAD, NULL, modify_half_to_word},
    {0x63400, 0xffc00, 2, BIFROST_LOAD, NULL, modify_byte_to_word},
    {0x63800, 0xff800, 2, BIFROST_LOAD, NULL, modify_byte_to_half},
    {0x640c0, 0xffdc0, 2, BIFROST_ATOMIC, NULL, modify_exchange},
    {0x644c0, 0xffdc0, 2, BIFROST_ATOMIC, NULL, modify_compare_exchange},
    {0x65000, 0xffe00, 2, BIFROST_LOAD, NULL, modify_three_bytes},
    {0x65200, 0xffe00, 2, BIFROST_LOAD, NULL, modify_three_halves},
    {0x65400, 0xffe00, 2, BIFROST_LOAD, NULL, modify_words},
    {0x65800, 0xffe00, 2, BIFROST_STORE, NULL, modify_three_bytes},
    {0x65a00, 0xffe00, 2, BIFROST_STORE, NULL, modify_three_halves},
    {0x65c00, 0xffe00, 2, BIFROST_STORE, NULL, modify_words},
    {0x7c000, 0xfc000, 2, BIFROST_EXCHANGE, bifrost_clper, modify_clper},
    {0xd7400, 0xffe00, 0, BIFROST_ATOMIC_HIGH, NULL, NULL},
    {0xd7874, 0xfffff, 0, BIFROST_BARRIER, NULL, NULL},
};

bool bifrost_add_message(uint32_t word, struct bifrost_operation *operation)
{
    return bifrost_look_up(rows, sizeof(rows) / sizeof(rows[0]), word, operation);
}
