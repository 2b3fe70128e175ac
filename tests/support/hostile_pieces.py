# SPDX-License-Identifier: BSD-2-Clause
"""Hostile streamed traces: pieces used before they are there, over others, without end, or beside the rest.

`LOADS` is for devices with the feature streaming; others refuse all of them by the header.
"""

from __future__ import annotations

from tests.support import replayer_samples as s
from tests.support.hostile_networks import sections
from tests.support.hostile_rows import HUGE, Edit, Hostile, OfDevice, OfHost, Row, Unseen, good, rows
from tests.support.replayer_samples import PAGE, Parts
from trace_format import errors, layout, packing
from trace_format.actions import MAP_READ, MAP_WRITE
from trace_format.schema import (
    HEADER_FLAG_JOINT,
    HEADER_FLAG_RAW,
    HEADER_FLAG_STREAMED,
    MAX_PIECE_BYTES,
    MAX_PIECES,
    SECTION_FLAG_OPTIONAL,
    Codec,
    SectionType,
)
from trace_format.trace import Trace

BAD, RESERVED, SECTION, RANGE = (
    errors.PieceError,
    errors.ReservedError,
    errors.SectionError,
    errors.ActionRangeError,
)
STAYS, FIRST, WIDE, AGAIN = range(4)  # pieces of the sample
JOBS, CARVEOUT_PAGES = 4, 16
ROW = packing.size_of("piece")
STREAM_BYTES = 5 * PAGE


def sample() -> Trace:
    """What the rows start from."""
    return s.streamed(meta=good().meta)


def row(name: str, *fields: tuple[int, str, int], host: OfHost = BAD, device: OfDevice = "PIECES") -> Row:
    """Other values of fields of pieces: (index, field, value)."""

    def edit(parts: Parts) -> Parts:
        for index, field, value in fields:
            parts.piece(index, field, value)
        return parts

    return name, edit, device, host


def streamed(name: str, edit: Edit, device: OfDevice, host: OfHost) -> Row:
    """Another change."""
    return name, edit, device, host


def reserved(byte: int) -> Row:
    """A byte of the last row's reserved ones."""

    def edit(parts: Parts) -> Parts:
        parts.data[parts.section(SectionType.PIECES)[1] + JOBS * ROW - 6 + byte] = 1
        return parts

    return f"byte {byte} of a piece's reserved ones", edit, "PIECES", RESERVED


def sectioned(name: str, change: object, host: OfHost = SECTION, flags: int = HEADER_FLAG_STREAMED) -> Row:
    """Other sections, or other flags of the header."""
    return sections(name, change, "HEADER" if flags != HEADER_FLAG_STREAMED else "SECTIONS", host, flags)  # type: ignore[arg-type]


def rows_of(data: bytes) -> layout.Part:
    """The section PIECES with another content."""
    return layout.Part(SectionType.PIECES, data)


def resized(name: str, count: int, more: int = 0) -> Row:
    """As many rows as `count`, the last one again and again, and some bytes."""

    def change(found: list[layout.Part]) -> None:
        data = bytes(found[3].stored)
        found[3] = rows_of((data + data[-ROW:] * count)[: count * ROW] + bytes(more))

    return sectioned(name, change)


def at(found: list[layout.Part], kind: SectionType) -> int:
    """Index of the section of a type."""
    return next(index for index, part in enumerate(found) if part.type == kind)


def dropped(kind: SectionType) -> object:
    """Without a section."""
    return lambda found: found.pop(at(found, kind))


def moved(kind: SectionType, place: int) -> object:
    """With a section elsewhere."""
    return lambda found: found.insert(place, found.pop(at(found, kind)))


def twice(found: list[layout.Part]) -> None:
    """STREAM, again."""
    found.append(layout.Part(SectionType.STREAM, b"more".ljust(8)))


def optional(found: list[layout.Part]) -> None:
    """STREAM, flagged so that readers may pass over it."""
    found[-1] = layout.Part(SectionType.STREAM, found[-1].stored, SECTION_FLAG_OPTIONAL)


def in_the_body(found: list[layout.Part]) -> None:
    """PIECES in the body as well."""
    found.append(layout.Part(SectionType.PIECES, found[3].stored))


def packed(kind: SectionType) -> object:
    """A section's bytes as an LZ4 block would be."""

    def change(found: list[layout.Part]) -> None:
        index = at(found, kind)
        found[index] = layout.Part(kind, found[index].stored, codec=Codec.LZ4)

    return change


def _fields() -> list[Row]:
    """Each field of each piece out of its range."""
    found = []
    for index, name in enumerate(("the resident piece", "the first piece", "the wide piece", "the last piece")):
        for field, value in (
            *(
                ("bytes", value)
                for value in (0, 1, PAGE - 1, PAGE + 1, MAX_PIECE_BYTES + PAGE, HUGE, HUGE - PAGE + 1)
            ),
            *(("stored_bytes", value) for value in (STREAM_BYTES + 1, HUGE)),
            *(("offset", value) for value in (STREAM_BYTES, 1 << 32, (1 << 64) - 1, (1 << 64) - PAGE)),
            *(("page", value) for value in (0, CARVEOUT_PAGES, HUGE)),
            *(("last_job", value) for value in (JOBS, HUGE)),
            ("first_job", HUGE),
            ("from_job", HUGE),
        ):
            found.append(row(f"{name}: {field} {value:#x}", (index, field, value)))
    return found


