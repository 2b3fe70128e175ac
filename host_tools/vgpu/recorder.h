/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The recorder in the device: writes everything that passes between a GPU and its driver to a capture file.
 *
 * docs/FORMAT-CAPTURE.md describes the file, gramophone_capture.h its structures: a stream of records in the
 * order of events.
 *
 * A GPU page is a GPU address >> 12. Records 7 to 12 stand before the "job start" that finds memory so. A
 * newly mapped (or remapped) page is followed by its whole content; a page that stays mapped only by what the
 * CPU changed since the last job, for the recorder keeps a copy and refreshes it with what the GPU wrote. Of
 * a GPU with several address spaces it is the job's. A file that does not finish with "end" was cut off.
 */
#ifndef GRAMOPHONE_RECORDER_H
#define GRAMOPHONE_RECORDER_H

#include "vgpu.h"

struct recorder;

/* Start recording `gpu` into path (through path.part, renamed by recorder_close). now: the virtual time in
 * ns. The recorder takes the place of the GPU's observer. NULL: *error is set (static text). */
struct recorder *recorder_open(const char *path, const char *gpu_name, vgpu *gpu,
                               const struct vgpu_host *host, uint64_t (*now)(void *ctx), void *ctx,
                               const char **error);

/* Write the end record and finish the file. False: something failed, *error says what (static text), and
 * there is no file. Frees the recorder. */
bool recorder_close(struct recorder *recorder, const char **error);

#endif
