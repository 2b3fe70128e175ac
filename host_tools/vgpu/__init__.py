# SPDX-License-Identifier: BSD-2-Clause
"""Virtual GPUs: a C library (vgpu.h) with what all families share, among it the recorder and the access map, its
Python binding, and its plugin for QEMU.

Not in here: registers, jobs and shaders of a family (`gpus/FAMILY/vgpu`), and reading a capture as a trace
(`record`).

Read first: vgpu.h
"""

from host_tools.vgpu.binding import ACCESS_READ, ACCESS_READ_FIRST, ACCESS_WRITTEN, Counters, VgpuError, VirtualGpu
from host_tools.vgpu.build import BuildError, library, qemu_plugin

__all__ = [
    "ACCESS_READ",
    "ACCESS_READ_FIRST",
    "ACCESS_WRITTEN",
    "BuildError",
    "Counters",
    "VgpuError",
    "VirtualGpu",
    "library",
    "qemu_plugin",
]