LOADS: tuple[Hostile, ...] = rows(
    [
        *_fields(),
        *map(reserved, range(6)),
        *(row(f"flags {1 << bit:#x}", (FIRST, "flags", 1 << bit), host=RESERVED) for bit in range(1, 8)),
        *(row(f"codec {codec}", (FIRST, "codec", codec), host=errors.CodecError) for codec in (2, 3, 255)),
        row("a piece that is smaller in the file", (FIRST, "stored_bytes", PAGE - 8), host=errors.CodecError),
        row("a piece that is larger in the file", (FIRST, "stored_bytes", PAGE + 8), host=errors.CodecError),
        row("used before it may be there", (AGAIN, "from_job", 3)),
        row("let go before it is used", (WIDE, "last_job", 0)),
        row("a job before the one before", (AGAIN, "first_job", 0), (AGAIN, "from_job", 0), (AGAIN, "page", 15)),
        row("written while the piece before is used", (AGAIN, "from_job", 1)),
        row("written from the start, over a piece that is used", (AGAIN, "from_job", 0)),
        row("a piece that outlives the next one's start", (FIRST, "last_job", 2)),
        row("a piece that never ends, over another", (FIRST, "last_job", 3)),
        row("a wide piece over the first one", (WIDE, "page", 12)),
        row("a wide piece that ends in the first one", (WIDE, "page", 11)),
        row("a wide piece beyond the carve-out", (WIDE, "page", 15)),
        row("the last piece in the wide one", (AGAIN, "page", 14)),
        row("a piece in the image", (AGAIN, "page", 0)),
        row("a piece in a resident one", (AGAIN, "page", 1)),
        row("a resident piece in the image", (STAYS, "page", 0)),
        row("a resident piece behind others", (STAYS, "page", 15)),
        row("a resident piece in the midst of others", (STAYS, "page", 13)),
        row("a resident piece that comes late", (STAYS, "from_job", 1), (STAYS, "first_job", 1)),
        row("a resident piece that goes", (STAYS, "last_job", 2)),
        row("a resident piece of one job", (STAYS, "last_job", 0)),
        row("a resident piece over another's memory", (FIRST, "flags", 1), (FIRST, "last_job", 3)),
        row("all the file as one piece", (FIRST, "bytes", STREAM_BYTES), (FIRST, "stored_bytes", STREAM_BYTES)),
        resized("no rows", 0),
        resized("no rows, but bytes", 0, 8),
        resized("a row that is cut short", 3, ROW - 8),
        resized("bytes after the rows", 4, 8),
        resized("a row more than a device takes", MAX_PIECES + 1),
        streamed("the same piece again", resized("", 5)[1], "PIECES", BAD),
        streamed("one piece again and again", resized("", MAX_PIECES)[1], "PIECES", BAD),
        sectioned("no STREAM", dropped(SectionType.STREAM)),
        sectioned("no PIECES", dropped(SectionType.PIECES)),
        sectioned("STREAM twice", twice),
        sectioned("STREAM that may be passed over", optional, RESERVED),
        sectioned("STREAM before the image", moved(SectionType.STREAM, 5)),
        sectioned("STREAM before the actions", moved(SectionType.STREAM, 4), errors.SectionRangeError),
        sectioned("PIECES before the chunks", moved(SectionType.PIECES, 2)),
        sectioned("PIECES in the body", in_the_body),
        sectioned("packed PIECES", packed(SectionType.PIECES)),
        sectioned("packed STREAM", packed(SectionType.STREAM)),
        sectioned("raw and streamed", list, RESERVED, HEADER_FLAG_STREAMED | HEADER_FLAG_RAW),
        sectioned("joint, without networks", list, SECTION, HEADER_FLAG_STREAMED | HEADER_FLAG_JOINT),
        streamed("no flag", sections("", list, flags=0)[1], "SECTIONS", errors.SectionRangeError),  # type: ignore[arg-type]
        streamed(
            "the GPU may write to a resident piece",
            lambda p: p.action(0, flags=MAP_READ | MAP_WRITE, b=1, value=1),
            "RANGE",
            RANGE,
        ),
        streamed(
            "the GPU may write to a resident piece and what follows",
            lambda p: p.action(0, flags=MAP_READ | MAP_WRITE, b=1, value=4),
            "RANGE",
            RANGE,
        ),
        streamed("an upload to a resident piece", lambda p: p.action(3, a=PAGE), "RANGE", RANGE),
        streamed("an upload to a resident piece's end", lambda p: p.action(3, a=2 * PAGE - 8), "RANGE", RANGE),
        streamed("an upload from a piece", lambda p: p.action(3, b=12 * PAGE), "RANGE", RANGE),
        streamed(
            "fewer jobs than pieces need", lambda p: p.manifest("job_count", 3), "PIECES", errors.ManifestError
        ),
    ],
    sample,
)
GOOD: tuple[Hostile, ...] = rows(
    [
        streamed("nothing is wrong", lambda parts: parts, Unseen("it is good"), Unseen("it is good")),
        row(
            "two pieces of the same bytes",
            (FIRST, "offset", 0),
            device=Unseen("it is good"),
            host=Unseen("it is good"),
        ),
        row(
            "a piece that is read as late as can be",
            (WIDE, "from_job", 1),
            device=Unseen("it is good"),
            host=Unseen("it is good"),
        ),
    ],
    sample,
)
