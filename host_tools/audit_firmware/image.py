# SPDX-License-Identifier: BSD-2-Clause
"""What is to be audited: an ELF file, or a firmware's bytes without symbols, as segments in memory."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from struct import error as StructError

from elftools.common.exceptions import ELFError
from elftools.elf.constants import P_FLAGS, SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from host_tools.runners.firmware import BOARD_SECTION
from trace_format import packing
from trace_format.errors import GramophoneError

VECTOR = 0x200  # synchronous exceptions, of the vector table at the start: baremetal/startup.S


class FirmwareError(GramophoneError):
    """A file that cannot be audited."""


@dataclass(frozen=True)
class Segment:
    """What is loaded to one place.

    Attributes:
        address: of its first byte.
        data: what the image holds of it.
        size: in memory; what lies after `data` starts as zero.
        flags: of "rwx".
    """

    address: int
    data: bytes
    size: int
    flags: str

    @property
    def end(self) -> int:
        """Address after its last byte."""
        return self.address + self.size


@dataclass(frozen=True)
class Symbol:
    """A name of an address; kind is "FUNC", "OBJECT" or "", `file` the source that a local name is of."""

    name: str
    address: int
    size: int
    kind: str
    file: str = ""


@dataclass(frozen=True)
class Section:
    """A section of an ELF file that is loaded."""

    name: str
    address: int
    size: int
    flags: str


@dataclass(frozen=True)
class Image:
    """A firmware.

    Attributes:
        name: file, or piece of one.
        kind: "elf", or "raw" for bytes without headers.
        segments: what is loaded.
        entries: addresses where execution starts.
        symbols: without mapping symbols; empty where there are none.
        data_at: where mapping symbols ($x, $d) say that data starts (True) or code (False), by address.
        sections: of an ELF file.
        board: what the section for runners says about the board; empty where there is none.
        sha256: of the file or piece, in hexadecimal.
    """

    name: str
    kind: str
    segments: tuple[Segment, ...]
    entries: tuple[int, ...]
    symbols: tuple[Symbol, ...] = ()
    data_at: tuple[tuple[int, bool], ...] = ()
    sections: tuple[Section, ...] = ()
    board: dict[str, int] = field(default_factory=dict)
    sha256: str = ""

    @property
    def flashed_sha256(self) -> str | None:
        """SHA-256 of the bytes that are flashed; None of what is not flashed in one piece, as OP-TEE's core."""
        stored = [segment.data for segment in self.segments if segment.data]
        is_whole = len(stored) == 1 and (self.kind == "raw" or bool(self.board))
        return hashlib.sha256(stored[0]).hexdigest() if is_whole else None

    def read(self, address: int, count: int) -> bytes:
        """Bytes that the image holds at an address; fewer at the end of a segment."""
        for segment in self.segments:
            if segment.address <= address < segment.address + len(segment.data):
                at = address - segment.address
                return segment.data[at : at + count]
        return b""

    def is_code(self, address: int) -> bool:
        """Whether an address lies in what can be executed."""
        return any(s.address <= address < s.address + len(s.data) and "x" in s.flags for s in self.segments)

    def is_writable(self, address: int) -> bool:
        """Whether an address lies in what can be written."""
        return any(s.address <= address < s.end and "w" in s.flags for s in self.segments)

    @property
    def executable(self) -> tuple[Segment, ...]:
        """Segments that can be executed and hold something."""
        return tuple(segment for segment in self.segments if "x" in segment.flags and segment.data)

    @cached_property
    def names(self) -> dict[int, str]:
        """Address -> its best name: that of a function before that of a place."""
        ordered = sorted(self.symbols, key=lambda row: (row.kind == "FUNC", row.kind == "OBJECT"))
        return {row.address: row.name for row in ordered}

    def symbol(self, name: str) -> Symbol | None:
        """The symbol of this name."""
        return next((row for row in self.symbols if row.name == name), None)


