# SPDX-License-Identifier: BSD-2-Clause
"""Where things lie in a trace file: header, section table, head, chunks. Knows nothing of what sections mean.

Networks make files of any size: what is read of one are views of it. Files are written by assembly.py.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from trace_format import codec, limits
from trace_format.codec import Buffer
from trace_format.errors import (
    ChunkHashError,
    MagicError,
    ReservedError,
    SectionError,
    SectionRangeError,
    TraceError,
    TruncatedError,
    UnknownSectionError,
    VersionError,
)
from trace_format.packing import unpack
from trace_format.schema import (
    ALIGNMENT,
    HASH_BYTES,
    HEAD_SECTIONS,
    HEADER_FLAG_ENCRYPTED,
    HEADER_FLAG_JOINT,
    HEADER_FLAG_OLD_JOINT,
    HEADER_FLAG_RAW,
    HEADER_FLAG_STREAMED,
    MAX_CHUNK_BYTES,
    MAX_HEAD_BYTES,
    MAX_SECTIONS,
    MIN_CHUNK_BYTES,
    SECTION_FLAG_OPTIONAL,
    TRACE_MAGIC,
    VERSION_MAJOR,
    VERSION_MINOR,
    Codec,
    Header,
    Section,
    SectionType,
)

HEADER_BYTES, SECTION_BYTES = Header.sizeof(), Section.sizeof()  # construct adds them up anew each time
# Flag of the header -> the section that it brings the head, in order: who can read a body is said last.
_BROUGHT = {
    HEADER_FLAG_STREAMED: SectionType.PIECES,
    HEADER_FLAG_JOINT: SectionType.NETWORKS,
    HEADER_FLAG_ENCRYPTED: SectionType.ENCRYPTION,
}
_NEVER_RAW = {HEADER_FLAG_JOINT: "joint", HEADER_FLAG_STREAMED: "streamed"}
_FLAGS = HEADER_FLAG_RAW | sum(_BROUGHT)
IN_HEAD = (*HEAD_SECTIONS, *_BROUGHT.values())
STORED_SECTIONS = (SectionType.MANIFEST, SectionType.CHUNKS, *IN_HEAD[3:], SectionType.STREAM)
# Never flagged optional.
REQUIRED = (*IN_HEAD, SectionType.ACTIONS, SectionType.IMAGE, SectionType.STREAM)


@dataclass
class Part:
    """A section: its bytes as stored (of a file, a view of it), and how to decode them."""

    type: int
    stored: Buffer
    flags: int = 0
    codec: int = Codec.STORED
    raw_bytes: int = -1
    offset: int = 0

    def __post_init__(self) -> None:
        if self.raw_bytes < 0:
            self.raw_bytes = len(self.stored)

    @classmethod
    def encoded(cls, type: SectionType, raw: Buffer, compress: bool, flags: int = 0) -> Part:
        """A section of `raw`, compressed where that is worth it."""
        method, stored = codec.encode(raw, compress=compress)
        return cls(type, stored, flags, method, len(raw))

    def view(self) -> Buffer:
        """The section's bytes, those of the file itself where they are stored as they are; CodecError."""
        return codec.decode(self.codec, self.stored, self.raw_bytes, offset=self.offset)

    def decode(self) -> bytes:
        """The section's bytes; CodecError."""
        return bytes(self.view())

    @property
    def padding(self) -> int:
        """Bytes between its end and the next section."""
        return -len(self.stored) % ALIGNMENT


class Parts(list[Part]):
    """The sections of a file, in order."""

    def all(self, type: int) -> list[Part]:
        """All sections of a type."""
        return [part for part in self if part.type == type]

    def one(self, type: int) -> Part:
        """The only section of a type; SectionError when there is none, or more."""
        found = self.all(type)
        if len(found) != 1:
            raise SectionError(f"{SectionType(type).name} sections", expected=1, found=len(found))
        return found[0]

    def check_content(self, file_bytes: int) -> None:
        """LimitError: decoded, they are more than the host takes of a file of this size."""
        content = sum(part.raw_bytes for part in self)
        limits.check("size of all sections' content in bytes", content, limits.decoded_bytes(file_bytes))

    def chunk_hashes(self, data: Buffer, header: Mapping[str, Any]) -> Iterator[tuple[bytes, bytes]]:
        """For each chunk of the body, the SHA-256 that the head says and the one it has."""
        hashes = bytes(self.one(SectionType.CHUNKS).stored)
        body = memoryview(data)
        for index in range(header["chunk_count"]):
            start = header["head_bytes"] + index * header["chunk_bytes"]
            chunk = body[start : min(start + header["chunk_bytes"], header["trace_bytes"])]
            yield hashes[index * HASH_BYTES : (index + 1) * HASH_BYTES], hashlib.sha256(chunk).digest()

    def check_chunks(self, data: Buffer, header: Mapping[str, Any]) -> None:
        """ChunkHashError: a chunk of the body is not what the head says."""
        for index, (wanted, found) in enumerate(self.chunk_hashes(data, header)):
            if wanted != found:
                start = header["head_bytes"] + index * header["chunk_bytes"]
                raise ChunkHashError(
                    f"chunk {index} is damaged", offset=start, expected=wanted.hex(), found=found.hex()
                )


