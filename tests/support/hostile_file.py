# SPDX-License-Identifier: BSD-2-Clause
"""Hostile layouts: the header, the section table, chunks and their hashes, codecs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import lz4.block

from signing.verify import Verdict
from tests.support import replayer_samples as s
from tests.support.hostile_rows import EVERYTHING, Edit, Unseen, good, resectioned, rows
from tests.support.replayer_samples import PAGE, Parts
from trace_format import errors, layout
from trace_format.schema import SECTION_FLAG_OPTIONAL, Codec, SectionType

IMAGE, ACTIONS, MANIFEST = SectionType.IMAGE, SectionType.ACTIONS, SectionType.MANIFEST
SLOTS, CHUNKS, NOTES = SectionType.SLOTS, SectionType.CHUNKS, SectionType.NOTES
ENTRY = {"type": (0, 2), "flags": (2, 2), "codec": (4, 1), "raw_bytes": (24, 8)}  # offset and size of its fields
FIRST_OPTIONAL = 64 + 5 * 32  # its entry
NOT_READ = Unseen("a device reads nothing of optional sections")


def in_entry(kind: SectionType, **fields: int) -> Edit:
    """Other fields of an entry of the section table."""

    def edit(parts: Parts) -> Parts:
        for name, value in sorted(fields.items(), key=lambda field: field[0] == "type"):  # by which it is found
            parts.entry(kind, name, value)
        return parts

    return edit


def swapped(left: SectionType, right: SectionType) -> Edit:
    """Two sections exchange their types."""

    def edit(parts: Parts) -> Parts:
        first, second = parts.section(left)[0], parts.section(right)[0]
        return parts.patch(first, right, 2).patch(second, left, 2)

    return edit


def optional(*sections: bytes, **fields: int) -> Edit:
    """Optional sections after the image; the fields are of the last one's entry, and set when all is laid out."""

    def edit(_parts: Parts) -> Parts:
        parts = [layout.Part(99, raw, SECTION_FLAG_OPTIONAL) for raw in sections]
        found = resectioned(good(), lambda body: body.extend(parts))
        at = FIRST_OPTIONAL
        for index in range(len(sections)):
            for name, value in fields.items() if index == len(sections) - 1 else {"type": NOTES}.items():
                where, size = ENTRY[name]
                found.patch(at + index * 32 + where, value, size)
        return found

    return edit


def packed_image(codec: Codec, stored: bytes, raw_bytes: int) -> Parts:
    """A trace whose image is one packed section."""
    part = layout.Part(IMAGE, stored, 0, codec, raw_bytes)
    return resectioned(good(), lambda body: body.__setitem__(1, part)).manifest("image_bytes", raw_bytes)


def lz4_image(stored: bytes, raw_bytes: int) -> Edit:
    """An image of one LZ4 block."""
    return lambda _: packed_image(Codec.LZ4, stored, raw_bytes)


def chunks(change: Callable[[Parts], object]) -> Edit:
    """A trace of more than one chunk, changed after its chunks are hashed; the head is signed again."""

    def edit(_parts: Parts) -> bytes:
        sample = good(image=bytes(range(256)) * 48)
        parts = Parts(bytearray(sample.build(compress=False, chunk_bytes=PAGE)))
        change(parts)
        return s.signed(bytes(parts.data))

    return edit


def exchange_hashes(parts: Parts) -> None:
    at = parts.section(CHUNKS)[1]
    parts.data[at : at + 64] = parts.data[at + 32 : at + 64] + parts.data[at : at + 32]


def exchange_chunks(parts: Parts) -> None:
    at = int.from_bytes(parts.data[24:28], "little")
    first, second = parts.data[at : at + PAGE], parts.data[at + PAGE : at + 2 * PAGE]
    parts.data[at : at + 2 * PAGE] = second + first


def hash_nothing(parts: Parts) -> None:
    at = parts.section(CHUNKS)[1]
    parts.data[at : at + 32] = hashlib.sha256(b"").digest()


def pad(kind: SectionType) -> Edit:
    """A byte that is not zero in the padding after a section."""

    def edit(_parts: Parts) -> Parts:
        sample = good(image=s.IMAGE[:-3])
        parts = Parts.of(sample)
        entry = parts.section(kind)[0]
        offset, stored = (int.from_bytes(parts.data[entry + at :][:8], "little") for at in (8, 16))
        return parts.patch(offset + stored, 1, 1)

    return edit


