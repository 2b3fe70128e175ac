/* SPDX-License-Identifier: BSD-2-Clause */
/* What of a loaded trace is the selected network's; of a trace of one network, all of it. */
#ifndef GRAMOPHONE_OWN_H
#define GRAMOPHONE_OWN_H

#include "internal.h"

#ifdef GRAMOPHONE_NETWORKS
#define GR_REPLAY_START(r) (GR_NETWORK(r)->replay_start)
#define GR_FIRST_SLOT(r) (GR_NETWORK(r)->first_slot)
#define GR_END_SLOT(r) (GR_NETWORK(r)->end_slot)
#define GR_WORK_AT(r) (GR_NETWORK(r)->work_at)
#define GR_WORK_END(r) (GR_NETWORK(r)->work_end)
#define GR_RETRIES(r) (GR_NETWORK(r)->retry_limit)
#define GR_BUDGET_US(r) (GR_NETWORK(r)->time_budget_us)
#define GR_IS_OWN_SLOT(r, slot) ((slot)-GR_FIRST_SLOT(r) < GR_END_SLOT(r) - GR_FIRST_SLOT(r))
#else
#define GR_REPLAY_START(r) ((r)->replay_start)
#define GR_FIRST_SLOT(r) 0
#define GR_END_SLOT(r) ((r)->slot_count)
#define GR_WORK_AT(r) ((r)->image_end)
#define GR_WORK_END(r) ((r)->carveout_bytes)
#define GR_RETRIES(r) ((r)->retry_limit)
#define GR_BUDGET_US(r) ((r)->time_budget_us)
#define GR_IS_OWN_SLOT(r, slot) ((slot) < (r)->slot_count)
#endif

#endif
