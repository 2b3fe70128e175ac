# SPDX-License-Identifier: BSD-2-Clause
"""Page tables of a Mali: trees in AArch64 format."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from host_tools.families.page_tables import TABLE_BYTES, DivergenceError
from host_tools.vgpu.binding import VirtualGpu
from trace_format.actions import MAP_EXECUTE, MAP_WRITE, Columns, Op
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace


class MaliTables:
    """Four levels of 512 entries of 64 bits in AArch64 format, a tree for each address space."""

    ENTRIES, LEVELS = 512, 4
    TABLE, PAGE, ACCESS_FLAG, INNER_SHAREABLE = 3, 3, 1 << 10, 3 << 8
    READ_WRITE, READ_ONLY, NO_EXECUTE = 1 << 6, 3 << 6, 1 << 54
    ADDRESS = (1 << 48) - PAGE_BYTES

    def __init__(self, gpu: VirtualGpu, profile: Profile, memory: NDArray[np.uint8], at: int) -> None:
        self.gpu = gpu
        self.profile = profile
        self.at = at
        self.pool = memory[at : at + TABLE_BYTES].view("<u8").reshape(-1, self.ENTRIES)
        self.used = 0
        self.roots: dict[int, int] = {}

    def fresh(self) -> int:
        """A page of the pool that nothing else uses, by its number there.

        Raises:
            DivergenceError: there is none.
        """
        if self.used == len(self.pool):
            raise DivergenceError(f"the page tables need more than {TABLE_BYTES} bytes")
        self.used += 1
        return self.used - 1

    def _leaves(self, space: int, page: int, create: bool) -> NDArray[np.uint64] | None:
        """The last-level table for a page; None where there is none."""
        if space not in self.roots:
            if not create:
                return None
            self.roots[space] = self.fresh()
        table = self.roots[space]
        for level in range(self.LEVELS - 1):
            index = page >> 9 * (self.LEVELS - 1 - level) & (self.ENTRIES - 1)
            entry = int(self.pool[table, index])
            if not entry:
                if not create:
                    return None
                entry = self.at + self.fresh() * PAGE_BYTES | self.TABLE
                self.pool[table, index] = entry
            table = ((entry & self.ADDRESS) - self.at) // PAGE_BYTES
        leaves: NDArray[np.uint64] = self.pool[table]
        return leaves

    def _pieces(self, page: int, count: int) -> Iterator[tuple[int, int]]:
        """First page and number of pages in each last-level table."""
        while count:
            here = min(count, self.ENTRIES - page % self.ENTRIES)
            yield page, here
            page, count = page + here, count - here

    def map(self, space: int, page: int, frame: int, count: int, flags: int) -> None:
        """Map `count` pages."""
        entry = self.PAGE | self.ACCESS_FLAG | self.INNER_SHAREABLE
        entry |= self.READ_WRITE if flags & MAP_WRITE else self.READ_ONLY
        entry |= 0 if flags & MAP_EXECUTE else self.NO_EXECUTE
        for first, here in self._pieces(page, count):
            leaves = self._leaves(space, first, True)
            assert leaves is not None
            frames = np.arange(frame + first - page, frame + first - page + here, dtype=np.uint64)
            at = first % self.ENTRIES
            leaves[at : at + here] = frames * np.uint64(PAGE_BYTES) | np.uint64(entry)

    def unmap(self, space: int, page: int, count: int) -> None:
        """Remove `count` pages."""
        for first, here in self._pieces(page, count):
            leaves = self._leaves(space, first, False)
            if leaves is not None:
                leaves[first % self.ENTRIES : first % self.ENTRIES + here] = 0

    def hardware(self, space: int) -> int:
        """The GPU's number of an address space of traces."""
        return space

    def set(self, space: int) -> None:
        """Point the GPU's address space at its table; an update command of the trace makes it take effect."""
        if space not in self.roots:
            self.roots[space] = self.fresh()
        mmu = self.profile.mmu
        values = {
            "TRANSCFG": mmu["config"],
            "TRANSTAB": self.at + self.roots[space] * PAGE_BYTES,
            "MEMATTR": mmu["attributes"],
        }
        for name, value in values.items():
            for half, shift in (("LO", 0), ("HI", 32)):
                register = self.profile.register(f"as{self.hardware(space)}.{name}_{half}")
                self.gpu.write32(register.offset, value >> shift & 0xFFFFFFFF)

    def mapped(self) -> dict[tuple[int, int], int]:
        """Carve-out offset of every mapped page, by (address space, virtual page)."""
        found: dict[tuple[int, int], int] = {}

        def visit(space: int, table: int, level: int, base: int) -> None:
            for index in np.flatnonzero(self.pool[table]):
                entry = int(self.pool[table, index]) & self.ADDRESS
                page = base << 9 | int(index)
                if level == self.LEVELS - 1:
                    found[space, page] = entry
                else:
                    visit(space, (entry - self.at) // PAGE_BYTES, level + 1, page)

        for space, root in sorted(self.roots.items()):
            visit(space, root, 0, 0)
        return found

    @classmethod
    def device_bytes(cls, trace: Trace) -> int:
        """A root for each address space, and below it a table for each block that a mapping begins or enters."""
        columns, tables, before = Columns(trace.actions), trace.profile.address_spaces, -1
        which = columns.is_op(Op.MAP_GPU_MEM, Op.UNMAP_GPU_MEM)
        spaces, pages, counts = columns.address_space, columns.va_page, columns.pages
        for space, page, count in zip(spaces[which], pages[which], counts[which], strict=True):
            first = int(space) << 9 * cls.LEVELS | int(page)
            last = first + int(count) - 1
            for shift in range(9, 9 * cls.LEVELS, 9):
                tables += (last >> shift) - (first >> shift) + (first >> shift != before >> shift)
            before = last
        return int(tables) * PAGE_BYTES

    def translate(self, space: int, va: int) -> int:
        """Offset in the carve-out of a virtual address; DivergenceError when it is not mapped."""
        page = va // PAGE_BYTES
        leaves = self._leaves(space, page, False)
        entry = 0 if leaves is None else int(leaves[page % self.ENTRIES])
        if not entry:
            raise DivergenceError(f"GPU address {va:#x} is not mapped")
        return entry & self.ADDRESS | va % PAGE_BYTES
