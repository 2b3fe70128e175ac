# SPDX-License-Identifier: BSD-2-Clause
"""The page tables of gr_pgt, and how an address space of a job manager Mali is pointed at tables of either format.

The tables of gr_pgt are AArch64's: a tree of four levels with 512 entries of 64 bits. Sources: AArch64, from the
GPUReplay recordings of a G71; LPAE, the older one, from Linux 6.1 drivers/gpu/drm/panfrost/panfrost_regs.h
(AS_TRANSTAB_LPAE_*).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE
from trace_format.errors import TraceError
from trace_format.profile import Profile
from trace_format.schema import MAX_CARVEOUT_BYTES, PAGE_BYTES

MAX_PAGES = MAX_CARVEOUT_BYTES // PAGE_BYTES
TABLE_END = 0xFF_FFFF_FFFF
TABLE_ENTRIES = 512
TABLE_BYTES = 8 + 8 * TABLE_ENTRIES
LAST_LEVEL = 3
BLOCK, TABLE = 1, 3  # entry types; at the last level, 3 is a page; an entry without bit 0 is invalid
ACCESS = {1: MAP_READ | MAP_WRITE, 3: MAP_READ}  # bits 7:6 of an entry
ADDRESS = 0xFFFF_FFFF_F000  # of an entry: bits 47:12
NO_EXECUTE = 1 << 54
ADRMODE = 0xF  # of TRANSCFG: how an address space translates
LPAE_MODE, LPAE_TABLE = 0x3, 0x3  # of TRANSTAB, where TRANSCFG leaves it open: 0 unmapped, 2 identity, 3 table
LPAE_BITS = 0x17  # of TRANSTAB: mode 1:0, walks read inner caches 2, share outer 4


class PageTableError(TraceError):
    """gr_pgt is malformed."""


@dataclass(frozen=True)
class TableFormat:
    """How an address space is pointed at tables of one format.

    Attributes:
        title: for messages.
        mode: TRANSCFG's address mode.
        base_mode: bits 1:0 of a TRANSTAB that names a table.
        base_bits: all bits besides the address that TRANSTAB has.
    """

    title: str
    mode: int
    base_mode: int
    base_bits: int

    def is_unmapped(self, base: int, config: int) -> bool:
        """Whether TRANSTAB and TRANSCFG switch an address space off."""
        table, mode = base & ~self.base_bits, config & ADRMODE
        return not table and (mode == 1 or (mode == 0 and not base & LPAE_MODE))

    def is_set(self, base: int, config: int) -> bool:
        """Whether TRANSTAB and TRANSCFG point an address space at a table of this format."""
        return config & ADRMODE == self.mode and base & LPAE_MODE == self.base_mode

    def table(self, base: int) -> int:
        """Address of the table that TRANSTAB names."""
        return base & ~self.base_bits


AARCH64 = "mali-aarch64"
# By the name that a GPU profile has for them (mmu.format).
FORMATS = {
    AARCH64: TableFormat(
        title="mode 6 (AArch64, 4 KiB)",
        mode=6,
        base_mode=0,
        base_bits=0,
    ),
    "mali-lpae": TableFormat(
        title="mode 0 and a TRANSTAB with mode 3 (LPAE, 4 KiB)",
        mode=0,
        base_mode=LPAE_TABLE,
        base_bits=LPAE_BITS,
    ),
}


@dataclass(frozen=True)
class Run:
    """Mapped pages: `pages` of them from GPU virtual address `start`, with MAP_* `flags`."""

    start: int
    pages: int
    flags: int


@dataclass
class PageTables:
    """What gr_pgt says: the root's physical address, attributes, configuration, and the mapped pages."""

    root: int
    attributes: int
    config: int
    tables: int = 0
    runs: list[Run] = field(default_factory=list)


def read_tables(data: bytes, gpu: Profile) -> PageTables:
    """The page tables of gr_pgt.

    Raises:
        PageTableError
    """
    layout = FORMATS[AARCH64]
    if len(data) < 40:
        raise PageTableError(
            "the file ends before its end mark", offset=len(data), expected="at least 40 bytes", found=len(data)
        )
    size, root, attributes, config = struct.unpack_from("<4Q", data)
    if size != len(data):
        raise PageTableError("size of the file", offset=0, expected=size, found=len(data))
    limit = 1 << gpu.mmu["pa_bits"]
    if root == 0 or root % PAGE_BYTES or root >= limit:
        raise PageTableError(
            "address of the first table", offset=8, expected=f"a page below {limit:#x}", found=f"{root:#x}"
        )
    if config & ADRMODE != layout.mode:
        raise PageTableError("page table format", offset=24, expected=layout.title, found=f"{config:#x}")
    result = PageTables(root, attributes, config)
    end = _TableReader(data, limit, result).read(root)
    if end != len(data):
        raise PageTableError("bytes after the end mark", offset=end, expected=0, found=len(data) - end)
    return result


