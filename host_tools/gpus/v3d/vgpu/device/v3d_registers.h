/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registers of the V3D 4.2 of a BCM2711, generated from trace_format/gpus/v3d42.toml, which names the sources
 * (Linux 6.1 drivers/gpu/drm/v3d/v3d_regs.h; drivers/soc/bcm/bcm2835-power.c for the power blocks). Only what
 * the Linux driver uses is there: anything else is an access that nobody can have recorded.
 *
 * Other versions have profiles of their own. What has a name here and is used is at the same place in all of
 * them; what is not is in struct v3d_chip.
 */
#ifndef GRAMOPHONE_V3D_REGISTERS_H
#define GRAMOPHONE_V3D_REGISTERS_H

#include "v3d_chip.h"
#include "v3d_register_map.h"

#define MMU_VIOLATIONS (HUB_MMU_CTL_CAP_EXCEEDED | HUB_MMU_CTL_PT_INVALID | HUB_MMU_CTL_WRITE_VIOLATION)
#define PM_PASSWORD 0x5a000000u
enum { L2T_FLUSH = 0, L2T_CLEAR = 1, L2T_CLEAN = 2 }; /* CORE_CTL_L2TCACTL_FLM */

#endif
