/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Arguments of the QEMU plugin, for example
 *
 *   gpu=v3d42,base=0xb000000,irq=100,capture=run.cap,stats=run.json
 *   gpu=v3d42,base=0xb000000,irq=100,secure=on,carveout=0x60000000:0x4000000,stats=run.json
 *   gpu=v3d42,base=0xb000000,irq=100,secure=on,carveout=0x60000000:0x4000000,firewall=0xb020000
 *
 *   gpu=NAME            virtual GPU: name of a profile, with a variant after a dash
 *   base=ADDR           physical address of the register window, up to the first piece in map=
 *   map=O:S:A[+O:S:A]   pieces of the register window that are elsewhere: offset, size, address
 *   irq=N               shared peripheral interrupt of line 0; line i is N + i
 *   latency=NS          virtual time from job start to completion, and of busy bits (default 0)
 *   threads=N           worker threads (default: one a host core)
 *   ram=ADDR            where guest RAM starts (default 0x40000000, as on "virt")
 *   secure=on           the device answers the secure world only, and reaches the carve-out only
 *   carveout=ADDR:SIZE  secure RAM to add; an access of the normal world aborts, even over its own RAM
 *   firewall=ADDR       the GPU starts in the normal world, and reaches guest RAM. The word at ADDR, which
 *                       only the secure world reaches, says which world owns it: 1 gives it to the secure
 *                       world (and ends a recording), 0 gives it back
 *   capture=FILE        record (recorder.h)
 *   stats=FILE          counters as JSON, at exit
 *   progress=FILE       how many jobs have ended, while it runs (progress.h)
 *   window=ADDR         where the recording guest says that it is ready and gets its job (job_window.h)
 *   archive=FILE        that job; without it the machine stops when it is ready
 *   hang=N, fault=N     test aids: compute job N never completes, or faults
 */
#ifndef GRAMOPHONE_QEMU_ARGUMENTS_H
#define GRAMOPHONE_QEMU_ARGUMENTS_H

#include "vgpu.h"

enum { MAX_PIECES = 8 };

/* Shared peripheral interrupts of "virt"; the later inputs of its controller are a CPU's own. */
enum { SPI_COUNT = 256 };

/* A piece of the register window and where the guest finds it. */
struct piece {
    uint64_t offset, size, address;
};

struct arguments {
    const char *gpu_name, *capture_path, *stats_path, *progress_path, *archive_path;
    uint64_t base, irq, ram_base, carveout_base, carveout_size, firewall, window;
    bool has_base, has_irq, secure;
    struct piece pieces[MAX_PIECES];
    unsigned piece_count; /* at most MAX_PIECES - 1: one is left for what base= puts */
    struct vgpu_options options;
};

/* False after a message on standard error. The texts are copied. */
bool arguments_parse(struct arguments *arguments, int argc, char **argv);

#endif
