/* SPDX-License-Identifier: BSD-2-Clause */
/* Networks of a joint trace: whose actions, slots and working memory are whose. What one may reach is checked
 * by these rows when the trace is loaded, and again whenever an action runs. */
#include "driver.h"
#include "gr_target.h"
#include "load.h"

/* Of GR_NETWORK_BYTES each, as in the file. */
static const uint8_t *row_at(const struct gr_replayer *r, uint32_t index)
{
    return gr_aligned(r->rows + (size_t)index * GR_NETWORK_BYTES);
}

static uint32_t field(const uint8_t *row, uint32_t at)
{
    return *(const volatile uint32_t *)(const void *)(row + at);
}

/* Whether there is a name, with nothing after its end, that no earlier row has. */
static bool has_name(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *name = row_at(r, index) + GR_NETWORK_AT_NAME;
    for (uint32_t i = 1; i < GR_NETWORK_AT_FIRST_ACTION; i++) {
        if (name[i] && !name[i - 1])
            return false;
    }
    for (uint32_t i = 0; i < index; i++) {
        if (gr_is_same(name, row_at(r, i) + GR_NETWORK_AT_NAME, GR_NETWORK_AT_FIRST_ACTION))
            return false;
    }
    return name[0];
}

/* Whether a row keeps the rules. All numbers have 32
 * bits, and sums are of 64. */
static bool is_valid(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *row = row_at(r, index);
    const bool is_exclusive = field(row_at(r, 0), GR_NETWORK_AT_FLAGS);
    const uint64_t pages = r->carveout_bytes / GR_PAGE_BYTES;
    uint64_t action = 0, slot = 0, page = GR_READ_ONLY_END(r) / GR_PAGE_BYTES, last_page = 0;
    for (uint32_t i = 0; i <= index; i++) {
        const uint8_t *at = row_at(r, i);
        const uint64_t end =
            (uint64_t)field(at, GR_NETWORK_AT_FIRST_PAGE) + field(at, GR_NETWORK_AT_PAGE_COUNT);
        if (end > last_page)
            last_page = end;
        if (i == index)
            break;
        action = field(at, GR_NETWORK_AT_END_ACTION);
        slot = (uint64_t)field(at, GR_NETWORK_AT_FIRST_SLOT) + field(at, GR_NETWORK_AT_SLOT_COUNT);
        if (!is_exclusive)
            page = end;
    }
    const uint32_t start = field(row, GR_NETWORK_AT_REPLAY_START), end = field(row, GR_NETWORK_AT_END_ACTION),
                   flags = field(row, GR_NETWORK_AT_FLAGS), budget = field(row, GR_NETWORK_AT_TIME_BUDGET_US);
    const uint64_t end_slot =
        (uint64_t)field(row, GR_NETWORK_AT_FIRST_SLOT) + field(row, GR_NETWORK_AT_SLOT_COUNT);
    const bool is_last = index == r->network_count - 1;
    return has_name(r, index) && field(row, GR_NETWORK_AT_FIRST_ACTION) == action && action <= start &&
           start < end && end <= r->action_count && field(row, GR_NETWORK_AT_FIRST_SLOT) == slot &&
           end_slot <= r->slot_count && flags == is_exclusive * (uint32_t)GR_NETWORK_FLAG_EXCLUSIVE &&
           field(row, GR_NETWORK_AT_FIRST_PAGE) == page && last_page <= pages &&
           field(row, GR_NETWORK_AT_LONGEST_JOB_US) <= field(row, GR_NETWORK_AT_PREDICTED_US) &&
           field(row, GR_NETWORK_AT_PRIORITY) <= GR_MAX_PRIORITY &&
           field(row, GR_NETWORK_AT_RETRY_LIMIT) <= r->retry_limit && budget && budget <= r->time_budget_us &&
           gr_is_zero(row + GR_NETWORK_AT_RESERVED, GR_NETWORK_BYTES - GR_NETWORK_AT_RESERVED) &&
           (!is_last ||
            (end == r->action_count && end_slot == r->slot_count && last_page == pages && gr_has_owners(r)));
}

