/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots: the caller's dense data, in C order, to and from strided places in GPU memory. Where these lie is
 * checked page by page when they are copied; gr_load checks the rest. */
#include "driver.h"
#include "gr_target.h"
#include "internal.h"

static const uint8_t *slot_at(const struct gr_replayer *r, uint32_t index)
{
    return gr_aligned(r->slots + (size_t)index * GR_SLOT_BYTES);
}

GR_INLINE uint32_t dimension(const uint8_t *slot, uint32_t i)
{
    return gr_load32(slot + GR_SLOT_AT_DIMS + 4 * i);
}

GR_INLINE uint32_t address_space(const uint8_t *slot)
{
    return gr_load16(slot + GR_SLOT_AT_ADDRESS_SPACE);
}

GR_INLINE uint32_t stride(const uint8_t *slot, uint32_t i)
{
    return gr_load32(slot + GR_SLOT_AT_STRIDES + 4 * i);
}

/* Whether a caller gives a slot's data: it is an input or a parameter. */
GR_INLINE bool is_given(const uint8_t *slot)
{
    return slot[GR_SLOT_AT_KIND] & 1;
}
_Static_assert(GR_SLOT_KIND_INPUT &GR_SLOT_KIND_PARAMETER & ~(GR_SLOT_KIND_OUTPUT | GR_SLOT_KIND_INTERNAL) &
                   1,
               "the lowest bit tells them from the other kinds");

/* Whether there is a name, with nothing after its end, that no earlier slot has. */
static bool is_named(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *name = gr_aligned(slot_at(r, index) + GR_SLOT_AT_NAME);
    for (uint32_t i = 1; i < GR_SLOT_AT_KIND; i++) {
        if (name[i] && !name[i - 1])
            return false;
    }
    for (uint32_t i = 0; i < index; i++) {
        const uint8_t *other = gr_aligned(slot_at(r, i) + GR_SLOT_AT_NAME);
        uint64_t difference = 0;
        for (uint32_t k = 0; k < GR_SLOT_AT_KIND; k += 8)
            difference |= gr_load64(name + k) ^ gr_load64(other + k);
        if (!difference)
            return false;
    }
    return name[0];
}

bool gr_slot_is_valid(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *slot = slot_at(r, index);
    /* A power of two, if not 0. */
    const uint32_t element = gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]), rank = slot[GR_SLOT_AT_RANK],
                   kind = slot[GR_SLOT_AT_KIND];
    const uint64_t address = gr_load64(slot + GR_SLOT_AT_ADDRESS);
    if (!element || rank - 1 >= GR_MAX_RANK ||
        kind - GR_SLOT_KIND_INPUT > GR_SLOT_KIND_INTERNAL - GR_SLOT_KIND_INPUT ||
        slot[GR_SLOT_AT_FLAGS] & ~GR_SLOT_FLAG_BOUND || address_space(slot) >= GR_ADDRESS_SPACES ||
        address & (element - 1) || address > r->va_bytes || gr_load16(slot + GR_SLOT_AT_RESERVED) ||
        !is_named(r, index))
        return false;
    if (!gr_is_zero(slot + GR_SLOT_AT_RESERVED2, GR_SLOT_BYTES - GR_SLOT_AT_RESERVED2))
        return false;
    uint64_t bytes = element, end = address + element;
    for (uint32_t i = 0; i < GR_MAX_RANK; i++) {
        const uint64_t count = dimension(slot, i), step = stride(slot, i);
        if (i >= rank) {
            if (count | step)
                return false;
            continue;
        }
        const uint64_t reach = (count - 1) * step; /* of 32 bits each, unless the count is zero */
        if (!count || step < element || step & (element - 1) || reach > r->va_bytes)
            return false;
        bytes *= count;
        end += reach;
        if (bytes > GR_MAX_SLOT_BYTES)
            return false;
    }
    return end <= r->va_bytes;
}

uint64_t gr_slot_bytes(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *slot = slot_at(r, index);
    uint64_t bytes = gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]);
    for (uint32_t i = 0; i < slot[GR_SLOT_AT_RANK]; i++)
        bytes *= dimension(slot, i);
    return bytes;
}

uint32_t gr_slot_count(const struct gr_replayer *r)
{
    return r->state == GR_STATE_LOADED ? r->slot_count : 0;
}

