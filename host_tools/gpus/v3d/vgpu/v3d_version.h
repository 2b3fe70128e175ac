/* SPDX-License-Identifier: BSD-2-Clause */
/* The versions of the V3D that there are models of: technology version and revision, as Linux 6.12
 * drivers/gpu/drm/v3d/v3d_drv.c makes one number of them; and what differs between them in dispatches, lists
 * and code. Its encodings: v3d_qpu_fields.h. Registers: v3d_chip.h. */
#ifndef GRAMOPHONE_V3D_VERSION_H
#define GRAMOPHONE_V3D_VERSION_H

#include <stdbool.h>
#include <stdint.h>

enum v3d_version { V3D_42 = 42, V3D_71 = 71 };

struct v3d_traits {
    /* QPUs of four threads: 8, or 16 (slices and QPUs that CTL_IDENT1 has in the profiles). */
    uint8_t hardware_threads;
    uint8_t payload_register; /* in which a thread starts with workgroup x and y (Mesa, nir_to_vir.c) */
    bool has_accumulators;    /* r0 to r5, and functions at magic addresses; without them: quad and rep */
    bool has_nan_flag;        /* a dispatch says whether NaNs are propagated */
    bool vectors_wrap;        /* those of the TMU, within 16 bytes */
    /* A dispatch says how many batches less one there are, and exactly so many run, whatever the workgroups
     * fill. Else it says how many, and they are those that the workgroups fill. */
    bool has_free_batches;
    bool has_thread_order; /* it is known in which order threads get their numbers */
    /* What people write by hand is known, not only what Mesa's compiler emits
     * (docs/adr/0033-hand-written-programs.md). */
    bool is_known_by_hand;
    /* Packets of lists: the one that clears says what; a render target's configuration is one packet, with
     * its clear colour. */
    bool clear_has_payload, has_target_packet;
};

static inline const struct v3d_traits *v3d_traits(enum v3d_version version)
{
    static const struct v3d_traits v3d42 = {
        .hardware_threads = 32,
        .payload_register = 0,
        .has_accumulators = true,
        .has_nan_flag = true,
        .vectors_wrap = true,
        .has_free_batches = true,
        .has_thread_order = true,
        .is_known_by_hand = true,
        .clear_has_payload = true,
    };
    static const struct v3d_traits v3d71 = {
        .hardware_threads = 64,
        .payload_register = 3,
        .has_target_packet = true,
    };

    return version == V3D_71 ? &v3d71 : &v3d42;
}

#endif
