# SPDX-License-Identifier: BSD-2-Clause
"""How a trace's file stores its sections: what has to be said besides what they hold for the same bytes again."""

from __future__ import annotations

from dataclasses import dataclass, field

from trace_format import assembly, codec, layout
from trace_format.codec import Buffer
from trace_format.errors import CodecError
from trace_format.schema import (
    SECTION_FLAG_OPTIONAL,
    Codec,
    SectionType,
)
from trace_format.trace import Trace, notes_bytes

NAMES = {
    type: type.name.lower()
    for type in (SectionType.SLOTS, SectionType.ACTIONS, SectionType.IMAGE, SectionType.NOTES)
}
# What follows from the rest, or is said elsewhere, and stored as it is.
IMPLIED = (SectionType.MANIFEST, SectionType.CHUNKS, SectionType.NETWORKS)
TYPES = {name: type for type, name in NAMES.items()}


@dataclass(frozen=True)
class Stored:
    """A section.

    Attributes:
        type: a SectionType, or the number of one that only its maker knows.
        codec: how it is stored.
        raw_bytes: size of its content.
        packed: its bytes in the file, where they do not follow from its content and its codec; None: they do.
    """

    type: int
    codec: int
    raw_bytes: int
    packed: bytes | None = None


@dataclass(frozen=True)
class Storage:
    """How a file stores its sections.

    Attributes:
        chunk_bytes: size of the body's chunks.
        sections: all but manifest, chunk hashes and networks, in order.
    """

    chunk_bytes: int
    sections: list[Stored] = field(default_factory=list)


class StorageError(Exception):
    """Sections that cannot hold what the trace has; `index`: of the one at fault, None: of none."""

    def __init__(self, what: str, index: int | None = None) -> None:
        super().__init__(what)
        self.index = index


def storage_of(data: bytes) -> Storage:
    """How a trace's file, which `Trace.parse` accepts, is stored."""
    header, parts = layout.disassemble(data)
    kept = [part for part in parts if part.type not in IMPLIED]
    return Storage(header["chunk_bytes"], [_stored(part) for part in kept])


def _stored(part: layout.Part) -> Stored:
    if part.type in NAMES:
        method, content = Codec(part.codec), part.decode()
        if codec.packed_as(method, content) == part.stored:
            return Stored(part.type, method, part.raw_bytes)
    return Stored(part.type, part.codec, part.raw_bytes, bytes(part.stored))


def notes_of(data: bytes) -> bytes | None:
    """Content of the notes' section; None: there is none."""
    found = layout.disassemble(data)[1].all(SectionType.NOTES)
    return found[0].decode() if found else None


def file_of(trace: Trace, storage: Storage | None, notes: bytes | None) -> bytes:
    """The trace's file.

    Args:
        storage: how sections are stored; None: as `Trace.build` does it.
        notes: content of the notes' section; None: it has none.

    Raises:
        StorageError: the sections do not hold what there is, or not all of it.
        TraceError: the trace breaks a rule.
    """
    if storage is None:
        return trace.build()
    trace.check()
    contents = {
        SectionType.SLOTS: trace.slot_bytes(),
        SectionType.ACTIONS: trace.actions.tobytes(),
        SectionType.IMAGE: trace.image,
        SectionType.NOTES: notes,
    }
    found = []
    done = dict.fromkeys(contents, 0)
    for index, section in enumerate(storage.sections):
        if section.type not in NAMES:
            part = layout.Part(
                section.type, section.packed or b"", SECTION_FLAG_OPTIONAL, section.codec, section.raw_bytes
            )
        else:
            type = SectionType(section.type)
            content = contents[type]
            if content is None:
                raise StorageError("expected notes, for there is a section for them, found none", index)
            start = done[type]
            size = section.raw_bytes if type is SectionType.IMAGE else len(content)
            done[type] = start + size
            part = _part(section, content[start : start + size], index)
        found.append(part)
    for type, content in contents.items():
        if content is not None and done[type] != len(content):
            name = NAMES[type]
            raise StorageError(f"expected sections for the {len(content)} bytes of {name}, found {done[type]}")
        if content is None and done[type]:
            raise StorageError("expected no section for notes")
    head = [part for part in found if part.type == SectionType.SLOTS]
    body = [part for part in found if part.type != SectionType.SLOTS]
    manifest = layout.Part(SectionType.MANIFEST, trace.manifest_bytes())
    if trace.networks:
        head.append(layout.Part(SectionType.NETWORKS, trace.network_bytes()))
    return assembly.assemble([manifest, *head], body, storage.chunk_bytes, trace.header_flags)


def _part(section: Stored, content: Buffer, index: int) -> layout.Part:
    flags = SECTION_FLAG_OPTIONAL if section.type == SectionType.NOTES else 0
    if section.packed is not None:
        try:
            same = codec.decode(section.codec, section.packed, len(content), offset=0) == content
        except CodecError:
            same = False
        if not same:
            what = "expected packed bytes of what the section holds now (without any, it is packed anew)"
            raise StorageError(f"{what}, found those of another content", index)
        stored = section.packed
    else:
        stored = bytes(codec.packed_as(Codec(section.codec), content))
    return layout.Part(section.type, stored, flags, section.codec, len(content))


def is_canonical(notes: bytes, trace: Trace) -> bool:
    """Whether these are the bytes that the notes would be written as."""
    return notes == notes_bytes(trace.notes)
