/* SPDX-License-Identifier: BSD-2-Clause */
/* Joint traces of the core's scenes. Each NETWORK record ends a network: the actions and slots before it,
 * back to the one before, are that network's, and those after the last one are the last one's. Working memory
 * is dealt out evenly, unless a record says that all have the same. */
#include "core.h"

/* Records of a kind before the n-th network's end. */
static uint32_t count_before(enum kind kind, size_t end, size_t most)
{
    size_t ends = 0, count = 0;
    for (size_t i = 0; i < scene.count && ends < end; i++) {
        count += scene.records[i].kind % KINDS == kind;
        ends += scene.records[i].kind % KINDS == NETWORK;
    }
    return (uint32_t)(count < most ? count : most);
}

void plan_parts(void)
{
    const size_t count = count_of(NETWORK, MAX_PARTS);
    const struct part all = scene.parts[0];
    scene.has_section = count != 0;
    scene.is_exclusive = false;
    if (!count)
        return;
    scene.part_count = count;
    const uint64_t pages = all.end_page > all.first_page ? all.end_page - all.first_page : 0;
    for (size_t i = 0; i < count; i++)
        scene.is_exclusive |= record_at(NETWORK, i)->how >> 1 & 1;
    for (size_t i = 0; i < count; i++) {
        const bool is_last = i + 1 == count;
        scene.parts[i] = (struct part){
            i ? scene.parts[i - 1].end_action : 0,
            is_last ? all.end_action : count_before(ACTION, i + 1, all.end_action),
            i ? scene.parts[i - 1].end_slot : 0,
            is_last ? all.end_slot : count_before(SLOT, i + 1, all.end_slot),
            all.first_page + (scene.is_exclusive ? 0 : i * (pages / count)),
            is_last || scene.is_exclusive ? all.first_page + pages
                                          : all.first_page + (i + 1) * (pages / count),
        };
    }
}

/* The first ReplayStart of a network's actions; where there is none, its first action. */
static uint32_t start_of(const struct part *p)
{
    for (uint32_t i = p->first_action; i < p->end_action; i++) {
        const struct record *r = record_at(ACTION, i);
        if (r->what < 0xf0 &&
            (r->how & 1 ? r->data[GR_ACTION_AT_OP] == GR_OP_REPLAY_START : r->what % 16 == 15))
            return i;
    }
    return p->first_action;
}

size_t put_networks(uint8_t *rows)
{
    const size_t image_pages = (scene.numbers[IMAGE_BYTES] + PAGE - 1) / PAGE;
    uint8_t *reach = rows + scene.part_count * GR_NETWORK_BYTES;
    memset(rows, 0, scene.part_count * GR_NETWORK_BYTES + image_pages);
    const uint64_t budget = scene.numbers[TIME_BUDGET];
    for (size_t i = 0; i < scene.part_count; i++) {
        const struct record *r = record_at(NETWORK, i);
        const struct part *p = &scene.parts[i];
        uint8_t *row = rows + i * GR_NETWORK_BYTES;
        const struct {
            uint32_t at;
            uint64_t value;
        } fields[] = {
            {GR_NETWORK_AT_FIRST_ACTION, p->first_action},
            {GR_NETWORK_AT_REPLAY_START, start_of(p)},
            {GR_NETWORK_AT_END_ACTION, p->end_action},
            {GR_NETWORK_AT_FIRST_SLOT, p->first_slot},
            {GR_NETWORK_AT_SLOT_COUNT, p->end_slot - p->first_slot},
            {GR_NETWORK_AT_FIRST_PAGE, p->first_page},
            {GR_NETWORK_AT_PAGE_COUNT, p->end_page - p->first_page},
            {GR_NETWORK_AT_FLAGS, scene.is_exclusive ? GR_NETWORK_FLAG_EXCLUSIVE : 0},
            {GR_NETWORK_AT_PREDICTED_US, number_of(r, 0, 4)},
            {GR_NETWORK_AT_RETRY_LIMIT, scene.numbers[RETRIES]},
            {GR_NETWORK_AT_TIME_BUDGET_US, budget < UINT32_MAX ? budget : UINT32_MAX},
        };
        row[GR_NETWORK_AT_NAME] = (uint8_t)('a' + i);
        for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
            put(row + fields[k].at, fields[k].value, 4);
        if (r->how & 1) /* hostile */
            put(row + r->what % (GR_NETWORK_BYTES / 4) * 4, number_of(r, 4, 4), 4);
        for (size_t page = 0; page < image_pages; page++) /* all but those that the record hides */
            reach[page] |= (uint8_t)((~number_of(r, 8, 1) >> page % 8 & 1) << i);
    }
    return scene.part_count * GR_NETWORK_BYTES + image_pages;
}

