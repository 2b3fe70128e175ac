# SPDX-License-Identifier: BSD-2-Clause
"""Edits of a sample trace, plain and packed, and what each must be refused with."""

from __future__ import annotations

from collections.abc import Callable

import lz4.block
import numpy as np
import pytest

from tests.support.trace_samples import Damage, offset_of, sample
from trace_format import schema
from trace_format.errors import TraceError
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


Edit = Callable[[Damage], object]
ANY_BODY = b"\x5a" * 8

Malformed = tuple[str, Edit, type[TraceError], int | None, str]


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


def assert_refused(row: Malformed) -> None:
    """The plain sample, edited so, is refused with this class of error, which says where and what."""
    _, edit, error, offset, message = row
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
