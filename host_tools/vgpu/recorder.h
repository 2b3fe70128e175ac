/*
 * The recorder in the device: writes everything that passes between a GPU and its driver to a capture file.
 *
 * A capture is a stream of little-endian records, written in the order of events. It begins with the 8 bytes
 * "GRAMCAP1", a u32 with the bytes of the register window, a u32 with the number of interrupt lines, and the
 * name of the GPU (its profile's, with a variant behind a dash) in 16 bytes, padded with zeros. Then records,
 * each of 16 bytes with data behind some:
 *
 *   u32 kind, u32 delta, u32 a, u32 b      delta: virtual nanoseconds since the record before
 *
 *   kind            a, b                   data, meaning
 *    1 read         window offset, value
 *    2 write        window offset, value
 *    3 interrupt    line, level            level 0 or 1
 *    4 job start    job kind, ordinal      kind 0 compute, 1 bin list, 2 render list; ordinal from 1
 *    5 job end      job kind, ordinal      the job touches memory no more (it may have failed)
 *    6 idle         ns low, ns high        time that does not fit the delta of the record that follows
 *    7 map          GPU page, pages        u64 physical address, u32 flags, u32 0
 *    8 unmap        GPU page, pages
 *    9 zero pages   GPU page, pages        content: all zero
 *   10 new page     GPU page, content id   4096 bytes; ids count up from 0
 *   11 known page   GPU page, content id   content: that of an earlier "new page" record
 *   12 bytes        GPU address, length    what the CPU changed in a page, padded to 16 bytes
 *   13 end          flags, 0               u64 records before this one, the ten u64 of struct
 *                                          vgpu_counters, u64 0; flags bit 0: the GPU had failed
 *
 * Flags of a mapping: 1 readable, 2 writable, 16 executable.
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
