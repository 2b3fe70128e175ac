/* SPDX-License-Identifier: BSD-2-Clause */
/* The register map of a Mali-G610: from the header that is generated from trace_format/gpus/mali_g610.toml.
 */
#include "mali_csf.h"

static const struct vgpu_register rows[] = {MALI_G610_REGISTER_ROWS};

const struct mali_chip mali_g610_chip = {.name = "mali_g610",
                                         .registers = rows,
                                         .register_count = sizeof(rows) / sizeof(rows[0]),
                                         .warp = 16,
                                         .workgroup = 1024,
                                         .has_streams = true};