class _TableReader:
    """Goes through the tables in the order of the file, which must be that of the tree."""

    def __init__(self, data: bytes, limit: int, result: PageTables) -> None:
        self.data = data
        self.limit = limit
        self.result = result
        self.at = 32
        self.pages = 0
        self.seen: set[int] = set()

    def read(self, root: int) -> int:
        """Read all; returns the offset after the end mark."""
        self._table(root, 0, 0)
        mark = self._word(self.at)
        if mark != TABLE_END:
            raise PageTableError("end mark", offset=self.at, expected=f"{TABLE_END:#x}", found=f"{mark:#x}")
        return self.at + 8

    def _word(self, at: int) -> int:
        if at + 8 > len(self.data):
            raise PageTableError(
                "the file ends before its end mark", offset=at, expected=at + 8, found=len(self.data)
            )
        return int.from_bytes(self.data[at : at + 8], "little")

    def _table(self, address: int, level: int, base: int) -> None:
        at = self.at
        header = self._word(at)
        if header == TABLE_END:
            raise PageTableError(f"the table at {address:#x} (level {level}) is missing", offset=at)
        if header != address | level:
            raise PageTableError(
                "tables are not in the order of the tree: address and level",
                offset=at,
                expected=f"{address | level:#x}",
                found=f"{header:#x}",
            )
        if address in self.seen:
            raise PageTableError(f"the table at {address:#x} is used twice", offset=at)
        if at + TABLE_BYTES > len(self.data):
            raise PageTableError("a table is cut off", offset=at, expected=TABLE_BYTES, found=len(self.data) - at)
        self.seen.add(address)
        self.result.tables += 1
        self.at = at + TABLE_BYTES
        shift = 12 + 9 * (LAST_LEVEL - level)
        for index, entry in enumerate(struct.unpack_from(f"<{TABLE_ENTRIES}Q", self.data, at + 8)):
            if entry & 1:
                self._entry(entry, level, base | index << shift, at + 8 + 8 * index)

    def _entry(self, entry: int, level: int, va: int, at: int) -> None:
        target, kind = entry & ADDRESS, entry & 3
        shift = 12 + 9 * (LAST_LEVEL - level)
        if target >= self.limit:
            raise PageTableError(
                "an entry points outside physical memory",
                offset=at,
                expected=f"below {self.limit:#x}",
                found=f"{entry:#018x}",
            )
        if kind == TABLE and level < LAST_LEVEL:
            self._table(target, level + 1, va)
            return
        if level == 0 or (level == LAST_LEVEL and kind != TABLE):
            raise PageTableError(
                f"a {'block' if kind == BLOCK else 'table'} at level {level}",
                offset=at,
                expected="a table or a page",
                found=f"{entry:#018x}",
            )
        if target & ((1 << shift) - 1):
            raise PageTableError(
                "a block is not aligned to its size",
                offset=at,
                expected=f"a multiple of {1 << shift:#x}",
                found=f"{entry:#018x}",
            )
        access = entry >> 6 & 3
        if access not in ACCESS:
            raise PageTableError(
                "access bits of an entry", offset=at, expected="1 (read and write) or 3 (read)", found=access
            )
        flags = ACCESS[access] | (0 if entry & NO_EXECUTE else MAP_EXECUTE)
        self._mapped(Run(va, 1 << shift - 12, flags), at)

    def _mapped(self, run: Run, at: int) -> None:
        self.pages += run.pages
        if self.pages > MAX_PAGES:
            raise PageTableError(
                "too much memory is mapped", offset=at, expected=f"at most {MAX_PAGES} pages", found=self.pages
            )
        runs = self.result.runs
        if runs and runs[-1].start + runs[-1].pages * PAGE_BYTES == run.start and runs[-1].flags == run.flags:
            runs[-1] = Run(runs[-1].start, runs[-1].pages + run.pages, run.flags)
        else:
            runs.append(run)
