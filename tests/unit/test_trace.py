# SPDX-License-Identifier: BSD-2-Clause
"""Traces: what is built is read back, and every malformed file is refused with its own error and offset."""

from __future__ import annotations

import hashlib
import json
import mmap
from collections.abc import Callable
from typing import Any

import lz4.block
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.sampling import SomeOf
from tests.support.trace_samples import CARVEOUT, Damage, list_item, offset_of, sample, traces
from trace_format import codec, errors, layout, schema
from trace_format.actions import ACTION_DTYPE, Op, action
from trace_format.errors import TraceError
from trace_format.layout import DEFAULT_CHUNK_BYTES
from trace_format.schema import Codec, DType, SectionType, SlotKind
from trace_format.slots import Slot
from trace_format.trace import Trace

HEADER, ENTRY, MANIFEST, SLOT = (
    int(s.sizeof()) for s in (schema.Header, schema.Section, schema.Manifest, schema.Slot)
)
SECTIONS = 6  # of the sample: manifest, slots, chunks, actions, image, notes
MANIFEST_AT = HEADER + SECTIONS * ENTRY
SLOTS_AT = MANIFEST_AT + MANIFEST
ACTIONS, IMAGE, NOTES = 3, 4, 5  # index in the section table
PLAIN = sample().build(compress=False, chunk_bytes=4096)
PACKED = sample().build()


def same(left: Trace, right: Trace) -> bool:
    """Whether two traces say the same."""
    return (
        np.array_equal(left.actions, right.actions)
        and (left.image, left.slots, left.notes, left.raw) == (right.image, right.slots, right.notes, right.raw)
        and (left.gpu, left.carveout_bytes, left.va_bytes) == (right.gpu, right.carveout_bytes, right.va_bytes)
        and Trace.META_DEFAULTS | left.meta == Trace.META_DEFAULTS | right.meta
    )


@given(traces(), st.booleans(), st.sampled_from([4096, 8192, 65536]))
def test_built_traces_are_read_back(trace: Trace, compress: bool, chunk_bytes: int) -> None:
    data = trace.build(compress=compress, chunk_bytes=chunk_bytes)
    again = Trace.parse(data)
    assert same(again, trace)
    assert again.build(compress=compress, chunk_bytes=chunk_bytes) == data
    assert again.trace_id == trace.trace_id


@settings(max_examples=300)
@given(st.binary(max_size=400) | st.binary(max_size=400).map(lambda tail: PLAIN[:HEADER] + tail))
def test_random_files_are_refused(data: bytes) -> None:
    with pytest.raises(TraceError):
        Trace.parse(data)


@pytest.mark.parametrize("data", [PLAIN, PACKED], ids=["plain", "packed"])
def test_any_changed_byte_is_refused_or_has_an_effect(data: bytes, some_of: SomeOf) -> None:
    """Chunk hashes cover the body; in the head, a byte that may be anything is a value, and not lost."""
    body = Damage(data).header("head_bytes")
    slots = Damage(data)
    packed = slots.entry(1, "offset") + np.arange(slots.entry(1, "stored_bytes") if slots.entry(1, "codec") else 0)
    for at in some_of(range(len(data)), 2000):
        bad = bytearray(data)
        bad[at] ^= 0x01
        try:
            trace = Trace.parse(bytes(bad))
        except TraceError:
            continue
        assert at < body
        # LZ4 can say the same in several ways
        assert not same(trace, sample()) or at in packed, f"byte {at:#x} has no effect"


@pytest.mark.parametrize("data", [PLAIN, PACKED], ids=["plain", "packed"])
def test_truncated_anywhere(data: bytes) -> None:
    for size in range(len(data)):
        with pytest.raises(errors.TruncatedError) as caught:
            Trace.parse(data[:size])
        assert caught.value.offset == size
        assert caught.value.expected == (len(data) if size >= HEADER else HEADER)
        assert caught.value.found == size


