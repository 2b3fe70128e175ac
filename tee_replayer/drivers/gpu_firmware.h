/* SPDX-License-Identifier: BSD-2-Clause */
/* A file of firmware that the GPU's microcontroller runs. Neither it nor what it says of itself is ours: the
 * generator makes gpu_firmware.c of the file that the device's owner names. */
#ifndef GRAMOPHONE_GPU_FIRMWARE_H
#define GRAMOPHONE_GPU_FIRMWARE_H

#include <stdint.h>

/* A part of it: where the microcontroller has it, in bytes, from where in the file; the rest is zero. */
struct gr_gpu_section {
    uint32_t va, bytes, at, from_file;
    uint32_t flags; /* GR_MAP_GPU_MEM_* */
};

struct gr_gpu_firmware {
    const uint8_t *file;
    uint32_t bytes;
    uint8_t sha256[32];
    uint32_t sections; /* their number */
    const struct gr_gpu_section *section;
    /* Pages of all sections before the one that is shared with the driver; where inputs and outputs lie in
     * that. */
    uint32_t shared_page;
    uint32_t global_input, global_output, group_input, group_output, stream_input, stream_output;
    uint32_t pages; /* of all sections */
};

extern const struct gr_gpu_firmware gr_gpu_firmware;

#endif
