# SPDX-License-Identifier: BSD-2-Clause
"""Page tables of the V3D: one flat table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from host_tools.families.page_tables import DivergenceError
from host_tools.vgpu.binding import VirtualGpu
from trace_format.actions import MAP_WRITE
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

MIB = 1 << 20
CAP_MAX_MIB = 0xFFF  # of hub.MMU_ADDR_CAP; a table with a cap has one more megabyte


class V3dTables:
    """Page tables of the V3D: one u32 a page (frame 23:0, valid 28, writable 29), one address space."""

    VALID, WRITABLE = 1 << 28, 1 << 29

    def __init__(self, gpu: VirtualGpu, profile: Profile, memory: NDArray[np.uint8], at: int) -> None:
        self.gpu = gpu
        self.profile = profile
        self.at = at
        self.bytes = (1 << 32) // PAGE_BYTES * 4
        self.table = memory[at : at + self.bytes].view("<u4")

    def map(self, space: int, page: int, frame: int, count: int, flags: int) -> None:
        """Map `count` pages."""
        entry = self.VALID | (self.WRITABLE if flags & MAP_WRITE else 0)
        self.table[page : page + count] = np.arange(frame, frame + count, dtype=np.uint32) | np.uint32(entry)

    def unmap(self, space: int, page: int, count: int) -> None:
        """Remove `count` pages."""
        self.table[page : page + count] = 0

    def set(self, space: int) -> None:
        """Point the GPU at the table."""
        self.gpu.write32(self.profile.register("hub.MMU_PT_PA_BASE").offset, self.at >> 12)
        scratch = (self.at + self.bytes) >> 12
        self.gpu.write32(self.profile.register("hub.MMU_ILLEGAL_ADDR").offset, scratch | 1 << 31)

    def mapped(self) -> dict[tuple[int, int], int]:
        """Carve-out offset of every mapped page, by (address space, virtual page)."""
        pages = np.flatnonzero(self.table & self.VALID)
        return {(0, int(page)): int(self.table[page] & 0xFFFFFF) << 12 for page in pages}

    @staticmethod
    def device_bytes(trace: Trace) -> int:
        """A table as short as the address space is, and a scratch page (docs/adr/0007-short-page-table.md)."""
        mib = -(-trace.va_bytes // MIB)
        entries = (mib if mib > CAP_MAX_MIB else mib + 1) * (MIB // PAGE_BYTES)
        return -(-entries * 4 // PAGE_BYTES) * PAGE_BYTES + PAGE_BYTES

    def translate(self, space: int, va: int) -> int:
        """Offset in the carve-out of a virtual address; DivergenceError when it is not mapped."""
        entry = int(self.table[va >> 12])
        if not entry & self.VALID:
            raise DivergenceError(f"GPU address {va:#x} is not mapped")
        return (entry & 0xFFFFFF) << 12 | va & 0xFFF