HEADERS = rows(
    [
        ("magic of a signed trace", lambda p: p.patch(0, 0x1A0A0D0A47534789, 8), "HEADER", errors.MagicError),
        ("major version 0", lambda p: p.header("version_major", 0), "HEADER", errors.VersionError),
        ("major version 2", lambda p: p.header("version_major", 2), "HEADER", errors.VersionError),
        ("minor version 1", lambda p: p.header("version_minor", 1), "HEADER", errors.VersionError),
        ("a header of 72 bytes", lambda p: p.header("header_bytes", 72), "HEADER", errors.ReservedError),
        ("another size of the trace", lambda p: p.header("trace_bytes", 1 << 20), "HEADER", errors.TruncatedError),
        ("a trace smaller than its head", lambda p: p.header("trace_bytes", 64), "HEADER", errors.ReservedError),
        (
            "a head of 8 bytes more",
            lambda p: p.header("head_bytes", int.from_bytes(p.data[24:28], "little") + 8),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "a head of 8 bytes less",
            lambda p: p.header("head_bytes", int.from_bytes(p.data[24:28], "little") - 8),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "a head of half a word more",
            lambda p: p.header("head_bytes", int.from_bytes(p.data[24:28], "little") + 4),
            "HEADER",
            errors.SectionRangeError,
        ),
        (
            "a head without the section table",
            lambda p: p.header("head_bytes", 64),
            "HEADER",
            errors.SectionRangeError,
        ),
        (
            "a head of the whole file",
            lambda p: p.header("head_bytes", len(p.data)),
            "HEADER",
            errors.SectionRangeError,
        ),
        (
            "a head beyond the file",
            lambda p: p.header("head_bytes", len(p.data) + 8),
            "HEADER",
            errors.ReservedError,
        ),
        (
            "a head of more than 1 MiB",
            lambda p: p.header("head_bytes", (1 << 20) + 8),
            "HEADER",
            errors.ReservedError,
        ),
        ("a head of 4 GiB", lambda p: p.header("head_bytes", 0xFFFFFFF8), "HEADER", errors.ReservedError),
        ("no chunks", lambda p: p.header("chunk_bytes", 0), "HEADER", errors.ReservedError),
        ("chunks of an odd size", lambda p: p.header("chunk_bytes", 16388), "HEADER", errors.ReservedError),
        ("tiny chunks", lambda p: p.header("chunk_bytes", 2048), "HEADER", errors.ReservedError),
        ("huge chunks", lambda p: p.header("chunk_bytes", 1 << 20), "HEADER", errors.ReservedError),
        ("chunks of three pages", lambda p: p.header("chunk_bytes", 3 * PAGE), "HEADER", errors.ReservedError),
        ("another number of chunks", lambda p: p.header("chunk_count", 9), "HEADER", errors.SectionError),
        ("a number of no chunks", lambda p: p.header("chunk_count", 0), "HEADER", errors.SectionError),
        (
            "no sections",
            lambda p: s.signed(bytes(p.header("section_count", 0).data)),
            "HEADER",
            errors.ReservedError,
        ),
        ("too few sections", lambda p: p.header("section_count", 3), "HEADER", errors.SectionRangeError),
        ("a section less", lambda p: p.header("section_count", 4), "SECTIONS", errors.SectionRangeError),
        ("a section more", lambda p: p.header("section_count", 6), "SECTIONS", errors.SectionRangeError),
        ("too many sections", lambda p: p.header("section_count", 60), "HEADER", errors.SectionRangeError),
        ("65 sections", lambda p: p.header("section_count", 65), "HEADER", errors.ReservedError),
        ("unknown flags of the header", lambda p: p.header("flags", 32), "HEADER", errors.ReservedError),
        ("the last flag of the header", lambda p: p.header("flags", 1 << 15), "HEADER", errors.ReservedError),
        ("reserved bytes of the header", lambda p: p.header("reserved", 1), "HEADER", errors.ReservedError),
        ("the header's last reserved byte", lambda p: p.patch(63, 1, 1), "HEADER", errors.ReservedError),
    ]
)

