/* SPDX-License-Identifier: BSD-2-Clause */
/* What OP-TEE's TA development kit requires of a TA. Each session has its own instance. */
#ifndef USER_TA_HEADER_DEFINES_H
#define USER_TA_HEADER_DEFINES_H

#include "gramophone_ta.h"

#define TA_UUID GRAMOPHONE_TA_UUID
#define TA_FLAGS 0
#define TA_STACK_SIZE (8 * 1024)
#define TA_DATA_SIZE (16 * 1024)
#define TA_VERSION "1.0"
#define TA_DESCRIPTION "Replays signed GPU recordings for applications"

#endif