def test_trace_id_depends_on_actions_and_image_only() -> None:
    trace = sample()
    expected = hashlib.sha256(trace.actions.tobytes() + trace.image).digest()[:16]
    assert trace.trace_id == expected
    at = MANIFEST_AT + offset_of("manifest", "trace_id")
    assert PLAIN[at : at + 16] == PACKED[at : at + 16] == expected
    assert trace.with_(image=trace.image[:-1]).trace_id != expected
    assert trace.with_(actions=trace.actions[:-1]).trace_id != expected


def test_slots_by_name() -> None:
    trace = sample()
    assert trace.slot("output").dtype is DType.FLOAT16
    assert trace.slot("input").span == 12 + 2 * 4 + 4
    assert trace.slot("input").dense_bytes == 2 * 3 * 4
    assert trace.slot("input").numpy_dtype == np.dtype("<f4")
    with pytest.raises(errors.SlotError, match="no slot 'x'; there are: input, output"):
        trace.slot("x")
    with pytest.raises(errors.SlotError, match="no slot 'x'; there are: none"):
        trace.with_(slots=[]).slot("x")


def test_large_images_are_cut_into_sections() -> None:
    noise = np.random.default_rng(1).bytes(1 << 18)
    image = (noise + bytes(1 << 18)) * 6
    trace = sample().with_(image=image, carveout_bytes=4 << 20, actions=sample().actions[:1])
    data = trace.build()
    assert 2 < Damage(data).types.count(SectionType.IMAGE) <= codec.MAX_IMAGE_SECTIONS
    assert Trace.parse(data).image == image


def test_read_names_the_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("trace") / "cut.gtr"
    path.write_bytes(PLAIN)
    assert same(Trace.read(path), sample())
    path.write_bytes(PLAIN[:-1])
    with pytest.raises(errors.TruncatedError, match=r"cut\.gtr at offset 0x[0-9a-f]+: size of the file: expected"):
        Trace.read(path)


Edit = Callable[[Damage], object]
ANY_BODY = b"\x5a" * 8


def at_header(field: str) -> int:
    """Offset of a field of the header."""
    return offset_of("header", field)


def at_entry(index: int, field: str) -> int:
    """Offset of a field of an entry of the section table."""
    return HEADER + ENTRY * index + offset_of("section", field)


def at_manifest(field: str) -> int:
    """Offset of a field of the manifest."""
    return MANIFEST_AT + offset_of("manifest", field)


def at_slot(index: int, field: str) -> int:
    """Offset of a field of a slot."""
    return SLOTS_AT + SLOT * index + offset_of("slot", field)


def put(offset: int, data: bytes) -> Edit:
    """Overwrite bytes."""
    return lambda d: d.put(offset, data)


def header(field: str, value: int) -> Edit:
    """Set a field of the header."""
    return lambda d: d.header(field, value)


def entry(index: int, field: str, value: int) -> Edit:
    """Set a field of an entry of the section table."""
    return lambda d: d.entry(index, field, value)


def manifest(field: str, value: int) -> Edit:
    """Set a field of the manifest."""
    return lambda d: d.manifest(field, value)


def slot(index: int, field: str, value: int) -> Edit:
    """Set a field of a slot."""
    return lambda d: d.slot(index, field, value)


def in_body(index: int, offset: int, data: bytes) -> Edit:
    """Overwrite bytes of a section of the body and make the chunk hashes fit."""

    def edit(damage: Damage) -> None:
        damage.put(damage.entry(index, "offset") + offset, data)
        damage.rehash()

    return edit


def stored_as(index: int, method: int, stored: bytes, raw_bytes: int) -> Edit:
    """Store something else in the last section; every size fits."""

    def edit(damage: Damage) -> None:
        start = damage.entry(index, "offset")
        damage.data[start:] = stored + bytes(-len(stored) % 8)
        damage.entry(index, "codec", method)
        damage.entry(index, "stored_bytes", len(stored))
        damage.entry(index, "raw_bytes", raw_bytes)
        damage.header("trace_bytes", len(damage.data))
        damage.rehash()

    return edit


