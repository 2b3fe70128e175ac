/* SPDX-License-Identifier: BSD-2-Clause */
/* What codec.c takes of a codec. */
#ifndef GRAMOPHONE_FUZZ_CODEC_H
#define GRAMOPHONE_FUZZ_CODEC_H

#include "internal.h"

/* The decoder that is fuzzed. */
void fuzz_decode(struct gr_stream *s, uint8_t *out, uint64_t out_bytes);

/* Another one, plain and slow: true when the block decodes to exactly `out_bytes`; *used: bytes of it. */
bool fuzz_expect(const uint8_t *block, size_t block_bytes, uint8_t *out, size_t out_bytes, size_t *used);

#endif
