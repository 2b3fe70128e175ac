# SPDX-License-Identifier: BSD-2-Clause
"""The four files of a GPUReplay recording (github bakhi/GPUReplay), read strictly.

Nothing is believed: every size, address and order is checked against the file and against the other files, and an
error names the file and the offset. Little-endian, no magic, no version. All addresses are in bytes.

- gr_io_history: text, one register access a line: delay_ns,R or W,0xOFFSET,VALUE
- gr_pgt (mali_tables.py): u64 size of the file, address of the first table, attributes, configuration; page tables
  depth-first, each a u64 header (physical address and level) and 512 u64 entries; u64 end mark
- gr_mem_contents: regions: u64 start, end, committed pages; u32 flags of the kbase driver; u8 valid; where valid,
  for every committed page u64 virtual address, u64 physical address, 4096 bytes
- gr_sync_as: u32 count, then u64 start, end, size of every buffer that the CPU synchronised
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from host_tools.gpus.mali import kbase
from host_tools.gpus.mali.mali_tables import MAX_PAGES
from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE
from trace_format.errors import TraceError
from trace_format.profile import Profile
from trace_format.schema import PAGE_BYTES

HISTORY, TABLES, CONTENTS, BUFFERS = "gr_io_history", "gr_pgt", "gr_mem_contents", "gr_sync_as"
# kbase region flags (mali_kbase_mem.h of Arm's driver): what the GPU may do
REGION_FREE, REGION_GPU_WRITE, REGION_GPU_NX, REGION_GPU_READ = 1 << 0, 1 << 2, 1 << 3, 1 << 13
_ACCESS = re.compile(rb"(\d{1,20}),([RW]),0x([0-9a-f]{1,8}),([0-9a-f]{1,8})")


class HistoryError(TraceError):
    """gr_io_history is malformed."""


class ContentsError(TraceError):
    """gr_mem_contents is malformed."""


class BuffersError(TraceError):
    """gr_sync_as is malformed."""


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
    accesses: list[kbase.Access] = []
    at, identified = 0, False
    for number, line in enumerate(data.split(b"\n"), start=1):
        if at == len(data):
            break
        if at + len(line) == len(data):
            raise HistoryError(f"line {number} is cut off: it has no end", offset=at)
        access = _access(line, number, at, gpu)
        if access.register is gpu.identity and not identified:
            _identify(access, gpu)
            identified = True
        accesses.append(access)
        at += len(line) + 1
    if not identified:
        raise HistoryError(f"{gpu.identity.name} is never read: of which GPU is this?", offset=0)
    return accesses


def _identify(access: kbase.Access, gpu: Profile) -> None:
    if access.value & gpu.identity_mask != gpu.identity_value:
        raise HistoryError(
            f"made on another GPU than the {gpu.title}",
            offset=access.offset,
            expected=f"{gpu.identity_value:#010x} under mask {gpu.identity_mask:#010x}",
            found=f"{access.value:#010x}",
        )


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
        _check_addresses(ContentsError, "a region", at, start, end, gpu)
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


def _check_addresses(error: type[TraceError], what: str, at: int, start: int, end: int, gpu: Profile) -> None:
    if not start < end <= 1 << gpu.mmu["va_bits"]:
        raise error(
            f"addresses of {what}",
            offset=at,
            expected=f"start before end, below 2^{gpu.mmu['va_bits']}",
            found=f"{start:#x} to {end:#x}",
        )


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
        _check_addresses(BuffersError, "a buffer", at, start, end, gpu)
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
