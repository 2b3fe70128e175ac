# SPDX-License-Identifier: BSD-2-Clause
"""A malformed header, section table or chunk is refused with its own error and offset."""

from __future__ import annotations

import pytest

from tests.support.trace_edits import (
    ANY_BODY,
    END,
    HEAD,
    HEADER,
    NOTE,
    START,
    Malformed,
    append,
    assert_refused,
    at_entry,
    at_header,
    both,
    entry,
    header,
    put,
    swapped,
)
from trace_format import errors, schema
from trace_format.schema import SectionType

# name, edit of the plain sample, class, offset, message
MALFORMED: list[Malformed] = [
    # header
    ("magic", put(0, b"\x88"), errors.MagicError, 0, "not a trace"),
    ("a text file", put(0, b"#!/bin/sh"), errors.MagicError, 0, "not a trace"),
    ("line ends changed", put(4, b"\n\n"), errors.MagicError, 0, "not a trace"),
    ("signed magic", put(0, schema.SIGNED_MAGIC), errors.MagicError, 0, "not a trace"),
    ("major version 0", header("version_major", 0), errors.VersionError, 8, "version of the format"),
    ("major version 2", header("version_major", 2), errors.VersionError, 8, "expected 1, found 2"),
    ("minor version 1", header("version_minor", 1), errors.VersionError, 10, "minor version: expected at most 0"),
    ("header_bytes 63", header("header_bytes", 63), errors.ReservedError, 12, "header_bytes"),
    ("trace_bytes smaller", header("trace_bytes", END - 8), errors.SectionRangeError, END, "size of the file"),
    ("trace_bytes larger", header("trace_bytes", END + 8), errors.TruncatedError, END, "size of the file"),
    ("trace_bytes 2^64-1", header("trace_bytes", (1 << 64) - 1), errors.TruncatedError, END, "size of the file"),
    ("trace_bytes 0", header("trace_bytes", 0), errors.ReservedError, 24, "at most trace_bytes"),
    ("bytes past the end", append(b"\0"), errors.SectionRangeError, END + 1, "size of the file"),
    ("head_bytes 8 more", header("head_bytes", HEAD + 8), errors.SectionRangeError, HEAD, "end of the head"),
    ("head_bytes 8 less", header("head_bytes", HEAD - 8), errors.SectionRangeError, HEAD, "end of the head"),
    ("head_bytes over 1 MiB", header("head_bytes", (1 << 20) + 8), errors.ReservedError, 24, "at most 1048576"),
    ("head within the table", header("head_bytes", 80), errors.SectionRangeError, 36, "beyond the head"),
    ("chunk_bytes 0", header("chunk_bytes", 0), errors.ReservedError, 28, "a power of two"),
    ("chunk_bytes 2048", header("chunk_bytes", 2048), errors.ReservedError, 28, "a power of two"),
    ("chunk_bytes 128 KiB", header("chunk_bytes", 1 << 17), errors.ReservedError, 28, "a power of two"),
    ("chunk_bytes 5000", header("chunk_bytes", 5000), errors.ReservedError, 28, "a power of two"),
    ("chunk_bytes doubled", header("chunk_bytes", 8192), errors.SectionError, START[2], "number of chunk hashes"),
    ("chunk_count 0", header("chunk_count", 0), errors.SectionError, START[2], "number of chunk hashes"),
    ("chunk_count 1 more", header("chunk_count", 4), errors.SectionError, START[2], "number of chunk hashes"),
    ("no sections", header("section_count", 0), errors.ReservedError, 36, "section_count"),
    ("65 sections", header("section_count", 65), errors.ReservedError, 36, "section_count"),
    ("64 sections", header("section_count", 64), errors.SectionRangeError, 36, "beyond the head"),
    ("a section less", header("section_count", 5), errors.SectionRangeError, at_entry(0, "offset"), "offset of"),
    ("header flag 2", header("flags", 4), errors.VersionError, 38, "(join its traces again)"),
    ("header flags 2 and 3", header("flags", 12), errors.VersionError, 38, "an old joint trace"),
    ("header flag 3 without networks", header("flags", 8), errors.SectionError, 64, "the head's sections"),
    ("header flags 0 and 3", header("flags", 9), errors.ReservedError, 38, "a joint trace is not raw"),
    ("header flag 4 without pieces", header("flags", 16), errors.SectionError, 64, "the head's sections"),
    ("header flag 5", header("flags", 32), errors.ReservedError, 38, "reserved header flags"),
    ("header flag 15", header("flags", 0x8000), errors.ReservedError, 38, "reserved header flags"),
    (
        "header reserved",
        put(at_header("reserved") + 23, b"\1"),
        errors.ReservedError,
        40,
        "header: reserved bytes",
    ),
    # section table
    (
        "unknown section",
        both(entry(5, "type", 99), entry(5, "flags", 0)),
        errors.UnknownSectionError,
        at_entry(5, "type"),
        "section type",
    ),
    (
        "section type 0",
        both(entry(5, "type", 0), entry(5, "flags", 0)),
        errors.UnknownSectionError,
        at_entry(5, "type"),
        "found 0",
    ),
    ("section flag 1", entry(4, "flags", 2), errors.ReservedError, at_entry(4, "flags"), "reserved section flags"),
    (
        "optional manifest",
        entry(0, "flags", 1),
        errors.ReservedError,
        at_entry(0, "flags"),
        "optional flag of a section",
    ),
    ("optional image", entry(4, "flags", 1), errors.ReservedError, at_entry(4, "flags"), "expected 0, found 1"),
    (
        "notes not optional",
        entry(5, "flags", 0),
        errors.ReservedError,
        at_entry(5, "flags"),
        "expected 1, found 0",
    ),
    (
        "section reserved",
        put(at_entry(3, "reserved"), b"\0\1"),
        errors.ReservedError,
        at_entry(3, "reserved"),
        "section: res",
    ),
    (
        "misaligned",
        entry(4, "offset", START[4] + 4),
        errors.SectionRangeError,
        at_entry(4, "offset"),
        "offset of a section",
    ),
    (
        "overlap",
        entry(4, "offset", START[4] - 8),
        errors.SectionRangeError,
        at_entry(4, "offset"),
        "offset of a section",
    ),
    (
        "gap of 8",
        entry(4, "offset", START[4] + 8),
        errors.SectionRangeError,
        at_entry(4, "offset"),
        "offset of a section",
    ),
    ("offset 0", entry(0, "offset", 0), errors.SectionRangeError, at_entry(0, "offset"), "offset of a section"),
    (
        "offset 2^64-8",
        entry(4, "offset", (1 << 64) - 8),
        errors.SectionRangeError,
        at_entry(4, "offset"),
        "offset of",
    ),
    (
        "stored beyond the file",
        entry(5, "stored_bytes", 4096),
        errors.SectionRangeError,
        at_entry(5, "stored_bytes"),
        "beyond",
    ),
    (
        "stored_bytes wraps",
        entry(5, "stored_bytes", (1 << 64) - 8),
        errors.SectionRangeError,
        at_entry(5, "stored_bytes"),
        "beyond",
    ),
    ("last section short", entry(5, "stored_bytes", 8), errors.SectionRangeError, None, "end of the last section"),
    ("padding not zero", put(START[5] - 1, b"\1"), errors.ReservedError, START[5] - 5, "padding after a section"),
    (
        "padding at the end",
        put(END - 1, b"\1"),
        errors.ReservedError,
        START[5] + len(NOTE),
        "padding after a section",
    ),
    (
        "raw_bytes over 4 GiB",
        entry(4, "raw_bytes", (1 << 32) + 1),
        errors.SectionRangeError,
        at_entry(4, "raw_bytes"),
        "4 GiB",
    ),
    (
        "packed manifest",
        entry(0, "codec", 1),
        errors.SectionError,
        at_entry(0, "codec"),
        "must be stored as they are",
    ),
    (
        "packed hashes",
        entry(2, "codec", 1),
        errors.SectionError,
        at_entry(2, "codec"),
        "must be stored as they are",
    ),
    ("slots that are not packed", entry(1, "codec", 1), errors.CodecError, START[1], "LZ4 data is damaged"),
    ("more slots", entry(1, "raw_bytes", 512), errors.SectionError, START[1], "expected 256, found 512"),
    ("slots before the manifest", swapped(0, 1), errors.SectionError, HEADER, "the head's sections"),
    ("actions in the head", swapped(2, 3), errors.SectionError, HEADER, "the head's sections"),
    ("image before actions", swapped(3, 4), errors.SectionError, None, "order of the body's sections"),
    (
        "notes before the image",
        both(swapped(4, 5), entry(4, "flags", 1), entry(5, "flags", 0)),
        errors.SectionError,
        None,
        "order of the body",
    ),
    ("no actions", entry(3, "type", SectionType.IMAGE), errors.SectionError, None, "order of the body's sections"),
    (
        "two actions",
        entry(4, "type", SectionType.ACTIONS),
        errors.SectionError,
        None,
        "order of the body's sections",
    ),
    (
        "second manifest",
        both(entry(5, "type", 1), entry(5, "flags", 0)),
        errors.SectionError,
        START[5],
        "a head section in the body",
    ),
    # chunks
    ("chunk hash", put(START[2], ANY_BODY), errors.ChunkHashError, HEAD, "chunk 0 is damaged"),
    (
        "second chunk's hash",
        put(START[2] + 32, ANY_BODY),
        errors.ChunkHashError,
        HEAD + 4096,
        "chunk 1 is damaged",
    ),
    ("body", put(END - 6, b"x"), errors.ChunkHashError, HEAD + 8192, "chunk 2 is damaged"),
    ("image", put(START[4] + 5000, b"x"), errors.ChunkHashError, HEAD + 4096, "chunk 1 is damaged"),
]


@pytest.mark.parametrize("row", MALFORMED, ids=[row[0] for row in MALFORMED])
def test_malformed(row: Malformed) -> None:
    assert_refused(row)


def test_malformed_names_are_unique() -> None:
    names = [row[0] for row in MALFORMED]
    assert len(names) == len(set(names)) >= 40
