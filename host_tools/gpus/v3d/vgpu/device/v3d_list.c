/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets: Mesa 22.3.6, src/broadcom/cle/v3d_packet_v33.xml (for 4.1 and up); for 7.1 Mesa 25.0.7,
 * v3d_packet.xml. A list passes when every packet is in the table below; none of them draws a primitive. The
 * binner of the chip also writes tile lists of its own into its tile allocation memory, to which the generic
 * tile list branches; without a primitive nothing is in them. For tiles that are loaded and stored see
 * v3d_tile.c.
 */
#include "v3d_list.h"

#include <stdio.h>
#include <string.h>

#include "v3d_tile.h"
#include "v3d_translate.h"

enum { BIN = 1, RENDER = 2, TILE = 4 }; /* where a packet may stand: TILE is the generic tile list */

enum {
    OP_FLUSH = 4,
    OP_END_RENDER = 13,
    OP_BRANCH_RETURN = 18,
    OP_GENERIC_TILE_LIST = 20,
    OP_SUPERTILE = 23,
    OP_CLEAR = 25,
    OP_END_TILE = 27,
    OP_STORE = 29,
    OP_LOAD = 30,
    OP_CONFIG = 121,
    OP_SUPERTILE_CONFIG = 122,
};
/* Sub-ids of OP_CONFIG, bits 3:0; of a V3D 7.1 bits 2:0. */
enum { CONFIG_COMMON = 0, CONFIG_COLOR = 1, CONFIG_CLEAR_COLOR = 3, CONFIG_TARGET = 2 };
enum { LOG2_64 = 3, TARGET_8UI = 4 }; /* a tile's side of 64 pixels, as 8 << 3 */
enum { BUFFER_NONE = 8, CLEAR_TARGETS = 1, INTERNAL_8UI = 1, LONGEST_PACKET = 13, MAX_STEPS = 16 };

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
    [19] = {"flush VCD cache", 1, BIN | RENDER},
    [OP_GENERIC_TILE_LIST] = {"start address of generic tile list", 9, RENDER},
    [21] = {"branch to implicit tile list", 2, TILE},
    [OP_SUPERTILE] = {"supertile coordinates", 3, RENDER},
    [OP_CLEAR] = {"clear tile buffers", 2, RENDER | TILE},
    [26] = {"end of loads", 1, RENDER | TILE},
    [OP_END_TILE] = {"end of tile marker", 1, RENDER | TILE},
    [OP_STORE] = {"store tile buffer general", 13, RENDER | TILE},
    [OP_LOAD] = {"load tile buffer general", 13, TILE},
    [119] = {"number of layers", 2, BIN},
    [120] = {"tile binning mode configuration", 9, BIN},
    [OP_CONFIG] = {"tile rendering mode configuration", 9, RENDER},
    [OP_SUPERTILE_CONFIG] = {"multicore rendering supertile configuration", 9, RENDER},
    [123] = {"multicore rendering tile list set base", 5, RENDER},
    [124] = {"tile coordinates", 4, RENDER},
    [125] = {"tile coordinates implicit", 1, TILE},
    [126] = {"tile list initial block size", 2, RENDER},
};

/* V3DV's largest frame, of 4096 x 4096 pixels, is loaded and stored in 524288 rows of tiles. */
enum { LIST_LIMIT = 1 << 22 };

static const char *const list_names[] = {
    [BIN] = "bin list", [RENDER] = "render list", [TILE] = "generic tile list"};

/* What the generic tile list does to a tile, without what has no effect. */
struct step {
    uint8_t op; /* OP_LOAD, OP_STORE, OP_CLEAR or OP_END_TILE */
    struct v3d_transfer transfer;
};

struct frame {
    uint64_t common, color, supertiles; /* payloads of the packets that configure it; 0: there was none */
    struct step steps[MAX_STEPS];
    uint8_t count;
    bool stores; /* among the steps is a load or a store */
};

struct list {
    struct v3d_mmu *mmu;
    enum v3d_version version;
    struct v3d_list_result *result;
    struct v3d_tile_buffer *tile;
    struct frame frame;
};

/* A packet, and where it stands. */
struct place {
    uint8_t where;
    uint32_t start, va; /* of the list, of the packet */
    uint8_t bytes[LONGEST_PACKET];
};

/* Bits [low, low + count) of a packet's payload. */
static uint32_t field(uint64_t payload, unsigned low, unsigned count)
{
    return (uint32_t)(payload >> low & ((UINT64_C(1) << count) - 1));
}

/* The first eight bytes of a packet's payload, of a packet of `bytes` bytes. */
static uint64_t payload_of(const uint8_t *packet, unsigned bytes)
{
    uint64_t payload = 0;
    for (unsigned i = 1; i < bytes && i <= 8; i++)
        payload |= (uint64_t)packet[i] << (8 * (i - 1));
    return payload;
}

static bool refuse(struct list *list, const struct place *at, const char *what)
{
    snprintf(list->result->error, sizeof(list->result->error), "%s at 0x%08x: packet %u (%s) at 0x%08x: %s",
             list_names[at->where], at->start, at->bytes[0], packets[at->bytes[0]].name, at->va, what);
    return false;
}

