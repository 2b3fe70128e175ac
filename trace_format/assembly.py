# SPDX-License-Identifier: BSD-2-Clause
"""A trace file out of its sections: the head, its table, chunk hashes. What is written is joined once."""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator

from trace_format.codec import Buffer
from trace_format.layout import HEADER_BYTES, SECTION_BYTES, Part, disassemble, read_header
from trace_format.packing import pack
from trace_format.schema import (
    HASH_BYTES,
    HEAD_SECTIONS,
    MAX_CHUNK_BYTES,
    MAX_HEAD_BYTES,
    VERSION_MAJOR,
    VERSION_MINOR,
    SectionType,
)

DEFAULT_CHUNK_BYTES = 1 << 14
# A streamed trace's: a device hashes the head twice before its first job, and it has half as many hashes of these.
STREAMED_CHUNK_BYTES = 1 << 15


def chunk_bytes_for(head: list[Part], body: list[Part]) -> int:
    """Size of chunks: as above, or more where the head has no room for a hash of each."""
    room = MAX_HEAD_BYTES - _table_bytes(head, body) - _stored_bytes(head)
    is_streamed = any(part.type == SectionType.STREAM for part in body)
    size = STREAMED_CHUNK_BYTES if is_streamed else DEFAULT_CHUNK_BYTES
    while size < MAX_CHUNK_BYTES and HASH_BYTES * -(-_stored_bytes(body) // size) > room:
        size *= 2
    return size


def _table_bytes(head: list[Part], body: list[Part]) -> int:
    """Of the header and the table of sections, of which one more holds the chunk hashes."""
    return int(HEADER_BYTES + SECTION_BYTES * (len(head) + 1 + len(body)))


def _stored_bytes(parts: list[Part]) -> int:
    return sum(len(part.stored) + part.padding for part in parts)


def assemble(head: list[Part], body: list[Part], chunk_bytes: int, flags: int) -> bytes:
    """A trace file of these sections; the chunk hashes are added to the head."""
    return b"".join(pieces(head, body, chunk_bytes, flags))


def pieces(head: list[Part], body: list[Part], chunk_bytes: int, flags: int) -> list[Buffer]:
    """The same file in pieces, which follow one another: its head, and sections of the body as they are."""
    hashes = Part(SectionType.CHUNKS, chunk_hashes(_padded(body), chunk_bytes))
    before = [part for part in head if part.type in HEAD_SECTIONS]
    after = [part for part in head if part.type not in HEAD_SECTIONS]
    found = head_of([*before, hashes, *after], body, chunk_bytes, flags)
    header, parts = disassemble(with_zeros(found))
    parts.check_content(header["trace_bytes"])  # what is written can be read
    return [found, *_padded(body)]


def head_of(head: list[Part], body: list[Part], chunk_bytes: int, flags: int) -> bytes:
    """The head of a trace file.

    Args:
        head: all of its sections, the last of which is padded as the others.
        body: the sections that follow; of these only types and sizes count.
        chunk_bytes: size of a chunk.
        flags: of the header.
    """
    table_bytes = HEADER_BYTES + SECTION_BYTES * (len(head) + len(body))
    size = table_bytes + _stored_bytes(head)
    trace_bytes = size + _stored_bytes(body)
    table = b""
    offset = table_bytes
    for part in head + body:
        table += pack(
            "section",
            {
                "type": part.type,
                "flags": part.flags,
                "codec": part.codec,
                "offset": offset,
                "stored_bytes": len(part.stored),
                "raw_bytes": part.raw_bytes,
            },
        )
        offset += len(part.stored) + part.padding
    header = pack(
        "header",
        {
            "version_major": VERSION_MAJOR,
            "version_minor": VERSION_MINOR,
            "header_bytes": HEADER_BYTES,
            "trace_bytes": trace_bytes,
            "head_bytes": size,
            "chunk_bytes": chunk_bytes,
            "chunk_count": -(-(trace_bytes - size) // chunk_bytes),
            "section_count": len(head) + len(body),
            "flags": flags,
        },
    )
    return b"".join([header, table, *_padded(head)])


def with_zeros(head: bytes) -> memoryview:
    """A file with this head, and in place of its body zeros that take no memory."""
    file = mmap.mmap(-1, read_header(head)["trace_bytes"], flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    file[: len(head)] = head
    return memoryview(file).toreadonly()


def _padded(parts: Iterable[Part]) -> Iterator[Buffer]:
    """The bytes of sections that follow one another."""
    for part in parts:
        yield part.stored
        yield bytes(part.padding)


def chunk_hashes(pieces: Iterable[Buffer], chunk_bytes: int) -> bytes:
    """The SHA-256 of each chunk of what the pieces are together."""
    found = []
    digest, room = hashlib.sha256(), chunk_bytes
    for piece in pieces:
        rest = memoryview(piece)
        while len(rest):
            part, rest = rest[:room], rest[room:]
            digest.update(part)
            room -= len(part)
            if not room:
                found.append(digest.digest())
                digest, room = hashlib.sha256(), chunk_bytes
    if room < chunk_bytes:
        found.append(digest.digest())
    return b"".join(found)