bool gr_slot_info(const struct gr_replayer *r, uint32_t index, struct gr_slot_info *info)
{
    if (index >= gr_slot_count(r))
        return false;
    const uint8_t *slot = slot_at(r, index);
    memcpy(info->name, slot + GR_SLOT_AT_NAME, sizeof info->name - 1);
    info->name[sizeof info->name - 1] = 0;
    for (uint32_t i = 0; i < GR_MAX_RANK; i++)
        info->dims[i] = dimension(slot, i);
    info->kind = slot[GR_SLOT_AT_KIND];
    info->dtype = slot[GR_SLOT_AT_DTYPE];
    info->rank = slot[GR_SLOT_AT_RANK];
    info->bound = slot[GR_SLOT_AT_FLAGS] & GR_SLOT_FLAG_BOUND;
    info->bytes = gr_slot_bytes(r, index);
    return true;
}

enum gr_status gr_bind(struct gr_replayer *r, uint32_t index, void *data, uint64_t bytes)
{
    if (r->state != GR_STATE_LOADED)
        return GR_STATUS_STATE;
    if (index >= r->slot_count || bytes != (data ? gr_slot_bytes(r, index) : 0))
        return GR_STATUS_ARGUMENT;
    if (GR_IS_BEGUN(gr_progress_of(r, index)))
        return GR_STATUS_STATE; /* what is bound is a replay's until it ends */
    r->bound[index] = data;
    if (slot_at(r, index)[GR_SLOT_AT_KIND] == GR_SLOT_KIND_PARAMETER)
        gr_progress_of(r, index)->started = false;
    return GR_STATUS_OK;
}

bool gr_lacks_data(const struct gr_replayer *r, uint32_t index)
{
    const uint8_t *slot = slot_at(r, index);
    return !r->bound[index] && is_given(slot) && !slot[GR_SLOT_AT_FLAGS];
}

/* Copy a run of bytes at a GPU virtual address, page by page. */
static enum gr_status copy_run(const struct gr_replayer *r, uint32_t space, uint64_t va, uint8_t *data,
                               uint64_t bytes, bool to_gpu)
{
    while (bytes) {
        const uint64_t in_page = GR_PAGE_BYTES - va % GR_PAGE_BYTES;
        const uint64_t n = bytes < in_page ? bytes : in_page;
        const uint64_t place = gr_driver_translate(r, space, va);
        if (place < GR_WORK_AT(r) || place >= GR_WORK_END(r))
            return GR_STATUS_RANGE;
        uint8_t *from = data, *to = r->memory.base + place;
        if (!to_gpu) {
            from = to;
            to = data;
        }
        memcpy(to, from, (size_t)n);
        GR_TELL_COPY(r, gr_log_bytes(r->log, r->memory.base + place, n, to_gpu));
        va += n;
        data += n;
        bytes -= n;
    }
    return GR_STATUS_OK;
}

enum gr_status gr_copy_slot(struct gr_replayer *r, uint32_t index, bool to_gpu)
{
    const uint8_t *slot = slot_at(r, index);
    uint8_t *data = r->bound[index];
    if (to_gpu != is_given(slot) || slot[GR_SLOT_AT_KIND] == GR_SLOT_KIND_INTERNAL)
        return GR_STATUS_ACTION;
    /* The innermost dimensions that lie densely are one run; the other indices follow from the
     * number of the run. */
    uint64_t run = gr_dtype_bytes(slot[GR_SLOT_AT_DTYPE]);
    uint32_t outer = slot[GR_SLOT_AT_RANK];
    for (; outer && stride(slot, outer - 1) == run; outer--)
        run *= dimension(slot, outer - 1);
    if (data)
        GR_TELL_COPY(r, gr_log_slot(r->log, index, gr_slot_bytes(r, index), to_gpu));
    for (uint64_t i = 0, runs = data ? gr_slot_bytes(r, index) / run : 0; i < runs; i++) {
        uint64_t va = gr_load64(slot + GR_SLOT_AT_ADDRESS), left = i;
        for (uint32_t k = outer; k--; left /= dimension(slot, k))
            va += left % dimension(slot, k) * stride(slot, k);
        const enum gr_status status = copy_run(r, address_space(slot), va, data, run, to_gpu);
        if (status != GR_STATUS_OK)
            return status;
        data += run;
    }
    return GR_STATUS_OK;
}