static uint32_t field(const uint8_t *row, uint32_t at)
{
    uint32_t value;
    memcpy(&value, row + at, sizeof value);
    return value;
}

void read_parts(const uint8_t *rows)
{
    for (size_t i = 0; i < scene.part_count; i++) {
        const uint8_t *row = rows + i * GR_NETWORK_BYTES;
        const uint64_t page = field(row, GR_NETWORK_AT_FIRST_PAGE);
        scene.parts[i] = (struct part){
            field(row, GR_NETWORK_AT_FIRST_ACTION),
            field(row, GR_NETWORK_AT_END_ACTION),
            field(row, GR_NETWORK_AT_FIRST_SLOT),
            field(row, GR_NETWORK_AT_FIRST_SLOT) + field(row, GR_NETWORK_AT_SLOT_COUNT),
            page,
            page + field(row, GR_NETWORK_AT_PAGE_COUNT),
        };
    }
    scene.is_exclusive = field(rows, GR_NETWORK_AT_FLAGS) & GR_NETWORK_FLAG_EXCLUSIVE;
    scene.reach = rows + scene.part_count * GR_NETWORK_BYTES;
}

/* What is copied from the image is the network's. */
static void check_uploads(size_t part)
{
    for (uint32_t i = scene.parts[part].first_action; i < scene.parts[part].end_action; i++) {
        const uint8_t *action = scene.replayer->actions + i * (size_t)GR_ACTION_BYTES;
        if (action[GR_ACTION_AT_OP] == GR_OP_UPLOAD)
            PROMISE(reaches(part, field(action, GR_ACTION_AT_B), field(action, GR_ACTION_AT_VALUE)),
                    "what is uploaded is the network's");
    }
}

void choose(const struct record *r)
{
    const uint32_t network = r->how & 1 ? (uint32_t)number_of(r, 0, 4) : r->data[0] % scene.part_count;
    PROMISE((gr_select(scene.replayer, network) == GR_STATUS_OK) == (network < scene.part_count),
            "a network is selected that there is");
}

/* Ranges follow one another, and leave nothing over. */
void check_parts(void)
{
    PROMISE(gr_network_count(scene.replayer) == scene.part_count, "there are as many networks as rows");
    const uint64_t first = scene.image_end / PAGE, last = scene.carveout_bytes / PAGE;
    uint32_t action = 0, slot = 0;
    uint64_t page = first, end_page = first;
    for (size_t i = 0; i < scene.part_count; i++) {
        const struct part *p = &scene.parts[i];
        struct gr_network_info info;
        PROMISE(gr_network_info(scene.replayer, (uint32_t)i, &info) && info.first_slot == p->first_slot &&
                    info.slot_count == p->end_slot - p->first_slot && strlen(info.name) < sizeof info.name,
                "what is said of a network is its row");
        PROMISE(p->first_action == action && p->end_action >= action + scene.has_section &&
                    p->first_slot == slot && p->end_slot >= slot,
                "actions and slots are one network's");
        PROMISE(p->first_page == page && p->end_page >= page && p->end_page <= last,
                "working memory is one network's, or all have the same");
        check_uploads(i);
        action = p->end_action;
        slot = p->end_slot;
        page = scene.is_exclusive ? first : p->end_page;
        end_page = p->end_page > end_page ? p->end_page : end_page;
    }
    PROMISE(action == scene.action_count && slot == gr_slot_count(scene.replayer) && end_page == last,
            "nothing is nobody's");
}

static uint8_t before[1200 * PAGE];

void remember_others(void)
{
    PROMISE(scene.memory.bytes <= sizeof before, "there is room for a copy of the carve-out");
    memcpy(before, scene.base, scene.memory.bytes);
}

static bool is_as_before(uint64_t from, uint64_t to)
{
    return !memcmp(before + from, scene.base + from, to - from);
}

void check_others(void)
{
    const struct part *own = &scene.parts[selected()];
    const struct region tables = tables_of(selected());
    PROMISE(is_as_before(0, own->first_page * PAGE) && is_as_before(own->end_page * PAGE, tables.at) &&
                is_as_before(tables.end, scene.memory.bytes),
            "a network changes its own memory and its own tables only");
}
