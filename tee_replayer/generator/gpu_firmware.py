# SPDX-License-Identifier: BSD-2-Clause
"""The firmware file of a GPU's microcontroller, as C for its nano driver (drivers/gpu_firmware.h).

Only the container's table of sections is read, as Linux 6.12 does (drivers/gpu/drm/panthor/panthor_fw.c), and the
control block in the shared section, which says where inputs and outputs lie. Arm's licence forbids more.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from trace_format.actions import MAP_EXECUTE, MAP_READ, MAP_WRITE
from trace_format.errors import GramophoneError
from trace_format.schema import PAGE_BYTES

SOURCE = "gpu_firmware.c"
MAGIC, MAJOR = 0xC3F13A6E, 0
HEADER, ENTRY = struct.Struct("<IBBHIII"), struct.Struct("<6I")
SECTION, OPTIONAL = 0, 1 << 31  # type of an entry; whether another type may be left out
WRITABLE, EXECUTABLE, PROTECTED, SHARED = 1 << 1, 1 << 2, 1 << 5, 1 << 30
GROUP_CONTROL, STREAM_CONTROL = 0x1000, 0x1040  # of the first group and its first stream, in the shared section
MOST_BYTES = 16 << 20
MOST_VA = 0x1000_0000  # where the nano driver has pages of its own
Fail = Callable[[str, object, object], GramophoneError]


@dataclass(frozen=True)
class Section:
    """What the microcontroller has at an address: `from_file` bytes at `at` of the file, then zeros."""

    va: int
    bytes: int
    at: int
    from_file: int
    flags: int
    is_shared: bool


@dataclass(frozen=True)
class GpuFirmware:
    """A firmware file.

    Attributes:
        data: all of it.
        sections: what is mapped, in the file's order.
        places: of the shared section's inputs and outputs (global, group, stream), in bytes.
    """

    data: bytes
    sections: tuple[Section, ...]
    places: tuple[int, ...]

    @property
    def sha256(self) -> bytes:
        """By which the device knows it."""
        return hashlib.sha256(self.data).digest()

    @property
    def pages(self) -> int:
        """Of all sections."""
        return sum(section.bytes for section in self.sections) // PAGE_BYTES


def read(data: bytes, file: str) -> GpuFirmware:
    """A firmware file's sections.

    Args:
        data: the file.
        file: its name, for messages.

    Raises:
        GramophoneError: it is no such file, or not one that the nano driver can use.
    """

    def fail(what: str, expected: object, found: object) -> GramophoneError:
        kind = "not a firmware file of a Mali with command streams"
        return GramophoneError(f"{file}: {kind}: {what}: expected {expected}, found {found}")

    if not HEADER.size <= len(data) <= MOST_BYTES:
        raise fail("size", f"{HEADER.size} to {MOST_BYTES} bytes", len(data))
    magic, _, major, _, _, _, table = HEADER.unpack_from(data)
    if (magic, major) != (MAGIC, MAJOR):
        raise fail("magic and version", f"{MAGIC:#x}, {MAJOR}", f"{magic:#x}, {major}")
    if not HEADER.size <= table <= len(data):
        raise fail("size of the table of sections", f"at most {len(data)} bytes", table)
    try:
        sections = tuple(_sections(data[:table]))
    except (ValueError, struct.error) as error:
        raise fail("table of sections", "whole entries", str(error)) from None
    for section in sections:
        end = section.at + section.from_file
        if section.va % PAGE_BYTES or section.bytes % PAGE_BYTES or not 0 < section.bytes <= MOST_BYTES:
            raise fail("a section's addresses", "whole pages", f"{section.va:#x}, {section.bytes} bytes")
        if section.from_file > section.bytes or end > len(data):
            raise fail("a section's data", f"inside the file's {len(data)} bytes", f"up to {end}")
        if section.va + section.bytes > MOST_VA:
            raise fail("a section's address", f"below {MOST_VA:#x}", f"{section.va:#x}")
    shared = [section for section in sections if section.is_shared]
    if len(shared) != 1:
        raise fail("shared sections", 1, len(shared))
    return GpuFirmware(data, sections, _places(data, shared[0], fail))


def _sections(table: bytes) -> Iterator[Section]:
    at = HEADER.size
    while at < len(table):
        (word,) = struct.unpack_from("<I", table, at)
        kind, size = word & 0xFF, word >> 8 & 0xFF
        if size < 4 or size % 4 or at + size > len(table):
            raise ValueError(f"an entry of {size} bytes at offset {at}")
        if kind == SECTION:
            flags, va, end, first, last = ENTRY.unpack_from(table, at)[1:]
            if not flags & PROTECTED:
                rights = MAP_READ | MAP_WRITE * bool(flags & WRITABLE) | MAP_EXECUTE * bool(flags & EXECUTABLE)
                yield Section(va, end - va, first, last - first, rights, bool(flags & SHARED))
        at += size


def _places(data: bytes, shared: Section, fail: Fail) -> tuple[int, ...]:
    block = data[shared.at : shared.at + shared.from_file].ljust(shared.bytes, b"\0")
    pointers = [
        pointer
        for at in (8, GROUP_CONTROL + 4, STREAM_CONTROL + 4)
        for pointer in struct.unpack_from("<2I", block, at)
    ]
    places = tuple(pointer - shared.va for pointer in pointers)
    if not all(0 <= place <= shared.bytes - 0x100 and place % 16 == 0 for place in places):
        raise fail("addresses of inputs and outputs", "in the shared section", [hex(p) for p in pointers])
    return places


def source(firmware: GpuFirmware) -> str:
    """Text of the C file."""
    rows, page, shared_page = [], 0, 0
    for section in firmware.sections:
        numbers = (section.va, section.bytes, section.at, section.from_file, section.flags)
        rows.append(f"    {{{', '.join(f'{number:#x}u' for number in numbers)}}},")
        shared_page = page if section.is_shared else shared_page
        page += section.bytes // PAGE_BYTES
    names = ("global_input", "global_output", "group_input", "group_output", "stream_input", "stream_output")
    words = [firmware.data[at : at + 16].hex(" ").split() for at in range(0, len(firmware.data), 16)]
    lines = [
        "/* The file that the device's owner has named, whole. Pass it on with its licence. */",
        '#include "gpu_firmware.h"',
        "",
        "static const uint8_t file[] = {",
        *("    " + " ".join(f"0x{byte}," for byte in row) for row in words),
        "};",
        "static const struct gr_gpu_section section[] = {",
        *rows,
        "};",
        "const struct gr_gpu_firmware gr_gpu_firmware = {",
        "    .file = file,",
        "    .bytes = sizeof file,",
        f"    .sha256 = {{{', '.join(f'0x{byte:02x}' for byte in firmware.sha256)}}},",
        "    .sections = sizeof section / sizeof section[0],",
        "    .section = section,",
        f"    .shared_page = {shared_page}u,",
        *(f"    .{name} = {place:#x}u," for name, place in zip(names, firmware.places, strict=True)),
        f"    .pages = {firmware.pages}u,",
        "};",
        "",
    ]
    return "\n".join(lines)
