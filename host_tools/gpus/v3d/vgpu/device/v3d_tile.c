/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets and formats: Mesa 22.3.6, src/broadcom/cle/v3d_packet_v33.xml; which of them copy and fill buffers:
 * src/broadcom/vulkan/v3dvx_meta_common.c; tiles of 64 x 64 pixels for one target of 32 bits a pixel:
 * Mesa 25.0.7, src/broadcom/common/v3d_util.c. A load or store covers the part of the tile that lies in the
 * frame.
 */
#include "v3d_tile.h"

#include <stdio.h>
#include <string.h>

#include "v3d_translate.h"

/* Output image formats. */
enum { RGBA8UI = 34, RG8UI = 35, R8UI = 36 };

const char *v3d_tile_transfer(uint64_t fields, uint32_t va, struct v3d_transfer *transfer)
{
    static const uint8_t bytes[] = {[RGBA8UI] = 4, [RG8UI] = 2, [R8UI] = 1};
    uint32_t format = fields >> 12 & 63;
    *transfer = (struct v3d_transfer){va, (uint32_t)(fields >> 28 & 0xfffff),
                                      format < sizeof(bytes) ? bytes[format] : 0};
    if (fields & 0xf)
        return "a buffer other than render target 0";
    if (fields >> 4 & 7)
        return "a memory layout other than raster";
    if (!transfer->bytes)
        return "a format other than RGBA8UI, RG8UI and R8UI";
    /* Flipping, dithering, decimation, "clear buffer being stored" or "force alpha", reversal, swap, a bit
     * without a meaning, and a height for flipping. */
    if (fields & UINT64_C(0xffff00000ffc0f80))
        return "options";
    if (va % transfer->bytes || transfer->stride % transfer->bytes)
        return "an address or stride that is no multiple of a pixel";
    return NULL;
}

/* Bytes of a row of the tile move between memory and the tile buffer. */
static bool move_row(struct v3d_tile_buffer *tile, uint32_t va, uint32_t bytes, uint32_t count,
                     uint32_t *pixels, uint32_t (*labels)[4], bool write, struct v3d_list_result *result)
{
    struct vgpu_flow *flow = tile->mmu->flow;
    uint8_t *host = NULL;
    uint32_t *marks = NULL;

    for (uint32_t i = 0; i < count * bytes; i++) {
        uint32_t at = va + i, left = V3D_PAGE_BYTES - at % V3D_PAGE_BYTES;
        if (i == 0 || left == V3D_PAGE_BYTES) {
            uint32_t span = left < count * bytes - i ? left : count * bytes - i;
            host = v3d_mmu_span(tile->mmu, at, span, write);
            marks = flow && host ? v3d_mmu_labels(tile->mmu, at) : NULL;
            if (!host) {
                result->faulted = result->fault_tile = true;
                result->fault_write = write;
                result->fault_va = at;
                return false;
            }
        }
        uint32_t pixel = i / bytes, byte = i % bytes;
        if (write) {
            *host++ = (uint8_t)(pixels[pixel] >> (8 * byte));
            if (marks)
                *marks++ = labels[pixel][byte] | tile->implicit;
        } else {
            pixels[pixel] |= (uint32_t)*host++ << (8 * byte);
            if (marks) {
                flow->read |= *marks;
                labels[pixel][byte] = *marks++;
            }
        }
    }
    *(write ? &result->bytes_written : &result->bytes_read) += count * bytes;
    return true;
}

bool v3d_tile_spend(struct v3d_tile_buffer *tile, struct v3d_list_result *result)
{
    if (tile->left == 0) {
        snprintf(result->error, sizeof(result->error),
                 "hang: a list takes more than %llu packets and rows of tiles",
                 (unsigned long long)tile->limit);
        return false;
    }
    tile->left--;
    return true;
}

static bool move_tile(struct v3d_tile_buffer *tile, const struct v3d_transfer *transfer, uint32_t column,
                      uint32_t row, bool write, struct v3d_list_result *result)
{
    uint32_t x = column * V3D_TILE_PIXELS, y = row * V3D_TILE_PIXELS;
    uint32_t columns = x < tile->width ? tile->width - x : 0, rows = y < tile->height ? tile->height - y : 0;

    columns = columns < V3D_TILE_PIXELS ? columns : V3D_TILE_PIXELS;
    rows = rows < V3D_TILE_PIXELS ? rows : V3D_TILE_PIXELS;
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t va = transfer->va + (uint64_t)(y + i) * transfer->stride + (uint64_t)x * transfer->bytes;
        if (va + (uint64_t)columns * transfer->bytes > UINT64_C(1) << 32) {
            snprintf(result->error, sizeof(result->error),
                     "a %s of the tile in column %u and row %u goes beyond the GPU's addresses, at 0x%llx",
                     write ? "store" : "load", column, row, (unsigned long long)va);
            return false;
        }
        if (!v3d_tile_spend(tile, result) ||
            !move_row(tile, (uint32_t)va, transfer->bytes, columns, tile->pixels + i * V3D_TILE_PIXELS,
                      tile->labels + i * V3D_TILE_PIXELS, write, result))
            return false;
    }
    return true;
}

bool v3d_tile_load(struct v3d_tile_buffer *tile, const struct v3d_transfer *from, uint32_t column,
                   uint32_t row, struct v3d_list_result *result)
{
    memset(tile->pixels, 0, sizeof(tile->pixels));
    if (tile->mmu->flow)
        memset(tile->labels, 0, sizeof(tile->labels));
    tile->held = from->bytes;
    tile->cleared = false;
    return move_tile(tile, from, column, row, false, result);
}

bool v3d_tile_store(struct v3d_tile_buffer *tile, const struct v3d_transfer *to, uint32_t column,
                    uint32_t row, struct v3d_list_result *result)
{
    uint8_t known = tile->cleared && tile->has_color ? 4 : tile->held;

    if (known != to->bytes) {
        snprintf(
            result->error, sizeof(result->error),
            "a store of %u bytes a pixel from a tile of which %u are known: only what was loaded in the same "
            "format or cleared to a colour",
            to->bytes, known);
        return false;
    }
    return move_tile(tile, to, column, row, true, result);
}

void v3d_tile_clear(struct v3d_tile_buffer *tile)
{
    for (uint32_t i = 0; i < V3D_TILE_WORDS; i++)
        tile->pixels[i] = tile->clear_color;
    if (tile->mmu->flow)
        memset(tile->labels, 0, sizeof(tile->labels));
    tile->cleared = true;
}
