/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tile buffer of a V3D 4.2 with one render target of 8-bit unsigned integers, as V3DV copies and fills
 * buffers with it: tiles are loaded from memory or cleared, and stored. Sources: see v3d_tile.c.
 */
#ifndef GRAMOPHONE_V3D_TILE_H
#define GRAMOPHONE_V3D_TILE_H

#include "v3d_list.h"

enum {
    V3D_TILE_PIXELS = 64,
    V3D_TILE_WORDS = V3D_TILE_PIXELS * V3D_TILE_PIXELS,
    V3D_TILE_TRANSFER_BYTES = 13
};

/* What a packet Load or Store Tile Buffer General moves. */
struct v3d_transfer {
    uint32_t va, stride; /* bytes */
    uint8_t bytes;       /* a pixel */
};

struct v3d_tile_buffer {
    struct v3d_mmu *mmu;
    uint32_t width, height;  /* of the frame, in pixels */
    uint32_t clear_color;    /* four channels, the first in the lowest byte */
    uint8_t held;            /* bytes a pixel of what the tile was loaded with; 0: it was not */
    bool has_color, cleared; /* a clear colour was given; the tile is filled with it */
    uint32_t implicit;       /* labels of the list, which decides what is stored (flow only) */
    uint64_t limit, left;    /* packets and rows of tiles that a list may take; those that it still may */
    uint32_t pixels[V3D_TILE_WORDS];
    uint32_t labels[V3D_TILE_WORDS][4]; /* of each byte of `pixels` (flow only) */
};

/* What a load or store packet says in its first eight bytes after the opcode, and its address; NULL, or what
 * about it is not modelled. */
const char *v3d_tile_transfer(uint64_t fields, uint32_t va, struct v3d_transfer *transfer);

/* Load the tile in this column and row from memory. False: an error or a fault is in the result. */
bool v3d_tile_load(struct v3d_tile_buffer *tile, const struct v3d_transfer *from, uint32_t column,
                   uint32_t row, struct v3d_list_result *result);

/* Store it. False: as v3d_tile_load. */
bool v3d_tile_store(struct v3d_tile_buffer *tile, const struct v3d_transfer *to, uint32_t column,
                    uint32_t row, struct v3d_list_result *result);

/* Another packet, or another row of a tile. False: the list counts as hung, which is an error. */
bool v3d_tile_spend(struct v3d_tile_buffer *tile, struct v3d_list_result *result);

/* Fill it with the clear colour, for this tile and those after it. */
void v3d_tile_clear(struct v3d_tile_buffer *tile);

#endif
