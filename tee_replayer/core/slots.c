/* Slots: the caller's dense data, in C order, to and from strided places in GPU memory. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

static bool load_slot(const struct gr_replayer *r, uint32_t index, struct gr_slot *slot)
{
    return gr_slot_load(slot, gr_aligned(r->slots + (size_t)index * GR_SLOT_BYTES), GR_SLOT_BYTES);
}

/* Bytes of dense data; 0 when they are more than any memory budget. */
static uint64_t dense_bytes(const struct gr_slot *slot)
{
    uint64_t bytes = gr_dtype_bytes(slot->dtype);
    for (uint32_t i = 0; i < slot->rank; i++) {
        bytes *= slot->dims[i];
        if (bytes > (uint64_t)1 << 32)
            return 0;
    }
    return bytes;
}

enum gr_status gr_check_slot(const struct gr_replayer *r, uint32_t index)
{
    struct gr_slot slot;
    if (!load_slot(r, index, &slot) || slot.kind < GR_SLOT_KIND_INPUT || slot.kind > GR_SLOT_KIND_PARAMETER ||
        slot.rank < 1 || slot.rank > GR_MAX_RANK || slot.address_space >= GR_ADDRESS_SPACES)
        return GR_STATUS_SLOTS;
    const uint32_t size = gr_dtype_bytes(slot.dtype);
    if (size == 0 || slot.address % size || slot.address >= r->va_bytes || dense_bytes(&slot) == 0)
        return GR_STATUS_SLOTS;
    uint64_t end = slot.address + size;
    for (uint32_t i = 0; i < GR_MAX_RANK; i++) {
        const bool used = i < slot.rank;
        if (used ? slot.strides[i] < size || slot.strides[i] % size : slot.dims[i] || slot.strides[i])
            return GR_STATUS_SLOTS;
        end += used ? (uint64_t)(slot.dims[i] - 1) * slot.strides[i] : 0;
        if (end > r->va_bytes)
            return GR_STATUS_SLOTS;
    }
    return GR_STATUS_OK;
}

uint32_t gr_slot_count(const struct gr_replayer *r)
{
    return r->state == GR_STATE_LOADED ? r->slot_count : 0;
}

bool gr_slot_info(const struct gr_replayer *r, uint32_t index, struct gr_slot_info *info)
{
    struct gr_slot slot;
    if (index >= gr_slot_count(r) || !load_slot(r, index, &slot))
        return false;
    memcpy(info->name, slot.name, sizeof info->name);
    memcpy(info->dims, slot.dims, sizeof info->dims);
    info->kind = slot.kind;
    info->dtype = slot.dtype;
    info->rank = slot.rank;
    info->bound = slot.flags & GR_SLOT_FLAG_BOUND;
    info->bytes = dense_bytes(&slot);
    return true;
}

enum gr_status gr_bind(struct gr_replayer *r, uint32_t index, void *data, uint64_t bytes)
{
    struct gr_slot slot;
    if (index >= gr_slot_count(r) || !load_slot(r, index, &slot))
        return r->state == GR_STATE_LOADED ? GR_STATUS_ARGUMENT : GR_STATUS_STATE;
    const uintptr_t at = (uintptr_t)data, carveout = (uintptr_t)r->memory.base;
    const bool apart = at + bytes >= at && (at >= carveout + r->memory.bytes || at + bytes <= carveout);
    if (data ? bytes != dense_bytes(&slot) || !apart : bytes != 0)
        return GR_STATUS_ARGUMENT;
    r->bound[index] = data;
    return GR_STATUS_OK;
}

bool gr_needs_data(const struct gr_replayer *r, uint32_t index)
{
    struct gr_slot slot;
    return !load_slot(r, index, &slot) ||
           (slot.kind != GR_SLOT_KIND_OUTPUT && !(slot.flags & GR_SLOT_FLAG_BOUND));
}

/* Copy a run of bytes at a GPU virtual address, page by page. */
static enum gr_status copy_run(const struct gr_replayer *r, uint64_t va, uint8_t *data, uint64_t bytes,
                               bool to_gpu)
{
    while (bytes) {
        const uint64_t in_page = GR_PAGE_BYTES - va % GR_PAGE_BYTES;
        const uint64_t n = bytes < in_page ? bytes : in_page;
        const uint64_t place = gr_driver_translate(r, va);
        if (place < r->image_bytes || place >= r->carveout_bytes)
            return GR_STATUS_RANGE;
        uint8_t *gpu = r->memory.base + place;
        memcpy(to_gpu ? gpu : data, to_gpu ? data : gpu, (size_t)n);
        va += n;
        data += n;
        bytes -= n;
    }
    return GR_STATUS_OK;
}

enum gr_status gr_copy_slot(struct gr_replayer *r, uint32_t index, bool to_gpu)
{
    struct gr_slot slot;
    uint8_t *data = r->bound[index];
    if (!load_slot(r, index, &slot) || to_gpu == (slot.kind == GR_SLOT_KIND_OUTPUT))
        return GR_STATUS_ACTION;
    if (!data)
        return GR_STATUS_OK;
    /* The innermost dimensions that lie densely are one run; the others are counted through. */
    uint64_t run = gr_dtype_bytes(slot.dtype);
    uint32_t outer = slot.rank;
    for (; outer && slot.strides[outer - 1] == run; outer--)
        run *= slot.dims[outer - 1];
    uint32_t count[GR_MAX_RANK] = {0};
    uint64_t va = slot.address;
    for (uint64_t left = dense_bytes(&slot); left; left -= run, data += run) {
        const enum gr_status status = copy_run(r, va, data, run, to_gpu);
        if (status != GR_STATUS_OK)
            return status;
        for (uint32_t i = outer; i--;) {
            va += slot.strides[i];
            if (++count[i] < slot.dims[i])
                break;
            va -= (uint64_t)slot.dims[i] * slot.strides[i];
            count[i] = 0;
        }
    }
    return GR_STATUS_OK;
}