def append(data: bytes) -> Edit:
    """Bytes past the end."""
    return lambda d: d.data.extend(data)


def both(*edits: Edit) -> Edit:
    """One edit after the other."""

    def edit(damage: Damage) -> None:
        for one in edits:
            one(damage)

    return edit


def swapped(first: int, second: int) -> Edit:
    """Exchange the types of two sections."""

    def edit(damage: Damage) -> None:
        left, right = damage.entry(first, "type"), damage.entry(second, "type")
        damage.entry(first, "type", right)
        damage.entry(second, "type", left)

    return edit


START = {i: Damage(PLAIN).entry(i, "offset") for i in range(SECTIONS)}
HEAD = Damage(PLAIN).header("head_bytes")
END = len(PLAIN)
NOTE = b'{"passes":["none"]}'
LONG_NOTE = NOTE + bytes(b" " * 10)
PACKED_NOTE = lz4.block.compress(LONG_NOTE, store_size=False)
JSON_DEEP = b"[" * 2048

# name, edit of the plain sample, class, offset, message
MALFORMED: list[tuple[str, Edit, type[TraceError], int | None, str]] = [
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
    ("header flag 2", header("flags", 2), errors.ReservedError, 38, "reserved header flags"),
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
    # manifest
    ("name not UTF-8", put(at_manifest("name"), b"\xff"), errors.ReservedError, at_manifest("name"), "not UTF-8"),
    (
        "NUL in the name",
        put(at_manifest("name") + 2, b"\0"),
        errors.ReservedError,
        at_manifest("name"),
        "after the text",
    ),
    (
        "kernel not UTF-8",
        put(at_manifest("kernel"), b"\xc3("),
        errors.ReservedError,
        at_manifest("kernel"),
        "not UTF-8",
    ),
    (
        "manifest reserved",
        put(SLOTS_AT - 1, b"\1"),
        errors.ReservedError,
        at_manifest("reserved"),
        "manifest: reserved",
    ),
    ("GPU 0", manifest("gpu", 0), errors.ProfileError, None, "no profile for GPU number 0"),
    ("GPU 4000", manifest("gpu", 4000), errors.ProfileError, None, "no profile for GPU number 4000"),
    ("identity", manifest("gpu_id", 0x33), errors.ManifestError, None, "identity register"),
    ("identity mask", manifest("gpu_id_mask", 0), errors.ManifestError, None, "identity register"),
    (
        "register policy",
        manifest("profile_id", 1),
        errors.OtherPolicyError,
        None,
        "made for another register policy",
    ),
    ("trace_id", put(at_manifest("trace_id"), ANY_BODY), errors.ManifestError, None, "trace_id: expected"),
    ("carve-out of 0", manifest("carveout_bytes", 0), errors.ManifestError, None, "image is larger"),
    (
        "carve-out odd",
        manifest("carveout_bytes", CARVEOUT + 1),
        errors.ManifestError,
        None,
        "carveout_bytes is out",
    ),
    (
        "carve-out over 4 GiB",
        manifest("carveout_bytes", (1 << 32) + 4096),
        errors.ManifestError,
        None,
        "carveout_bytes is",
    ),
    ("image over the carve-out", manifest("carveout_bytes", 4096), errors.ManifestError, None, "image is larger"),
    ("image_bytes", manifest("image_bytes", 4096), errors.ManifestError, None, "size of the image"),
    ("va_bytes 0", manifest("va_bytes", 0), errors.ManifestError, None, "va_bytes is out of range"),
    ("va_bytes odd", manifest("va_bytes", 4097), errors.ManifestError, None, "va_bytes is out of range"),
    ("va_bytes over the MMU's", manifest("va_bytes", 1 << 33), errors.ManifestError, None, "at most 2^32"),
    ("action_count", manifest("action_count", 17), errors.SectionError, START[3], "size of the actions section"),
    ("job_count", manifest("job_count", 2), errors.ManifestError, None, "number of jobs: expected 1, found 2"),
    ("slot_count", manifest("slot_count", 1), errors.SectionError, SLOTS_AT, "size of the slots section"),
    # slots
    ("slot name empty", put(at_slot(0, "name"), bytes(32)), errors.DuplicateSlotError, None, "name ''"),
    (
        "slot name twice",
        put(at_slot(0, "name"), b"output"),
        errors.DuplicateSlotError,
        None,
        "'output' is empty or used twice",
    ),
    (
        "slot name not UTF-8",
        put(at_slot(1, "name"), b"\xfe"),
        errors.ReservedError,
        at_slot(1, "name"),
        "not UTF-8",
    ),
    ("slot kind 0", slot(0, "kind", 0), errors.SlotError, at_slot(0, "name"), "kind or element type"),
    ("slot kind 5", slot(1, "kind", 5), errors.SlotError, at_slot(1, "name"), "kind or element type"),
    ("slot dtype 0", slot(0, "dtype", 0), errors.SlotError, at_slot(0, "name"), "kind or element type"),
    ("slot dtype 9", slot(0, "dtype", 9), errors.SlotError, at_slot(0, "name"), "kind or element type"),
    ("rank 0", slot(0, "rank", 0), errors.SlotError, at_slot(0, "name"), "rank of a slot"),
    (
        "rank 7",
        slot(1, "rank", 7),
        errors.SlotError,
        at_slot(1, "name"),
        "rank of a slot: expected 1 to 6, found 7",
    ),
    ("slot flag 1", slot(0, "flags", 2), errors.ReservedError, at_slot(0, "name"), "reserved slot flags"),
    (
        "slot reserved",
        put(at_slot(1, "reserved"), b"\1"),
        errors.ReservedError,
        at_slot(1, "reserved"),
        "slot: reserved",
    ),
    (
        "slot reserved2",
        put(at_slot(1, "reserved2") + 31, b"\1"),
        errors.ReservedError,
        at_slot(1, "reserved2"),
        "slot: reserved",
    ),
    ("dimension 0", put(*list_item(at_slot(0, "dims"), 1, 0)), errors.SlotError, None, "slot input: dimension 0"),
    (
        "unused dimension",
        put(*list_item(at_slot(0, "dims"), 2, 1)),
        errors.ReservedError,
        at_slot(0, "name"),
        "unused dimensions",
    ),
    (
        "unused stride",
        put(*list_item(at_slot(1, "strides"), 5, 1)),
        errors.ReservedError,
        at_slot(1, "name"),
        "unused dimensions",
    ),
    (
        "stride 0",
        put(*list_item(at_slot(0, "strides"), 0, 0)),
        errors.SlotError,
        None,
        "slot input: dimension 2 with stride 0",
    ),
    (
        "stride below the element",
        put(*list_item(at_slot(1, "strides"), 0, 1)),
        errors.SlotError,
        None,
        "at least 1 with at least 2",
    ),
    (
        "stride not a multiple",
        put(*list_item(at_slot(0, "strides"), 0, 6)),
        errors.SlotError,
        None,
        "not a multiple",
    ),
    (
        "slot address odd",
        slot(0, "address", 0x10002),
        errors.SlotError,
        None,
        "not a multiple of the element size",
    ),
    (
        "slot in address space 1",
        slot(0, "address_space", 1),
        errors.SlotError,
        None,
        "slot input: no such address space: expected less than 1, found 1",
    ),
    (
        "slot beyond va_bytes",
        slot(1, "address", 0x3FFF8),
        errors.SlotError,
        None,
        "slot output reaches beyond va_bytes",
    ),
    ("slot address 2^64-2", slot(1, "address", (1 << 64) - 2), errors.SlotError, None, "reaches beyond va_bytes"),
    (
        "spans that overflow 64 bits",
        both(
            put(at_slot(0, "dims"), b"\xff" * 8),
            put(at_slot(0, "strides"), b"\xfc\xff\xff\xff" * 2),
        ),
        errors.SlotError,
        None,
        "reaches beyond va_bytes",
    ),
    # codecs
    ("unknown codec", entry(4, "codec", 3), errors.CodecError, START[4], "unknown codec"),
    (
        "stored with two sizes",
        both(entry(3, "stored_bytes", 16 * 18), entry(5, "raw_bytes", 4)),
        errors.CodecError,
        START[5],
        "two sizes",
    ),
    ("LZ4 garbage", stored_as(5, 1, b"\xff" * 40, 19), errors.CodecError, START[5], "LZ4 data is damaged"),
    ("LZ4 empty", stored_as(5, 1, b"", 19), errors.CodecError, START[5], "enough for 19 bytes"),
    ("LZ4 cut", stored_as(5, 1, PACKED_NOTE[:-9], 29), errors.CodecError, START[5], "LZ4 data is damaged"),
    ("LZ4 with more data after it", stored_as(5, 1, PACKED_NOTE + b"\0", 29), errors.CodecError, START[5], ""),
    ("LZ4 shorter than raw_bytes", stored_as(5, 1, PACKED_NOTE, 30), errors.CodecError, START[5], "found 29"),
    ("LZ4 longer than raw_bytes", stored_as(5, 1, PACKED_NOTE, 28), errors.CodecError, START[5], "larger"),
    ("LZ4 of 4 GiB", stored_as(5, 1, PACKED_NOTE, 1 << 32), errors.CodecError, START[5], "enough for 4294967296"),
    # notes
    ("notes not JSON", in_body(5, 0, b"x"), errors.SectionError, START[5], "notes are not JSON"),
    ("notes not an object", stored_as(5, 0, b"[]", 2), errors.SectionError, START[5], "not a JSON object"),
    ("notes not UTF-8", in_body(5, 2, b"\xff"), errors.SectionError, START[5], "notes are not JSON"),
    (
        "notes nested deep",
        stored_as(5, 0, JSON_DEEP, 2048),
        errors.SectionError,
        START[5],
        "notes are not JSON",
    ),
    # actions
    ("unknown opcode", in_body(3, 0, b"\xff"), errors.UnknownActionError, None, "action 0: unknown opcode: 0xff"),
    ("opcode 0", in_body(3, 16, b"\0"), errors.UnknownActionError, None, "action 1: unknown opcode: 0x00"),
    ("reserved action field", in_body(3, 12, b"\1"), errors.ReservedError, None, "action 0: a field that"),
    ("reserved action flag", in_body(3, 17, b"\x0f"), errors.ReservedError, None, "action 1: a field that"),
    (
        "map outside",
        in_body(3, 16 + 12, b"\x0f"),
        errors.ActionRangeError,
        None,
        "action 1: pages outside the carve-out",
    ),
    ("no such slot", in_body(3, 5 * 16 + 2, b"\2"), errors.ActionRangeError, None, "action 5: no such slot"),
    (
        "job 1 is missing",
        in_body(3, 7 * 16 + 4, b"\1"),
        errors.ActionError,
        None,
        "job numbers do not count from 0",
    ),
]