enum gr_status gr_take_networks(const struct loader *l, const uint8_t *rows, uint64_t bytes)
{
    struct gr_replayer *r = l->r;
    r->rows = GR_HAS(l, GR_NETWORKS_FLAG) ? rows : NULL;
    r->network_count = 1;
    if (!r->rows) {
        r->networks[0] = (struct gr_own){.end_action = r->action_count,
                                         .end_slot = r->slot_count,
                                         .retry_limit = r->retry_limit,
                                         .time_budget_us = r->time_budget_us,
                                         .work_at = GR_READ_ONLY_END(r),
                                         .work_end = r->carveout_bytes};
        GR_TAKES(r, 0, r->time_budget_us);
        return GR_STATUS_OK;
    }
    /* Where there are fewer bytes than pages, the count becomes too large. */
    const uint64_t of_rows = bytes - GR_READ_ONLY_END(r) / GR_PAGE_BYTES, count = of_rows / GR_NETWORK_BYTES;
    /* cppcheck-suppress incorrectLogicOperator ; it takes GR_NETWORKS, two or more, for 1 */
    if (of_rows % GR_NETWORK_BYTES || count < 2 || count > GR_NETWORKS)
        return GR_STATUS_NETWORKS;
    r->network_count = (uint32_t)count;
    r->is_exclusive = field(row_at(r, 0), GR_NETWORK_AT_FLAGS);
    for (uint32_t i = 0; i < r->network_count; i++) {
        const uint8_t *row = row_at(r, i);
        r->report.offset = i;
        if (!is_valid(r, i))
            return GR_STATUS_NETWORKS;
        const uint64_t page = field(row, GR_NETWORK_AT_FIRST_PAGE);
        const uint32_t predicted = field(row, GR_NETWORK_AT_PREDICTED_US);
        GR_TAKES(r, i, predicted ? predicted : field(row, GR_NETWORK_AT_TIME_BUDGET_US));
        r->networks[i] = (struct gr_own){
            .first_action = field(row, GR_NETWORK_AT_FIRST_ACTION),
            .replay_start = field(row, GR_NETWORK_AT_REPLAY_START),
            .end_action = field(row, GR_NETWORK_AT_END_ACTION),
            .first_slot = field(row, GR_NETWORK_AT_FIRST_SLOT),
            .end_slot = field(row, GR_NETWORK_AT_FIRST_SLOT) + field(row, GR_NETWORK_AT_SLOT_COUNT),
            .retry_limit = field(row, GR_NETWORK_AT_RETRY_LIMIT),
            .time_budget_us = field(row, GR_NETWORK_AT_TIME_BUDGET_US),
            .work_at = page * GR_PAGE_BYTES,
            .work_end = (page + field(row, GR_NETWORK_AT_PAGE_COUNT)) * GR_PAGE_BYTES,
        };
    }
    return gr_have_owners(r) ? GR_STATUS_OK : GR_STATUS_PIECES;
}

enum gr_status gr_check_start(struct gr_replayer *r, uint32_t index, uint32_t starts)
{
    if (!r->rows)
        GR_NETWORK(r)->replay_start = index;
    if (index == GR_REPLAY_START(r) && !starts)
        return GR_STATUS_OK;
    return r->rows ? GR_STATUS_NETWORKS : GR_STATUS_ACTION;
}

enum gr_status gr_check_end(struct gr_replayer *r, uint32_t starts, uint64_t *low_bytes)
{
    if (r->rows && !starts)
        return GR_STATUS_NETWORKS;
    GR_NETWORK(r)->driver_at = *low_bytes;
    *low_bytes += gr_driver_bytes(r);
    GR_NETWORK(r)->driver_end = *low_bytes;
    return GR_STATUS_OK;
}

/* Without rows, what all there is says; with them, each rule once more, and what the replayer took of each
 * row. */
GR_NOINLINE uint64_t gr_network_differences(const struct gr_replayer *r)
{
    uint64_t found = r->network ^ r->running;
    uint64_t low = r->carveout_bytes;
    for (uint32_t i = 0; i < r->network_count; i++) {
        const volatile struct gr_own *n = &r->networks[i];
        found |= n->driver_at ^ low;
        low = n->driver_end;
        if (!r->rows) {
            found |= n->first_action | (n->end_action ^ r->action_count) | n->first_slot |
                     (n->end_slot ^ r->slot_count) | (n->work_at ^ GR_READ_ONLY_END(r)) |
                     (n->work_end ^ r->carveout_bytes) | i;
            continue;
        }
        const uint8_t *row = row_at(r, i);
        const uint64_t page = field(row, GR_NETWORK_AT_FIRST_PAGE),
                       count = field(row, GR_NETWORK_AT_PAGE_COUNT);
        found |= is_valid(r, i) ^ 1u;
        found |=
            (n->first_action ^ field(row, GR_NETWORK_AT_FIRST_ACTION)) |
            (n->replay_start ^ field(row, GR_NETWORK_AT_REPLAY_START)) |
            (n->end_action ^ field(row, GR_NETWORK_AT_END_ACTION)) |
            (n->first_slot ^ field(row, GR_NETWORK_AT_FIRST_SLOT)) |
            (n->end_slot ^ (field(row, GR_NETWORK_AT_FIRST_SLOT) + field(row, GR_NETWORK_AT_SLOT_COUNT))) |
            (n->work_at ^ page * GR_PAGE_BYTES) | (n->work_end ^ (page + count) * GR_PAGE_BYTES);
    }
    return found | (low ^ r->low_bytes);
}

