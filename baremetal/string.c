/* memcpy, memset and memmove, the first two by words where everything is aligned: with the MMU off, memory
 * takes aligned accesses only. */
#include <stdint.h>
#include <string.h>

enum { WORD = sizeof(uint64_t) };

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if (((uintptr_t)to | (uintptr_t)from) % WORD == 0) {
        for (; bytes >= WORD; bytes -= WORD, out += WORD, in += WORD)
            *(uint64_t *)(void *)out = *(const uint64_t *)(const void *)in;
    }
    for (; bytes; bytes--)
        *out++ = *in++;
    return to;
}

void *memset(void *to, int byte, size_t bytes)
{
    uint8_t *out = to;
    if ((uintptr_t)to % WORD == 0) {
        for (; bytes >= WORD; bytes -= WORD, out += WORD)
            *(uint64_t *)(void *)out = (uint8_t)byte * UINT64_C(0x0101010101010101);
    }
    for (; bytes; bytes--)
        *out++ = (uint8_t)byte;
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *out = to;
    const uint8_t *in = from;
    if (out <= in)
        return memcpy(to, from, bytes);
    while (bytes--)
        out[bytes] = in[bytes];
    return to;
}