def test_the_samples_are_read() -> None:
    for data in (PLAIN, PACKED):
        assert same(Trace.parse(data), sample())
    assert Damage(PLAIN).types == [1, 2, 3, 16, 17, 32]
    assert len(PACKED) < len(PLAIN) // 2
    assert Damage(PLAIN).header("chunk_bytes") == 4096
    assert Damage(PACKED).header("chunk_bytes") == DEFAULT_CHUNK_BYTES


@pytest.mark.parametrize(
    ("name", "edit", "error", "offset", "message"), MALFORMED, ids=[row[0] for row in MALFORMED]
)
def test_malformed(name: str, edit: Edit, error: type[TraceError], offset: int | None, message: str) -> None:
    damage = Damage(PLAIN)
    edit(damage)
    with pytest.raises(error) as caught:
        Trace.parse(bytes(damage.data), "bad.gtr")
    assert type(caught.value) is error
    assert str(caught.value).startswith("bad.gtr")
    assert message in str(caught.value)
    if offset is not None:
        assert caught.value.offset == offset
        assert f"bad.gtr at offset {offset:#x}: " in str(caught.value)


def test_malformed_names_are_unique() -> None:
    names = [row[0] for row in MALFORMED]
    assert len(names) == len(set(names)) >= 40


def test_unknown_optional_sections_are_passed_over() -> None:
    damage = Damage(PLAIN)
    damage.entry(NOTES, "type", 99)
    assert damage.entry(NOTES, "flags") == schema.SECTION_FLAG_OPTIONAL
    trace = Trace.parse(bytes(damage.data))
    assert trace.notes == {}
    assert same(trace, sample().with_(notes={}))


