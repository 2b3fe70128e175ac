/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The plugin's window= and archive=: how the recording guest says that it is ready, and gets its job.
 *
 * At the window's address is a page with two registers of 32 bits:
 *
 *   0  ready  written 1: the machine stops here if it has no archive, so that its state can be saved;
 *             else it goes on
 *   4  bytes  read: bytes of the archive, which is memory from the next page on; 0: there is none
 *
 * Neither is part of a saved state: a machine that goes on from one has what its own plugin is given.
 */
#ifndef GRAMOPHONE_QEMU_JOB_WINDOW_H
#define GRAMOPHONE_QEMU_JOB_WINDOW_H

#include <stdint.h>

/* Most bytes of an archive, which is the host's check, too (host_tools/machine/boot.py). */
#define JOB_WINDOW_MAX_BYTES (UINT64_C(1) << 30)

/*
 * Add the window to the machine.
 *
 * archive   path of a file, or NULL
 * ram       the guest's RAM; what it holds is no part of a saved state, but a file that stays
 * accesses  counts those of the GPU: what it is in is no part of a state either, so that QEMU ends when a
 * machine that was to be saved has touched it
 *
 * Returns NULL, or what is wrong.
 */
const char *job_window_add(uint64_t address, const char *archive, void *ram, const uint64_t *accesses);

#endif
