# SPDX-License-Identifier: BSD-2-Clause
"""Page tables that the interpreter builds for the virtual GPU: what it needs from each family."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from host_tools.vgpu.binding import VirtualGpu
from trace_format.errors import GramophoneError
from trace_format.profile import Profile
from trace_format.trace import Trace

TABLE_BYTES = 16 << 20  # after the carve-out: a flat table of 4 GiB, or as many tables of 4 KiB


class DivergenceError(GramophoneError):
    """The virtual GPU did not do what the trace says."""


class PageTables(Protocol):
    """What the interpreter needs from a format. Pages are virtual page numbers, frames those of the carve-out."""

    def __init__(self, gpu: VirtualGpu, profile: Profile, memory: NDArray[np.uint8], at: int) -> None:
        """Build in `memory` from offset `at`; physical addresses are offsets."""

    def map(self, space: int, page: int, frame: int, count: int, flags: int) -> None:
        """Map `count` pages with MAP_* flags."""

    def unmap(self, space: int, page: int, count: int) -> None:
        """Remove `count` pages."""

    def set(self, space: int) -> None:
        """Point the GPU's address space at its table."""

    def mapped(self) -> dict[tuple[int, int], int]:
        """Carve-out offset of every mapped page, by (address space, virtual page)."""

    @staticmethod
    def device_bytes(trace: Trace) -> int:
        """Memory that the device's driver takes after the trace's own, in bytes (its gr_driver_bytes)."""

    def translate(self, space: int, va: int) -> int:
        """Offset in the carve-out of a virtual address; DivergenceError when it is not mapped."""