@contextlib.contextmanager
def naming(file: str) -> Iterator[None]:
    """Put the file's name into every TraceError that passes."""
    try:
        yield
    except TraceError as error:
        error.file = error.file or file
        raise


def disassemble(data: Buffer) -> tuple[dict[str, Any], Parts]:
    """Header and sections of a trace file, every rule of the layout checked; chunk hashes are not compared."""
    header = read_header(data)
    return header, sections(data, header)


def sections(data: Buffer, header: Mapping[str, Any]) -> Parts:
    """The sections of a trace file whose header was read: the rest of `disassemble`."""
    count, head_bytes = header["section_count"], header["head_bytes"]
    if len(data) != header["trace_bytes"]:
        kind = TruncatedError if len(data) < header["trace_bytes"] else SectionRangeError
        raise kind("size of the file", offset=len(data), expected=header["trace_bytes"], found=len(data))
    position = HEADER_BYTES + count * SECTION_BYTES
    parts = Parts()
    for index in range(count):
        at = HEADER_BYTES + index * SECTION_BYTES
        part, position = _section(data, at, position, header)
        parts.append(part)
    if position != header["trace_bytes"]:
        raise SectionRangeError(
            "end of the last section", offset=position, expected=header["trace_bytes"], found=position
        )
    kinds, in_head = [part.type for part in parts], head_sections(header)
    if kinds[: len(in_head)] != list(in_head):
        raise SectionError(
            "the head's sections",
            offset=HEADER_BYTES,
            expected=[int(k) for k in in_head],
            found=kinds[: len(in_head)],
        )
    last = parts[len(in_head) - 1]
    end = last.offset + len(last.stored) + last.padding
    if end != head_bytes:
        raise SectionRangeError("end of the head", offset=end, expected=head_bytes, found=end)
    hashes = parts.one(SectionType.CHUNKS)
    chunks = -(-(header["trace_bytes"] - head_bytes) // header["chunk_bytes"])
    if header["chunk_count"] != chunks or len(hashes.stored) != chunks * HASH_BYTES:
        raise SectionError(
            "number of chunk hashes", offset=hashes.offset, expected=chunks, found=header["chunk_count"]
        )
    _check_order(parts[len(in_head) :], parts)
    return parts


def head_sections(header: Mapping[str, Any]) -> tuple[SectionType, ...]:
    """Types of the sections that a trace with this header has in its head, in order."""
    return (*HEAD_SECTIONS, *(kind for flag, kind in _BROUGHT.items() if header["flags"] & flag))


def is_encrypted(header: Mapping[str, Any]) -> bool:
    """Whether the body of the trace with this header is encrypted."""
    return bool(header["flags"] & HEADER_FLAG_ENCRYPTED)


def is_joint(header: Mapping[str, Any]) -> bool:
    """Whether the trace with this header holds several networks."""
    return bool(header["flags"] & HEADER_FLAG_JOINT)


def read_header(data: Buffer) -> dict[str, Any]:
    """Only the header, its own rules checked."""
    if data[: len(TRACE_MAGIC)] != TRACE_MAGIC[: len(data)]:
        raise MagicError("not a trace", offset=0, expected=TRACE_MAGIC.hex(), found=data[:8].hex())
    if len(data) < HEADER_BYTES:
        raise TruncatedError(
            "too short for a trace header", offset=len(data), expected=HEADER_BYTES, found=len(data)
        )
    major = int.from_bytes(data[8:10], "little")
    if major != VERSION_MAJOR:
        raise VersionError("version of the format", offset=8, expected=VERSION_MAJOR, found=major)
    header = unpack("header", bytes(data[:HEADER_BYTES]), 0)
    for error, what, offset, expected, found in _broken_rules(header):
        raise error(what, offset=offset, expected=expected, found=found)
    if HEADER_BYTES + header["section_count"] * SECTION_BYTES > header["head_bytes"]:
        raise SectionRangeError(
            "section table reaches beyond the head",
            offset=36,
            found=header["section_count"],
            expected="fewer sections",
        )
    return header


def _broken_rules(header: Mapping[str, Any]) -> Iterator[tuple[type[TraceError], str, int, object, int]]:
    """What is wrong with a header's fields: error, what, offset, expected, found."""
    minor, size, flags = header["version_minor"], header["head_bytes"], header["flags"]
    if minor > VERSION_MINOR:
        yield VersionError, "minor version", 10, f"at most {VERSION_MINOR}", minor
    if header["header_bytes"] != HEADER_BYTES:
        yield ReservedError, "header_bytes", 12, HEADER_BYTES, header["header_bytes"]
    if size > MAX_HEAD_BYTES:
        yield ReservedError, "head_bytes", 24, f"at most {MAX_HEAD_BYTES}", size
    if size > header["trace_bytes"]:
        yield ReservedError, "head_bytes", 24, "at most trace_bytes", size
    chunk = header["chunk_bytes"]
    if chunk & (chunk - 1) or not MIN_CHUNK_BYTES <= chunk <= MAX_CHUNK_BYTES:
        yield ReservedError, "chunk_bytes", 28, "a power of two from 4096 to 65536", chunk
    if not 3 <= header["section_count"] <= MAX_SECTIONS:
        yield ReservedError, "section_count", 36, f"3 to {MAX_SECTIONS}", header["section_count"]
    if flags & HEADER_FLAG_OLD_JOINT:
        old = "header flags: an old joint trace, whose networks reach the whole image (join its traces again)"
        yield VersionError, old, 38, HEADER_FLAG_JOINT, flags
    if flags & ~_FLAGS:
        yield ReservedError, "reserved header flags", 38, 0, flags
    for flag, name in _NEVER_RAW.items():
        if flags & flag and flags & HEADER_FLAG_RAW:
            yield ReservedError, f"header flags: a {name} trace is not raw", 38, flags & ~HEADER_FLAG_RAW, flags


def _section(data: Buffer, at: int, position: int, header: Mapping[str, Any]) -> tuple[Part, int]:
    row = unpack("section", bytes(data[at : at + SECTION_BYTES]), at)
    if row["flags"] & ~SECTION_FLAG_OPTIONAL:
        raise ReservedError("reserved section flags", offset=at + 2, expected=0, found=hex(row["flags"]))
    if row["type"] not in list(SectionType) and not row["flags"] & SECTION_FLAG_OPTIONAL:
        raise UnknownSectionError(
            "section type", offset=at, expected=[int(t) for t in SectionType], found=row["type"]
        )
    optional = 0 if row["type"] in REQUIRED else SECTION_FLAG_OPTIONAL
    if row["flags"] != optional:
        raise ReservedError("optional flag of a section", offset=at + 2, expected=optional, found=row["flags"])
    if row["offset"] != position:
        raise SectionRangeError("offset of a section", offset=at + 8, expected=position, found=row["offset"])
    end = row["offset"] + row["stored_bytes"]
    aligned = -(-end // ALIGNMENT) * ALIGNMENT
    if aligned > header["trace_bytes"]:
        raise SectionRangeError(
            "section reaches beyond the file", offset=at + 16, expected=header["trace_bytes"], found=end
        )
    can_be_read = not is_encrypted(header) or row["offset"] < header["head_bytes"]
    if can_be_read and any(data[end:aligned]):
        raise ReservedError("padding after a section", offset=end, expected="zero", found=data[end:aligned].hex())
    is_stored = row["codec"] == Codec.STORED and row["raw_bytes"] == row["stored_bytes"]
    if row["type"] in STORED_SECTIONS and not is_stored:
        raise SectionError(
            "manifest, chunk hashes, networks, pieces and the COSE_Encrypt message must be stored as they are",
            offset=at + 4,
            expected=0,
            found=row["codec"],
        )
    if row["raw_bytes"] > 1 << 32:
        raise SectionRangeError(
            "raw_bytes of a section", offset=at + 24, expected="at most 4 GiB", found=row["raw_bytes"]
        )
    part = Part(
        row["type"],
        memoryview(data)[row["offset"] : end],
        row["flags"],
        row["codec"],
        row["raw_bytes"],
        row["offset"],
    )
    return part, aligned


def _check_order(body: list[Part], parts: Parts) -> None:
    """Body: ACTIONS once and first, then IMAGE sections, STREAM once if there are pieces, then optional ones."""
    rank = {SectionType.ACTIONS: 0, SectionType.IMAGE: 1, SectionType.STREAM: 2}
    order = [rank.get(SectionType(p.type), 3) if p.type in list(SectionType) else 3 for p in body]
    streams = len(parts.all(SectionType.PIECES))
    wrong = order.count(0) != 1 or order.count(2) != streams or len(parts.all(SectionType.NOTES)) > 1
    if order != sorted(order) or wrong:
        raise SectionError(
            "order of the body's sections",
            expected=f"ACTIONS, IMAGE..., {'STREAM, ' if streams else ''}optional ones",
            found=[p.type for p in body],
        )
    for part in body:
        if part.type in IN_HEAD:
            raise SectionError("a head section in the body", offset=part.offset, found=part.type, expected="none")
        if part.type not in REQUIRED:  # a reader may leave it as it is
            codec.check(part.codec, len(part.stored), part.raw_bytes, offset=part.offset)


def is_streamed(header: Mapping[str, Any]) -> bool:
    """Whether some of the memory of the trace with this header is read while jobs run."""
    return bool(header["flags"] & HEADER_FLAG_STREAMED)