def of_elf(name: str, data: bytes) -> Image:
    """Read an ELF file.

    Raises:
        FirmwareError: it is none, or not an AArch64 executable.
    """
    try:
        elf = ELFFile(BytesIO(data))
        if elf.get_machine_arch() != "AArch64" or not elf.little_endian:
            raise FirmwareError(f"{name}: expected AArch64 code, found {elf.get_machine_arch()}")
        loads = [row for row in elf.iter_segments("PT_LOAD") if row["p_memsz"]]
        if not loads:
            raise FirmwareError(f"{name}: expected an executable with segments, found none: link it first")
        segments = tuple(
            Segment(row["p_vaddr"], row.data() if row["p_filesz"] else b"", row["p_memsz"], _flags(row["p_flags"]))
            for row in loads
        )
        sections = list(elf.iter_sections())
        symbols, mapping = _symbols(elf)
        board = elf.get_section_by_name(BOARD_SECTION)
        has_board = board is not None and board.data_size == packing.size_of("board")
        entry = int(elf.header["e_entry"])
        return Image(
            name,
            "elf",
            segments,
            (entry, entry + VECTOR) if has_board else (entry,),
            symbols,
            mapping,
            tuple(
                Section(row.name, row["sh_addr"], row["sh_size"], _section_flags(row["sh_flags"]))
                for row in sections
                if row["sh_flags"] & SH_FLAGS.SHF_ALLOC and row["sh_size"]
            ),
            packing.unpack("board", board.data()) if board is not None and has_board else {},
            hashlib.sha256(data).hexdigest(),
        )
    except (
        ELFError,
        ValueError,
        MemoryError,
        OverflowError,
        StructError,
        KeyError,
        TypeError,
        AttributeError,
    ) as error:
        raise FirmwareError(f"{name}: not an ELF file of a firmware ({error})") from error


def _symbols(elf: ELFFile) -> tuple[tuple[Symbol, ...], tuple[tuple[int, bool], ...]]:
    found, mapping = [], []
    sections = [row["sh_flags"] for row in elf.iter_sections()]
    for table in elf.iter_sections():
        if not isinstance(table, SymbolTableSection):
            continue
        file = ""
        for row in table.iter_symbols():
            if row["st_info"]["type"] == "STT_FILE":
                file = row.name
            index, kind = row["st_shndx"], row["st_info"]["type"].removeprefix("STT_")
            if not isinstance(index, int) or index >= len(sections) or not row.name:
                continue
            if not sections[index] & SH_FLAGS.SHF_ALLOC:
                continue
            if row.name.startswith(("$x", "$d")):
                mapping.append((row["st_value"], row.name[1] == "d"))
            elif kind in ("FUNC", "OBJECT", "NOTYPE"):
                found.append(Symbol(row.name, row["st_value"], row["st_size"], kind.replace("NOTYPE", ""), file))
    return tuple(found), tuple(sorted(mapping))


def of_bytes(name: str, data: bytes, base: int, *, offsets: tuple[int, ...] = (0, VECTOR)) -> Image:
    """A firmware without headers, as it is flashed.

    Args:
        name: for messages.
        data: all of it.
        base: address that it is loaded to.
        offsets: where execution starts; by default reset and the vector for exceptions.
    """
    segment = Segment(base, data, len(data), "rx")
    entries = tuple(base + at for at in offsets if at < len(data))
    return Image(name, "raw", (segment,), entries, sha256=hashlib.sha256(data).hexdigest())


def _flags(flags: int) -> str:
    bits = (("r", P_FLAGS.PF_R), ("w", P_FLAGS.PF_W), ("x", P_FLAGS.PF_X))
    return "".join(letter for letter, bit in bits if flags & bit)


def _section_flags(flags: int) -> str:
    bits = (("w", SH_FLAGS.SHF_WRITE), ("x", SH_FLAGS.SHF_EXECINSTR))
    return "r" + "".join(letter for letter, bit in bits if flags & bit)