OPTIONAL = optional(b'{"passes":[]}', b"x" * 17)
SECTIONS = rows(
    [
        ("reserved bytes of a section", in_entry(IMAGE, reserved=1), "SECTIONS", errors.ReservedError),
        ("a section's last reserved byte", in_entry(IMAGE, reserved=1 << 16), "SECTIONS", errors.ReservedError),
        ("unknown flags of a section", in_entry(IMAGE, flags=2), "SECTIONS", errors.ReservedError),
        ("an optional image", in_entry(IMAGE, flags=1), "SECTIONS", errors.ReservedError),
        ("an optional manifest", in_entry(MANIFEST, flags=1), "SECTIONS", errors.ReservedError),
        ("optional actions", in_entry(ACTIONS, flags=1), "SECTIONS", errors.ReservedError),
        ("notes that are not optional", in_entry(IMAGE, type=NOTES), "SECTIONS", errors.ReservedError),
        ("a second manifest", in_entry(IMAGE, type=MANIFEST), "SECTIONS", errors.SectionError),
        ("a second manifest, optional", in_entry(IMAGE, flags=1, type=MANIFEST), "SECTIONS", errors.ReservedError),
        ("slots in the body", in_entry(IMAGE, type=SLOTS), "SECTIONS", errors.SectionError),
        ("hashes in the body", in_entry(IMAGE, type=CHUNKS), "SECTIONS", errors.SectionError),
        ("an image before the actions", swapped(ACTIONS, IMAGE), "SECTIONS", errors.SectionError),
        ("no actions", in_entry(ACTIONS, type=IMAGE), "SECTIONS", errors.SectionError),
        ("slots before the manifest", swapped(MANIFEST, SLOTS), "SECTIONS", errors.SectionError),
        ("hashes before the slots", swapped(SLOTS, CHUNKS), "SECTIONS", errors.SectionError),
        ("unknown section", in_entry(IMAGE, type=99), "SECTIONS", errors.UnknownSectionError),
        ("section of type zero", in_entry(IMAGE, type=0), "SECTIONS", errors.UnknownSectionError),
        ("compressed manifest", in_entry(MANIFEST, codec=1), "SECTIONS", errors.SectionError),
        ("compressed hashes", in_entry(CHUNKS, codec=1), "SECTIONS", errors.SectionError),
        ("too few hashes", in_entry(CHUNKS, stored_bytes=0, raw_bytes=0), "SECTIONS", errors.SectionRangeError),
        (
            "a smaller manifest",
            in_entry(MANIFEST, stored_bytes=504, raw_bytes=504),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "a larger manifest",
            lambda _: resectioned(good(), lambda body: None, more=bytes(8)),
            "SECTIONS",
            errors.SectionError,
        ),
        ("unknown codec", in_entry(ACTIONS, codec=3), "SECTIONS", errors.CodecError),
        ("byte planes, which were a codec", in_entry(ACTIONS, codec=2), "SECTIONS", errors.CodecError),
        ("a section elsewhere", in_entry(IMAGE, offset=8), "SECTIONS", errors.SectionRangeError),
        (
            "a section at the end of all addresses",
            in_entry(IMAGE, offset=EVERYTHING - 7),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "a gap between sections",
            lambda p: p.entry(IMAGE, "offset", p.section(IMAGE)[1] + 8),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "a section at half a word",
            lambda p: p.entry(IMAGE, "offset", p.section(IMAGE)[1] + 4),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "section beyond the file",
            in_entry(IMAGE, stored_bytes=1 << 40, raw_bytes=1 << 40),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "section of all bytes there are",
            in_entry(IMAGE, stored_bytes=EVERYTHING, codec=1),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "section of more than 4 GiB",
            in_entry(IMAGE, raw_bytes=(1 << 32) + 1, codec=1),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        (
            "bytes that no section has",
            in_entry(IMAGE, stored_bytes=len(s.IMAGE) - 8, raw_bytes=len(s.IMAGE) - 8),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        ("stored section of two sizes", in_entry(IMAGE, raw_bytes=8), "SECTIONS", errors.ManifestError),
        ("padding after the image", pad(IMAGE), "SECTIONS", errors.ReservedError),
        ("two sections of notes", optional(b"{}", b"{}", type=NOTES), "SECTIONS", errors.SectionError),
        (
            "a second section of actions",
            optional(b"x" * 16, type=ACTIONS, flags=0),
            "SECTIONS",
            errors.SectionError,
        ),
        (
            "an image after the notes",
            optional(b"{}", b"x" * 16, type=IMAGE, flags=0),
            "SECTIONS",
            errors.SectionError,
        ),
        ("actions that are optional", optional(b"x" * 16, type=ACTIONS), "SECTIONS", errors.ReservedError),
        ("an optional section of unknown codec", optional(b"x" * 16, codec=3), "SECTIONS", errors.CodecError),
        ("an optional section of two sizes", optional(b"x" * 16, raw_bytes=8), "SECTIONS", errors.CodecError),
        (
            "an optional section of more than 4 GiB",
            optional(b"x", codec=1, raw_bytes=(1 << 32) + 1),
            "SECTIONS",
            errors.SectionRangeError,
        ),
        ("notes of unknown codec", optional(b"{}", type=NOTES, codec=9), "SECTIONS", errors.CodecError),
        ("notes that are not JSON", optional(b"{", type=NOTES), NOT_READ, errors.SectionError),
        ("notes that are a list", optional(b"[]", type=NOTES), NOT_READ, errors.SectionError),
        ("notes that are not compressed", optional(b"{}", type=NOTES, codec=1), NOT_READ, errors.CodecError),
        (
            "an optional section that is not compressed",
            optional(b"x" * 16, codec=1),
            NOT_READ,
            Unseen("nor does the host"),
        ),
    ]
)


def packed(table: dict[str, tuple[bytes, int]]) -> list[tuple[str, Edit, str, type[errors.TraceError]]]:
    """Rows of images of LZ4 blocks."""
    return [(name, lz4_image(*block), "CODEC", errors.CodecError) for name, block in table.items()]


GOOD = lz4.block.compress(s.IMAGE, store_size=False)
COMPRESSED = lz4_image(GOOD, len(s.IMAGE))
CODECS = rows(
    [
        *packed(
            {
                "LZ4: no bytes": (b"", 64),
                "LZ4: a match before any output": (b"\x00\x01\x00\x50aaaaa", 64),
                "LZ4: a distance of zero": (b"\x1fa\x00\x00\x10a", 64),
                "LZ4: a distance before the start": (b"\x10a\x02\x00\x50aaaaa", 64),
                "LZ4: a match longer than the section": (b"\x1fa\x01\x00\xff\x00\x50aaaaa", 64),
                "LZ4: literals longer than the section": (b"\xf0\xff\xff\x00" + bytes(600), 64),
                "LZ4: literals beyond the data": (b"\xf0\x20" + bytes(8), 64),
                "LZ4: a length without an end": (b"\xf0" + b"\xff" * 500, 64),
                "LZ4: a match that is cut": (b"\x10a\x01", 64),
                "LZ4: a section that is cut": (GOOD[:-7], len(s.IMAGE)),
                "LZ4: fewer bytes than stated": (GOOD, len(s.IMAGE) + 8),
                "LZ4: more bytes than stated": (GOOD, len(s.IMAGE) - 8),
                "LZ4: a byte after the last": (GOOD + b"\0", len(s.IMAGE)),
                "LZ4: a bomb": (b"\x1fa\x01\x00" + b"\xff" * 300 + b"\x00\x50aaaaa", 1 << 14),
            }
        ),
        (
            "LZ4: a last match too near to the end",
            lz4_image(b"\x1fa\x01\x00" + b"\xff" * 7 + b"\xf0\x30aaa", len(s.IMAGE)),
            Unseen("blocks end so for fast decoders, which the device has not"),
            errors.CodecError,
        ),
        ("an image that is not compressed", in_entry(IMAGE, codec=1), "CODEC", errors.CodecError),
        ("actions that are not compressed", in_entry(ACTIONS, codec=1), "CODEC", errors.CodecError),
        (
            "slots that are not compressed",
            lambda p: in_entry(SLOTS, codec=1, raw_bytes=128 * 200)(p.manifest("slot_count", 200)),
            "CODEC",
            errors.CodecError,
        ),
        (
            "slots of an odd size",
            in_entry(SLOTS, codec=1, raw_bytes=128 + 8),
            "SECTIONS",
            errors.SectionError,
        ),
        (
            "actions of an odd size",
            in_entry(ACTIONS, codec=1, raw_bytes=16 * 3 + 8),
            "SECTIONS",
            errors.SectionError,
        ),
    ]
)

BODIES = rows(
    [
        ("hashes of two chunks exchanged", chunks(exchange_hashes), "CHUNK", Verdict.BAD_CHUNK),
        ("two chunks exchanged", chunks(exchange_chunks), "CHUNK", Verdict.BAD_CHUNK),
        ("the hash of no bytes", chunks(hash_nothing), "CHUNK", Verdict.BAD_CHUNK),
        (
            "a changed byte of the last chunk",
            chunks(lambda p: p.patch(len(p.data) - 8, 0, 8)),
            "CHUNK",
            Verdict.BAD_CHUNK,
        ),
    ]
)

ROWS = HEADERS + SECTIONS + CODECS + BODIES