uint32_t gr_network_count(const struct gr_replayer *r)
{
    return r->state == GR_STATE_LOADED ? r->network_count : 0;
}

bool gr_network_info(const struct gr_replayer *r, uint32_t index, struct gr_network_info *info)
{
    if (index >= gr_network_count(r))
        return false;
    memset(info, 0, sizeof *info);
    info->first_slot = r->networks[index].first_slot;
    info->slot_count = r->networks[index].end_slot - info->first_slot;
    if (!r->rows) {
        memcpy(info->name, r->manifest + GR_MANIFEST_AT_NAME, sizeof info->name - 1);
        return true;
    }
    const uint8_t *row = row_at(r, index);
    memcpy(info->name, row + GR_NETWORK_AT_NAME, sizeof info->name - 1);
    info->predicted_us = field(row, GR_NETWORK_AT_PREDICTED_US);
    info->longest_job_us = field(row, GR_NETWORK_AT_LONGEST_JOB_US);
    info->period_us = field(row, GR_NETWORK_AT_PERIOD_US);
    info->priority = field(row, GR_NETWORK_AT_PRIORITY);
    return true;
}

struct gr_progress *gr_progress_of(struct gr_replayer *r, uint32_t slot)
{
    uint32_t i = 0;
    while (i + 1 < r->network_count && slot >= r->networks[i].end_slot)
        i++;
    return &r->progress[i];
}

/* Another network's action is not for this one's tables, whatever has led to it. */
bool gr_is_own_action(const struct gr_replayer *r, uint32_t index)
{
    return index - GR_FIRST_ACTION(r) < GR_END_ACTION(r) - GR_FIRST_ACTION(r);
}

/* Pages that nothing writes and that it reaches, or its own; the first network's follow those, so its mapping
 * may be of both. */
bool gr_maps_own(const struct gr_replayer *r, const struct gr_action *a)
{
    const uint64_t image_pages = GR_READ_ONLY_END(r) / GR_PAGE_BYTES, first = GR_WORK_AT(r) / GR_PAGE_BYTES;
    const uint64_t mapped = (uint64_t)a->b + a->value;
    const bool is_inside = mapped <= image_pages;
    if (!is_inside && ((a->b < first && first != image_pages) || mapped > GR_WORK_END(r) / GR_PAGE_BYTES))
        return false;
    const uint64_t end = is_inside ? mapped : image_pages;
    return a->b >= image_pages || gr_shows(r, (uint64_t)a->b * GR_PAGE_BYTES, end * GR_PAGE_BYTES);
}

/* Whether the GPU's registers are as a network's prologue has left them. */
static bool is_set_up(const struct gr_progress *p)
{
    return p->started && !GR_IS_AWAY(p);
}

static bool has_started(const struct gr_replayer *r)
{
    for (uint32_t i = 0; i < r->network_count; i++) {
        if (is_set_up(&r->progress[i]))
            return true;
    }
    return false;
}

void gr_take_over(struct gr_replayer *r)
{
    if (r->running != r->network) {
        for (uint32_t i = 0; r->is_exclusive && i < r->network_count; i++) {
            r->progress[i].started = false;
            if (i != r->network)
                GR_FORGET(&r->progress[i]);
        }
        if (is_set_up(GR_PROGRESS(r)) && !gr_driver_switch(r))
            gr_leave(r, r->network);
    }
    r->running = r->network;
}

bool gr_needs_reset(struct gr_replayer *r)
{
    if (!has_started(r))
        return true;
    if (gr_driver_switch(r))
        return false;
    gr_leave(r, r->network);
    return true;
}

void gr_wipe_tables(const struct gr_replayer *r)
{
    gr_wipe(r->memory.base + GR_DRIVER_AT(r), GR_DRIVER_END(r) - GR_DRIVER_AT(r));
}

enum gr_status gr_select(struct gr_replayer *r, uint32_t network)
{
    if (r->state != GR_STATE_LOADED)
        return GR_STATUS_STATE;
    if (network >= r->network_count)
        return GR_STATUS_ARGUMENT;
    r->network = network;
    return GR_STATUS_OK;
}