def test_two_notes_are_refused() -> None:
    notes = layout.Part(SectionType.NOTES, b"{}", schema.SECTION_FLAG_OPTIONAL)
    _, parts = layout.disassemble(PLAIN)
    with pytest.raises(errors.SectionError, match="order of the body's sections"):
        layout.assemble(list(parts[:2]), [*parts[3:5], notes, notes], 4096, 0)


@pytest.mark.parametrize("bound", [0, 1])
def test_raw_flag_and_bound_slots_survive(bound: int) -> None:
    trace = sample().with_(raw=bool(bound))
    assert Trace.parse(trace.build()).raw is bool(bound)


@pytest.mark.parametrize(("gpu", "spaces"), [("v3d42", 1), ("v3d71", 1), ("mali_g71", 8), ("mali_g72", 8)])
def test_address_spaces_are_those_of_the_gpu(gpu: str, spaces: int) -> None:
    def trace(slot_space: int, table_space: int) -> Trace:
        rows = np.array([action(Op.SET_GPU_PGTABLE, address_space=table_space)], dtype=ACTION_DTYPE)
        slot = Slot("x", SlotKind.INPUT, DType.INT8, (1,), (1,), 0, slot_space)
        return Trace(gpu, rows, b"", CARVEOUT, CARVEOUT, [slot])

    found = trace(spaces - 1, spaces - 1)
    assert same(Trace.parse(found.build()), found)
    with pytest.raises(errors.SlotError, match=f"expected less than {spaces}, found {spaces}"):
        trace(spaces, 0).build()
    with pytest.raises(errors.ActionRangeError, match=r"action 0: no such address space: SetGpuPgtable"):
        trace(0, spaces).build()


