# SPDX-License-Identifier: BSD-2-Clause
"""Runs in the recording guest: says that the machine is ready, then writes the job's archive to standard output.

Usage: receive_job.py ADDRESS of the device plugin's window (vgpu/qemu/job_window.h).

The machine stops at the write to the first register; every run of the saved state goes on after it.
Only mmap reaches the window: Linux refuses to read() what is no RAM from /dev/mem.
"""

import mmap
import os
import sys

PAGE = 4096
READY, BYTES = 0, 1  # registers, in words
PIECE = 1 << 20


def main() -> int:
    """Exit status."""
    window = int(sys.argv[1], 0)
    memory = os.open("/dev/mem", os.O_RDWR)
    with mmap.mmap(memory, PAGE, offset=window) as page, memoryview(page) as view, view.cast("I") as registers:
        registers[READY] = 1
        size = registers[BYTES]
    if not size:
        print("the machine has no job for it", file=sys.stderr)
        return 1
    archive = mmap.mmap(memory, size, prot=mmap.PROT_READ, offset=window + PAGE)
    with archive, memoryview(archive) as data:
        at = 0
        try:
            while at < size:
                at += os.write(sys.stdout.fileno(), data[at : at + PIECE])
        except BrokenPipeError:
            return 1  # who unpacks says why
    return 0


if __name__ == "__main__":
    sys.exit(main())
