"""The four files of a GPUReplay recording (github bakhi/GPUReplay), read strictly.

Nothing is believed: every size, address and order is checked against the file and against the other files, and an
error names the file and the offset. Little-endian, no magic, no version. All addresses are in bytes.

- gr_io_history: text, one register access a line: delay_ns,R or W,0xOFFSET,VALUE
- gr_pgt: u64 size of the file, address of the first table, attributes, configuration; page tables depth-first,
  each a u64 header (physical address and level) and 512 u64 entries; u64 end mark
- gr_mem_contents: regions: u64 start, end, committed pages; u32 flags of the kbase driver; u8 valid; where valid,
  for every committed page u64 virtual address, u64 physical address, 4096 bytes
- gr_sync_as: u32 count, then u64 start, end, size of every buffer that the CPU synchronised
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from host_tools.record import kbase
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE
from trace_format.errors import TraceError
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES

HISTORY, TABLES, CONTENTS, BUFFERS = "gr_io_history", "gr_pgt", "gr_mem_contents", "gr_sync_as"
MAX_PAGES = 1 << 20  # a carve-out is at most 4 GiB
TABLE_END = 0xFF_FFFF_FFFF
TABLE_ENTRIES = 512
TABLE_BYTES = 8 + 8 * TABLE_ENTRIES
LAST_LEVEL = 3
ADDRESS = 0xFFFF_FFFF_F000  # of an entry: bits 47:12
NO_EXECUTE = 1 << 54
ACCESS_READ_WRITE, ACCESS_READ = 1, 3  # bits 7:6
# kbase region flags (mali_kbase_mem.h of Arm's driver): what the GPU may do
REGION_FREE, REGION_GPU_WRITE, REGION_GPU_NX, REGION_GPU_READ = 1 << 0, 1 << 2, 1 << 3, 1 << 13
_ACCESS = re.compile(rb"(\d{1,20}),([RW]),0x([0-9a-f]{1,8}),([0-9a-f]{1,8})")


class HistoryError(TraceError):
    """gr_io_history is malformed."""


class PageTableError(TraceError):
    """gr_pgt is malformed."""


class ContentsError(TraceError):
    """gr_mem_contents is malformed."""


class BuffersError(TraceError):
    """gr_sync_as is malformed."""


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


@dataclass(frozen=True)
class Region:
    """A region of GPU memory.

    Attributes:
        offset: where it stands in the file.
        start, end: virtual addresses.
        pages: those that were committed, from `start`.
        flags: of the kbase driver.
        contents: offset in the file of every committed page's bytes; empty where they were not saved.
    """

    offset: int
    start: int
    end: int
    pages: int
    flags: int
    contents: tuple[int, ...]

    @property
    def permissions(self) -> int:
        """MAP_* flags."""
        return (
            (MAP_READ if self.flags & REGION_GPU_READ else 0)
            | (MAP_WRITE if self.flags & REGION_GPU_WRITE else 0)
            | (0 if self.flags & REGION_GPU_NX else MAP_EXECUTE)
        )


@dataclass(frozen=True)
class Buffer:
    """A synchronised buffer: where it stands in the file, its virtual address and its size in bytes."""

    offset: int
    start: int
    size: int


def _shorten(data: bytes) -> str:
    return repr(data[:40].decode("ascii", "backslashreplace"))


def read_history(data: bytes, gpu: Profile) -> list[kbase.Access]:
    """The register accesses of gr_io_history.

    Raises:
        HistoryError
    """
    if not data:
        raise HistoryError("the file is empty", offset=0)
    accesses = []
    at = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        if at == len(data):
            break
        if at + len(line) == len(data):
            raise HistoryError(f"line {number} is cut off: it has no end", offset=at)
        accesses.append(_access(line, number, at, gpu))
        at += len(line) + 1
    first = next((a for a in accesses if a.register is gpu.identity and not a.write), None)
    if first is None:
        raise HistoryError(f"{gpu.identity.name} is never read: of which GPU is this?", offset=0)
    if first.value & gpu.identity_mask != gpu.identity_value:
        raise HistoryError(
            f"made on another GPU than a {gpu.title}",
            offset=first.offset,
            expected=f"{gpu.identity_value:#010x} under mask {gpu.identity_mask:#010x}",
            found=f"{first.value:#010x}",
        )
    return accesses


def _access(line: bytes, number: int, at: int, gpu: Profile) -> kbase.Access:
    match = _ACCESS.fullmatch(line)
    if match is None:
        raise HistoryError(
            f"line {number} is no register access",
            offset=at,
            expected="DELAY_NS,R or W,0xOFFSET,VALUE",
            found=_shorten(line),
        )
    delay, write, offset = int(match[1]), match[2] == b"W", int(match[3], 16)
    if delay >= 1 << 63:
        raise HistoryError(f"line {number}: the delay", offset=at, expected="below 2^63", found=delay)
    register = kbase.find(gpu, offset, write)
    if isinstance(register, str):
        raise HistoryError(f"line {number}: {register}", offset=at)
    return kbase.Access(at, delay, write, register, int(match[4], 16))


def read_tables(data: bytes, gpu: Profile) -> PageTables:
    """The page tables of gr_pgt.

    Raises:
        PageTableError
    """
    if len(data) < 40:
        raise PageTableError(
            "the file ends before its end mark", offset=len(data), expected="at least 40 bytes", found=len(data)
        )
    size, root, attributes, config = struct.unpack_from("<4Q", data)
    if size != len(data):
        raise PageTableError("size of the file", offset=0, expected=len(data), found=size)
    limit = 1 << gpu.mmu["pa_bits"]
    if root == 0 or root % PAGE_BYTES or root >= limit:
        raise PageTableError(
            "address of the first table", offset=8, expected=f"a page below {limit:#x}", found=f"{root:#x}"
        )
    if config & kbase.ADRMODE != kbase.AARCH64_4K:
        raise PageTableError(
            "page table format",
            offset=24,
            expected=f"mode {kbase.AARCH64_4K} (AArch64, 4 KiB)",
            found=f"{config:#x}",
        )
    result = PageTables(root, attributes, config)
    end = _TableReader(data, limit, result).read(root)
    if end != len(data):
        raise PageTableError("bytes behind the end mark", offset=end, expected=0, found=len(data) - end)
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
        """Read all; returns the offset behind the end mark."""
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
        target = entry & ADDRESS
        shift = 12 + 9 * (LAST_LEVEL - level)
        if target >= self.limit:
            raise PageTableError(
                "an entry points outside physical memory",
                offset=at,
                expected=f"below {self.limit:#x}",
                found=f"{entry:#018x}",
            )
        if entry & 2 and level < LAST_LEVEL:
            self._table(target, level + 1, va)
            return
        if not entry & 2 and level in (0, LAST_LEVEL):
            raise PageTableError(
                f"a block at level {level}", offset=at, expected="a table or a page", found=f"{entry:#018x}"
            )
        if target & ((1 << shift) - 1):
            raise PageTableError(
                "a block is not aligned to its size",
                offset=at,
                expected=f"a multiple of {1 << shift:#x}",
                found=f"{entry:#018x}",
            )
        access = entry >> 6 & 3
        if access not in (ACCESS_READ_WRITE, ACCESS_READ):
            raise PageTableError(
                "access bits of an entry", offset=at, expected="1 (read and write) or 3 (read)", found=access
            )
        flags = MAP_READ | (MAP_WRITE if access == ACCESS_READ_WRITE else 0)
        flags |= 0 if entry & NO_EXECUTE else MAP_EXECUTE
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


def read_contents(data: bytes, gpu: Profile) -> list[Region]:
    """The regions of gr_mem_contents.

    Raises:
        ContentsError
    """
    if not data:
        raise ContentsError("the file is empty", offset=0)
    return list(_regions(data, gpu))


_REGION = struct.Struct("<QQQIB")


def _regions(data: bytes, gpu: Profile) -> Iterator[Region]:
    at = total = 0
    while at < len(data):
        if at + _REGION.size > len(data):
            raise ContentsError(
                "a region is cut off", offset=at, expected=f"{_REGION.size} bytes", found=len(data) - at
            )
        start, end, pages, flags, valid = _REGION.unpack_from(data, at)
        if start % PAGE_BYTES or end % PAGE_BYTES:
            raise ContentsError(
                "a region does not lie on page borders",
                offset=at,
                expected="multiples of 4096",
                found=f"{start:#x} to {end:#x}",
            )
        if not start < end <= 1 << gpu.mmu["va_bits"]:
            raise ContentsError(
                "addresses of a region",
                offset=at,
                expected=f"start before end, below 2^{gpu.mmu['va_bits']}",
                found=f"{start:#x} to {end:#x}",
            )
        if pages > (end - start) // PAGE_BYTES:
            raise ContentsError(
                "a region has more pages than addresses",
                offset=at + 16,
                expected=f"at most {(end - start) // PAGE_BYTES}",
                found=pages,
            )
        total += pages
        if total > MAX_PAGES:
            raise ContentsError(
                "the regions have too many pages", offset=at + 16, expected=f"at most {MAX_PAGES}", found=total
            )
        if flags & REGION_FREE or not flags & (REGION_GPU_READ | REGION_GPU_WRITE):
            raise ContentsError(
                "flags of a region that the GPU cannot use",
                offset=at + 24,
                expected="in use, readable or writable",
                found=f"{flags:#x}",
            )
        if valid > 1:
            raise ContentsError("mark of saved contents", offset=at + 28, expected="0 or 1", found=valid)
        first = at + _REGION.size
        contents = tuple(_pages(data, first, start, pages, gpu)) if valid else ()
        yield Region(at, start, end, pages, flags, contents)
        at = first + len(contents) * (16 + PAGE_BYTES)


def _pages(data: bytes, at: int, start: int, pages: int, gpu: Profile) -> Iterator[int]:
    for va in range(start, start + pages * PAGE_BYTES, PAGE_BYTES):
        if at + 16 + PAGE_BYTES > len(data):
            raise ContentsError(
                "a page is cut off", offset=at, expected=f"{16 + PAGE_BYTES} bytes", found=len(data) - at
            )
        found, pa = struct.unpack_from("<QQ", data, at)
        if found != va:
            raise ContentsError("virtual address of a page", offset=at, expected=f"{va:#x}", found=f"{found:#x}")
        if pa % PAGE_BYTES or pa >= 1 << gpu.mmu["pa_bits"]:
            raise ContentsError(
                "physical address of a page",
                offset=at + 8,
                expected=f"a page below 2^{gpu.mmu['pa_bits']}",
                found=f"{pa:#x}",
            )
        yield at + 16
        at += 16 + PAGE_BYTES


def read_buffers(data: bytes, gpu: Profile) -> list[Buffer]:
    """The buffers of gr_sync_as: parameters, input, output.

    Raises:
        BuffersError
    """
    if len(data) < 4:
        raise BuffersError("the number of buffers is cut off", offset=0, expected="4 bytes", found=len(data))
    count = int.from_bytes(data[:4], "little")
    if len(data) != 4 + 24 * count:
        raise BuffersError(
            f"size of the file with {count} buffers", offset=0, expected=4 + 24 * count, found=len(data)
        )
    if count < 2:
        raise BuffersError("number of buffers", offset=0, expected="an input and an output at least", found=count)
    found: dict[tuple[int, int], Buffer] = {}
    for at in range(4, len(data), 24):
        start, end, size = struct.unpack_from("<QQQ", data, at)
        if not start < end <= 1 << gpu.mmu["va_bits"]:
            raise BuffersError(
                "addresses of a buffer",
                offset=at,
                expected=f"start before end, below 2^{gpu.mmu['va_bits']}",
                found=f"{start:#x} to {end:#x}",
            )
        if size != end - start:
            raise BuffersError(
                "size of a buffer", offset=at + 16, expected=f"{end - start:#x}", found=f"{size:#x}"
            )
        if start % 4 or size % 4:
            raise BuffersError(
                "a buffer does not hold whole 32-bit numbers",
                offset=at,
                expected="multiples of 4",
                found=f"{start:#x}, {size:#x} bytes",
            )
        found.pop((start, size), None)  # synchronised again: its last place counts
        found[start, size] = Buffer(at, start, size)
    if len(found) < 2:
        raise BuffersError("all buffers are one", offset=4, expected="an input and an output at least", found=1)
    return list(found.values())