UNBUILDABLE: list[tuple[str, dict[str, object], type[TraceError], str]] = [
    ("name too long", {"meta": {"name": "x" * 65}}, errors.ReservedError, "longer than 64 bytes"),
    ("NUL in the driver", {"meta": {"driver": "a\0b"}}, errors.ReservedError, "has a NUL"),
    ("security version -1", {"meta": {"security_version": -1}}, errors.ReservedError, "out of range"),
    ("security version 2^32", {"meta": {"security_version": 1 << 32}}, errors.ReservedError, "out of range"),
    ("unknown GPU", {"gpu": "none"}, errors.ProfileError, "no profile for GPU 'none'"),
    ("carve-out of 0", {"carveout_bytes": 0}, errors.ManifestError, "carveout_bytes is out of range"),
    ("image too large", {"image": bytes(CARVEOUT + 1)}, errors.ManifestError, "larger than the carve-out"),
    (
        "more than ten minutes",
        {"meta": {"time_budget_us": 600_000_001}},
        errors.ManifestError,
        "time_budget_us is out of range",
    ),
    ("va_bytes", {"va_bytes": 1 << 40}, errors.ManifestError, "va_bytes is out of range"),
    (
        "257 slots",
        {"slots": [Slot(str(i), SlotKind.INPUT, DType.INT8, (1,), (1,), 0) for i in range(257)]},
        errors.SlotError,
        "too many slots",
    ),
    (
        "rank 7",
        {"slots": [Slot("x", SlotKind.INPUT, DType.INT8, (1,) * 7, (1,) * 7, 0)]},
        errors.SlotError,
        "rank",
    ),
    ("rank 0", {"slots": [Slot("x", SlotKind.INPUT, DType.INT8, (), (), 0)]}, errors.SlotError, "rank"),
    (
        "more strides than dimensions",
        {"slots": [Slot("x", SlotKind.INPUT, DType.INT8, (1,), (1, 1), 0)]},
        errors.SlotError,
        "rank",
    ),
    (
        "slot name too long",
        {"slots": [Slot("x" * 33, SlotKind.INPUT, DType.INT8, (1,), (1,), 0)], "actions": sample().actions[:0]},
        errors.ReservedError,
        "longer than 32 bytes",
    ),
    (
        "bad action",
        {"actions": np.array([action(Op.COPY_TO_GPU, slot=2)], dtype=ACTION_DTYPE)},
        errors.ActionRangeError,
        "no such slot",
    ),
]


