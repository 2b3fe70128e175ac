/* SPDX-License-Identifier: BSD-2-Clause */
/* The versions of the V3D that there are models of: technology version and revision, as Linux 6.12
 * drivers/gpu/drm/v3d/v3d_drv.c makes one number of them. */
#ifndef GRAMOPHONE_V3D_VERSION_H
#define GRAMOPHONE_V3D_VERSION_H

enum v3d_version { V3D_42 = 42, V3D_71 = 71 };

#endif