static bool read_bytes(struct list *list, uint32_t va, uint8_t *bytes, uint32_t count)
{
    struct vgpu_flow *flow = list->mmu->flow;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *host = v3d_mmu_span(list->mmu, va + i, 1, false);
        if (!host) {
            list->result->faulted = true;
            list->result->fault_va = va + i;
            return false;
        }
        bytes[i] = *host;
        uint32_t *labels = flow ? v3d_mmu_labels(list->mmu, va + i) : NULL;
        if (labels) {
            flow->read |= *labels;
            flow->addresses |= *labels & flow->implicit;
            flow->control |= *labels & flow->implicit;
            flow->commands |= *labels & flow->implicit;
            list->tile->implicit |= *labels & flow->implicit;
        }
    }
    return true;
}

/* A packet that clears, and has no payload, clears the render targets. */
static uint32_t packet_bytes(const struct list *list, uint8_t opcode)
{
    return opcode == OP_CLEAR && !v3d_traits(list->version)->clear_has_payload ? 1
                                                                               : packets[opcode & 127].bytes;
}

static bool clears_targets(const struct list *list, const struct place *at)
{
    return !v3d_traits(list->version)->clear_has_payload || at->bytes[1] & CLEAR_TARGETS;
}

/* Take one packet of the generic tile list as a step, if it has an effect. */
static bool add_step(struct list *list, const struct place *at)
{
    struct frame *frame = &list->frame;
    struct step step = {.op = at->bytes[0]};
    bool moves = step.op == OP_STORE || step.op == OP_LOAD;

    if (moves && (at->bytes[1] & 0xf) == BUFFER_NONE)
        return true;
    if (!moves && step.op != OP_END_TILE && !(step.op == OP_CLEAR && clears_targets(list, at)))
        return true;
    if (moves) {
        uint32_t va = (uint32_t)payload_of(at->bytes + LONGEST_PACKET - 5, 5);
        const char *what = v3d_tile_transfer(payload_of(at->bytes, LONGEST_PACKET), va, &step.transfer);
        char text[96];
        snprintf(text, sizeof(text), "%s is not modelled", what ? what : "");
        if (what)
            return refuse(list, at, text);
        frame->stores = true;
    }
    if (frame->count == MAX_STEPS)
        return refuse(list, at, "the list has more loads, stores and clears than are modelled");
    frame->steps[frame->count++] = step;
    return true;
}

static bool run_steps(struct list *list, uint32_t column, uint32_t row)
{
    for (unsigned i = 0; i < list->frame.count; i++) {
        const struct step *step = &list->frame.steps[i];
        if (step->op == OP_LOAD && !v3d_tile_load(list->tile, &step->transfer, column, row, list->result))
            return false;
        if (step->op == OP_STORE && !v3d_tile_store(list->tile, &step->transfer, column, row, list->result))
            return false;
        if (step->op == OP_CLEAR)
            v3d_tile_clear(list->tile);
        if (step->op == OP_END_TILE)
            list->tile->held = 0;
    }
    return true;
}

static bool has_plain_tiles(const struct list *list)
{
    const uint64_t common = list->frame.common;

    /* Number of targets, their largest size, multisampling, double buffering. */
    if (!v3d_traits(list->version)->has_target_packet)
        return !field(common, 4, 4) && !field(common, 40, 4);
    return !field(common, 4, 4) && !field(common, 42, 2) && field(common, 52, 6) == (LOG2_64 << 3 | LOG2_64);
}

static bool has_byte_target(const struct list *list)
{
    const uint64_t color = list->frame.color;

    if (!v3d_traits(list->version)->has_target_packet) /* size, type, clamping */
        return !field(color, 4, 2) && field(color, 6, 4) == INTERNAL_8UI && !field(color, 10, 2);
    /* Place in the tile buffer, size, type but for the bit that clamps to what bytes hold anyway. */
    return !field(color, 7, 11) && !field(color, 25, 2) && field(color, 27, 4) == TARGET_8UI;
}

/* Run the generic tile list for each tile of a supertile; nothing is done to frames that load and store
 * nothing. */
static bool run_supertile(struct list *list, const struct place *at)
{
    const struct frame *frame = &list->frame;
    uint32_t columns = field(frame->supertiles, 32, 12), rows = field(frame->supertiles, 44, 12);
    uint32_t wide = field(frame->supertiles, 0, 8) + 1, high = field(frame->supertiles, 8, 8) + 1;

    if (!frame->stores)
        return true;
    list->tile->width = field(frame->common, 8, 16);
    list->tile->height = field(frame->common, 24, 16);
    if (!has_plain_tiles(list))
        return refuse(list, at,
                      "only one render target of 32 bits a pixel, in tiles of 64 x 64, is modelled");
    if (!has_byte_target(list))
        return refuse(list, at, "only a render target of 8-bit unsigned integers is modelled");
    if (field(frame->supertiles, 56, 8))
        return refuse(list, at, "only one core, one list and supertiles in their usual order are modelled");
    if (columns != (list->tile->width + V3D_TILE_PIXELS - 1) / V3D_TILE_PIXELS ||
        rows != (list->tile->height + V3D_TILE_PIXELS - 1) / V3D_TILE_PIXELS)
        return refuse(list, at, "the frame's size in tiles is not that in pixels");
    for (uint32_t row = at->bytes[2] * high; row < (at->bytes[2] + 1u) * high && row < rows; row++)
        for (uint32_t column = at->bytes[1] * wide; column < (at->bytes[1] + 1u) * wide && column < columns;
             column++)
            if (!run_steps(list, column, row)) {
                if (list->result->error[0]) {
                    char what[160];
                    snprintf(what, sizeof(what), "%.159s", list->result->error);
                    refuse(list, at, what);
                }
                return false;
            }
    return true;
}

