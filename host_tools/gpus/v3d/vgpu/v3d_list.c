/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets: Mesa 22.3.6, src/broadcom/cle/v3d_packet_v33.xml (for 4.1 and up). A list passes when every packet
 * is in the table below; none of them draws a primitive, loads or stores a buffer, but Store Tile Buffer
 * General, which passes with buffer "none" only. The binner of the chip also writes tile lists of its own
 * into its tile allocation memory; only the render list that follows reads them, and it stores nothing.
 */
#include "v3d_list.h"

#include <stdio.h>
#include <string.h>

#include "v3d_translate.h"

enum { BIN = 1, RENDER = 2, TILE = 4 }; /* where a packet may stand: TILE is the generic tile list */

enum { OP_BRANCH_RETURN = 18, OP_GENERIC_TILE_LIST = 20, OP_STORE = 29, OP_FLUSH = 4, OP_END_RENDER = 13 };
enum { STORE_NONE = 8, LONGEST_PACKET = 13 };

struct packet {
    const char *name;
    uint8_t bytes; /* opcode included */
    uint8_t where;
};

static const struct packet packets[128] = {
    [1] = {"no operation", 1, BIN | RENDER | TILE},
    [OP_FLUSH] = {"flush", 1, BIN},
    [6] = {"start tile binning", 1, BIN},
    [OP_END_RENDER] = {"end of rendering", 1, RENDER},
    [OP_BRANCH_RETURN] = {"return from sub-list", 1, TILE},
    [19] = {"flush VCD cache", 1, BIN},
    [OP_GENERIC_TILE_LIST] = {"start address of generic tile list", 9, RENDER},
    [21] = {"branch to implicit tile list", 2, TILE},
    [23] = {"supertile coordinates", 3, RENDER},
    [25] = {"clear tile buffers", 2, TILE},
    [26] = {"end of loads", 1, TILE},
    [27] = {"end of tile marker", 1, TILE},
    [OP_STORE] = {"store tile buffer general", 13, TILE},
    [119] = {"number of layers", 2, BIN},
    [120] = {"tile binning mode configuration", 9, BIN},
    [121] = {"tile rendering mode configuration", 9, RENDER},
    [122] = {"multicore rendering supertile configuration", 9, RENDER},
    [123] = {"multicore rendering tile list set base", 5, RENDER},
    [125] = {"tile coordinates implicit", 1, TILE},
    [126] = {"tile list initial block size", 2, RENDER},
};

static const char *const list_names[] = {
    [BIN] = "bin list", [RENDER] = "render list", [TILE] = "generic tile list"};

static uint32_t word(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
}

static bool read_bytes(struct v3d_mmu *mmu, uint32_t va, uint8_t *bytes, uint32_t count,
                       struct v3d_list_result *result)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!v3d_mmu_read8(mmu, va + i, &bytes[i])) {
            result->faulted = true;
            result->fault_va = va + i;
            return false;
        }
    }
    return true;
}

/* Check one list; *generic receives the range of the generic tile list that a render list names. */
static void check(struct v3d_mmu *mmu, uint8_t where, uint32_t start, uint32_t end, uint32_t generic[2],
                  struct v3d_list_result *result)
{
    uint8_t last = 0;
    for (uint32_t va = start; va < end;) {
        uint8_t bytes[LONGEST_PACKET];
        if (!read_bytes(mmu, va, bytes, 1, result))
            return;
        const struct packet *packet = bytes[0] < 128 ? &packets[bytes[0]] : &packets[0];
        if (!(packet->where & where) || packet->bytes > end - va) {
            snprintf(result->error, sizeof(result->error), "%s at 0x%08x: packet %u (%s) at 0x%08x: %s",
                     list_names[where], start, bytes[0], packet->name ? packet->name : "not known here", va,
                     packet->where & where ? "runs past the end"
                                           : "only lists that draw nothing are modelled");
            return;
        }
        if (!read_bytes(mmu, va + 1, bytes + 1, packet->bytes - 1u, result))
            return;
        if (bytes[0] == OP_STORE && (bytes[1] & 0xf) != STORE_NONE) {
            snprintf(
                result->error, sizeof(result->error),
                "%s at 0x%08x: packet 29 (%s) at 0x%08x stores buffer %u: only lists that store nothing are "
                "modelled",
                list_names[where], start, packet->name, va, bytes[1] & 0xf);
            return;
        }
        if (bytes[0] == OP_GENERIC_TILE_LIST) {
            generic[0] = word(bytes + 1);
            generic[1] = word(bytes + 5);
        }
        last = bytes[0];
        va += packet->bytes;
    }
    uint8_t terminator = where == BIN ? OP_FLUSH : where == RENDER ? OP_END_RENDER : OP_BRANCH_RETURN;
    if (last != terminator)
        snprintf(result->error, sizeof(result->error), "%s [0x%08x, 0x%08x) does not end with packet %u (%s)",
                 list_names[where], start, end, terminator, packets[terminator].name);
}

void v3d_list_check(struct v3d_mmu *mmu, enum v3d_list_kind kind, uint32_t start, uint32_t end,
                    struct v3d_list_result *result)
{
    uint32_t generic[2] = {0, 0};
    memset(result, 0, sizeof(*result));
    check(mmu, kind == V3D_LIST_BIN ? BIN : RENDER, start, end, generic, result);
    if (!result->faulted && !result->error[0] && generic[0] != generic[1])
        check(mmu, TILE, generic[0], generic[1], NULL, result);
}