@pytest.mark.parametrize(("name", "changes", "error", "message"), UNBUILDABLE, ids=[row[0] for row in UNBUILDABLE])
def test_what_cannot_be_read_is_not_built(
    name: str, changes: dict[str, object], error: type[TraceError], message: str
) -> None:
    with pytest.raises(error) as caught:
        sample().with_(**changes).build()
    assert type(caught.value) is error
    assert message in str(caught.value)


@pytest.mark.parametrize("way", [{}, {"compress": False}, {"planes": True}, {"chunk_bytes": 4096}], ids=str)
def test_pieces_are_what_is_built(way: dict[str, Any]) -> None:
    trace = sample().with_(image=np.random.default_rng(1).bytes(12_000))
    data, pieces = trace.build(**way), trace.pieces(**way)
    assert b"".join(pieces) == data
    head = bytes(pieces[0])
    assert len(head) == layout.read_header(data)["head_bytes"]
    file = layout.with_zeros(head)
    assert bytes(file) == head + bytes(len(data) - len(head))
    assert layout.disassemble(file)[1].linked_codecs == layout.disassemble(data)[1].linked_codecs


@given(st.binary(max_size=3000), st.booleans())
def test_codec_round_trip(raw: bytes, compress: bool) -> None:
    method, stored = codec.encode(raw, compress=compress)
    assert len(stored) <= len(raw)
    assert compress or method is Codec.STORED
    assert codec.decode(method, stored, len(raw), offset=0) == raw


@given(st.binary(min_size=1, max_size=64), st.integers(0, 2000))
def test_codec_packs_what_repeats(piece: bytes, times: int) -> None:
    raw = piece * times
    method, stored = codec.encode(raw)
    if len(raw) > 500:
        assert method is Codec.LZ4
        assert len(stored) < len(raw)
    assert codec.decode(method, stored, len(raw), offset=0) == raw


@given(st.binary(max_size=200), st.integers(0, 1000))
def test_codec_refuses_or_decodes_random_bytes(stored: bytes, raw_bytes: int) -> None:
    try:
        raw = codec.decode(Codec.LZ4, stored, raw_bytes, offset=7)
    except errors.CodecError:
        return
    assert len(raw) == raw_bytes


@pytest.mark.parametrize(
    ("mib", "chunk_bytes"), [(0, 16384), (500, 16384), (540, 32768), (1000, 32768), (1100, 65536), (4096, 65536)]
)
def test_chunks_are_as_large_as_the_head_has_room_for_their_hashes(mib: int, chunk_bytes: int) -> None:
    """A recording of VGG-16 has an image of 528 MiB. Nobody reads these pages, so they take no memory."""
    head = [layout.Part(SectionType.MANIFEST, bytes(512)), layout.Part(SectionType.SLOTS, bytes(10_000))]
    body = []
    if mib:
        body.append(layout.Part(SectionType.IMAGE, memoryview(mmap.mmap(-1, mib << 20, flags=mmap.MAP_PRIVATE))))
    assert layout.chunk_bytes_for(head, body) == chunk_bytes


def test_notes_are_plain_json() -> None:
    at = START[NOTES]
    assert json.loads(PLAIN[at : at + Damage(PLAIN).entry(NOTES, "stored_bytes")]) == sample().notes