static bool walk(struct list *list, uint8_t where, uint32_t start, uint32_t end);

static void set_clear_color(struct list *list, uint32_t color)
{
    list->tile->clear_color = color;
    list->tile->has_color = true;
}

/* Execute a packet of the render list. */
static bool render(struct list *list, const struct place *at)
{
    uint64_t payload = payload_of(at->bytes, packet_bytes(list, at->bytes[0]));
    struct frame *frame = &list->frame;
    const bool one_packet = v3d_traits(list->version)->has_target_packet;

    switch (at->bytes[0]) {
    case OP_CONFIG:
        if (field(payload, 0, 4) == CONFIG_COMMON)
            frame->common = payload;
        else if (one_packet && field(payload, 0, 6) == CONFIG_TARGET) { /* render target 0 */
            frame->color = payload;
            set_clear_color(list, field(payload, 32, 32));
        } else if (!one_packet && field(payload, 0, 4) == CONFIG_COLOR)
            frame->color = payload;
        else if (!one_packet && field(payload, 0, 8) == CONFIG_CLEAR_COLOR) /* of render target 0 */
            set_clear_color(list, field(payload, 8, 32));
        return true;
    case OP_SUPERTILE_CONFIG: frame->supertiles = payload; return true;
    case OP_CLEAR:
        if (clears_targets(list, at))
            v3d_tile_clear(list->tile);
        return true;
    case OP_STORE:
        if ((at->bytes[1] & 0xf) != BUFFER_NONE)
            return refuse(list, at, "a store outside of the generic tile list is not modelled");
        return true;
    case OP_GENERIC_TILE_LIST:
        frame->count = 0;
        frame->stores = false;
        return field(payload, 0, 32) == payload >> 32 ||
               walk(list, TILE, field(payload, 0, 32), (uint32_t)(payload >> 32));
    case OP_SUPERTILE: return run_supertile(list, at);
    default: return true;
    }
}

static bool walk(struct list *list, uint8_t where, uint32_t start, uint32_t end)
{
    struct place at = {.where = where, .start = start};
    uint8_t last = 0;

    for (at.va = start; at.va < end;) {
        if (!v3d_tile_spend(list->tile, list->result) || !read_bytes(list, at.va, at.bytes, 1))
            return false;
        const struct packet *packet = at.bytes[0] < 128 ? &packets[at.bytes[0]] : &packets[0];
        const uint32_t bytes = packet_bytes(list, at.bytes[0]);
        if (!(packet->where & where) || bytes > end - at.va) {
            snprintf(list->result->error, sizeof(list->result->error),
                     "%s at 0x%08x: packet %u (%s) at 0x%08x: %s", list_names[where], start, at.bytes[0],
                     packet->name ? packet->name : "not known here", at.va,
                     packet->where & where
                         ? "runs past the end"
                         : "only lists that draw nothing, and copy or fill buffers, are modelled");
            return false;
        }
        if (!read_bytes(list, at.va + 1, at.bytes + 1, bytes - 1) ||
            !(where == BIN || (where == TILE ? add_step(list, &at) : render(list, &at))))
            return false;
        last = at.bytes[0];
        at.va += bytes;
    }
    uint8_t terminator = where == BIN ? OP_FLUSH : where == RENDER ? OP_END_RENDER : OP_BRANCH_RETURN;
    if (last != terminator)
        snprintf(list->result->error, sizeof(list->result->error),
                 "%s [0x%08x, 0x%08x) does not end with packet %u (%s)", list_names[where], start, end,
                 terminator, packets[terminator].name);
    return last == terminator;
}

void v3d_list_run(struct v3d_mmu *mmu, enum v3d_version version, enum v3d_list_kind kind, uint32_t start,
                  uint32_t end, uint64_t limit, struct v3d_list_result *result)
{
    struct v3d_tile_buffer tile;
    struct list list = {.mmu = mmu, .version = version, .result = result, .tile = &tile};

    memset(result, 0, sizeof(*result));
    memset(&tile, 0, sizeof(tile));
    tile.mmu = mmu;
    tile.limit = tile.left = limit ? limit : LIST_LIMIT;
    walk(&list, kind == V3D_LIST_BIN ? BIN : RENDER, start, end);
}
