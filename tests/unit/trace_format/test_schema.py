# SPDX-License-Identifier: BSD-2-Clause
"""The schema: every structure survives a round trip, by two independent readers, and refuses reserved bits."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from construct import ConstError, Struct
from hypothesis import given
from hypothesis import strategies as st

from host_tools.runners.firmware import Board
from host_tools.vgpu.binding import Counters
from tee_replayer.generator.status import Report
from tests.support.sampling import few
from tests.support.trace_samples import structures
from trace_format import packing, schema
from trace_format.emit import walk
from trace_format.errors import MagicError, ReservedError, SectionError, TruncatedError
from trace_format.packing import Row, shape_of, size_of
from trace_format.schema import FORMATS, TRACE, vocabulary

STRUCTURES = [structure for group in FORMATS for structure in walk.structures(group)]
NAMES = [structure.name for structure in STRUCTURES]
RESERVED = [(s, f) for s in STRUCTURES for f in s.fields if f.kind is walk.Kind.RESERVED]
TEXTS = [(s, f) for s in STRUCTURES for f in s.fields if f.kind is walk.Kind.TEXT]
MAGICS = [s.name for s in STRUCTURES if s.fields[0].kind is walk.Kind.MAGIC]
ROWS = [s.name for s in STRUCTURES if all(f.kind is not walk.Kind.LIST for f in s.fields)]


def values_of(name: str) -> dict[str, object]:
    """Some values for `packing.pack`: zeros and empty texts."""
    zero: dict[walk.Kind, object] = {walk.Kind.NUMBER: 0, walk.Kind.TEXT: ""}
    shape = next(s for s in STRUCTURES if s.name == name)
    values: dict[str, object] = {}
    for field in shape.fields:
        if field.kind in (walk.Kind.MAGIC, walk.Kind.RESERVED):
            continue
        if field.kind is walk.Kind.STRUCTURE:
            values[field.name] = values_of(field.structure)
        elif field.kind is walk.Kind.LIST:
            values[field.name] = (0,) * field.count
        else:
            values[field.name] = zero.get(field.kind, bytes(field.size))
    return values


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few(10)
def test_pack_then_unpack_gives_the_same_values(name: str, data: st.DataObject) -> None:
    values = data.draw(structures(name))
    packed = packing.pack(name, values)
    assert len(packed) == size_of(name)
    assert packing.unpack(name, packed, 0) == values


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few(10)
def test_construct_reads_what_pack_wrote(name: str, data: st.DataObject) -> None:
    values = data.draw(structures(name))
    expect_same(shape_of(name).parse(packing.pack(name, values)), values)


def expect_same(parsed: Any, values: dict[str, Any]) -> None:
    """Compare what `construct` parsed with what was packed."""
    for key, value in values.items():
        found = parsed[key]
        if isinstance(value, dict):
            expect_same(found, value)
        elif isinstance(value, str):
            assert found.rstrip(b"\0").decode() == value
        else:
            assert (tuple(found) if isinstance(value, tuple) else found) == value


@pytest.mark.parametrize("name", ROWS)
@given(data=st.data())
@few(10)
def test_a_row_reads_and_writes_the_same_bytes(name: str, data: st.DataObject) -> None:
    packed = packing.pack(name, data.draw(structures(name)))
    row = Row(name)
    found = row.unpack(b"before" + packed, 6)
    assert row.size == len(packed)
    shape = next(s for s in STRUCTURES if s.name == name)
    fixed = {f.name for f in shape.fields if f.kind in (walk.Kind.MAGIC, walk.Kind.RESERVED)}
    assert row.pack(**{key: value for key, value in found._asdict().items() if key not in fixed}) == packed
    for field in shape.fields:
        raw = packed[field.offset : field.end]
        value = int.from_bytes(raw, "little") if field.kind is walk.Kind.NUMBER else raw
        assert getattr(found, field.name) == value


def test_a_row_has_no_place_for_lists() -> None:
    with pytest.raises(TypeError, match="slot has a List"):
        Row("slot")


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@few(10)
def test_unpack_then_pack_gives_the_same_bytes(name: str, data: st.DataObject) -> None:
    """Every accepted encoding is the only one of its values."""
    shape = shape_of(name)
    packed = bytearray(packing.pack(name, data.draw(structures(name))))
    packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))
    try:
        values = packing.unpack(name, bytes(packed), 0)
    except (MagicError, ReservedError):
        return
    assert packing.pack(name, values) == bytes(packed)
    assert shape.parse(bytes(packed)) is not None


@pytest.mark.parametrize(("structure", "field"), RESERVED, ids=lambda x: x.name)
def test_every_reserved_byte_must_be_zero(structure: walk.Structure, field: walk.Field) -> None:
    packed = packing.pack(structure.name, values_of(structure.name))
    for at in range(field.offset, field.end):
        bad = bytearray(packed)
        bad[at] = 0x80
        with pytest.raises(ReservedError) as caught:
            packing.unpack(structure.name, bytes(bad), 0x1000)
        assert caught.value.offset == 0x1000 + field.offset
        with pytest.raises(ConstError):
            shape_of(structure.name).parse(bytes(bad))


@pytest.mark.parametrize(("structure", "field"), TEXTS, ids=lambda x: x.name)
@pytest.mark.parametrize(
    ("damage", "message"),
    [(b"a\0b", "bytes after the text's end"), (b"\xff", "is not UTF-8"), (b"\xc3", "is not UTF-8")],
)
def test_malformed_texts(structure: walk.Structure, field: walk.Field, damage: bytes, message: str) -> None:
    packed = bytearray(packing.pack(structure.name, values_of(structure.name)))
    packed[field.offset : field.offset + len(damage)] = damage
    with pytest.raises(ReservedError, match=message) as caught:
        packing.unpack(structure.name, bytes(packed), 0)
    assert caught.value.offset == field.offset


@pytest.mark.parametrize("name", NAMES)
def test_wrong_size(name: str) -> None:
    packed = packing.pack(name, values_of(name))
    for size in range(len(packed)):
        with pytest.raises(TruncatedError):
            packing.unpack(name, packed[:size], 0)
    with pytest.raises(SectionError):
        packing.unpack(name, packed + b"\0", 0)


@pytest.mark.parametrize("name", MAGICS)
def test_every_bit_of_the_magic_counts(name: str) -> None:
    packed = packing.pack(name, values_of(name))
    for bit in range(64):
        bad = bytearray(packed)
        bad[bit // 8] ^= 1 << bit % 8
        with pytest.raises(MagicError):
            packing.unpack(name, bytes(bad), 0)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "x" * 33),
        ("name", "a\0b"),
        ("name", "é" * 17),
        ("kind", 256),
        ("kind", -1),
        ("address", 1 << 64),
        ("dims", (0,) * 5),
    ],
)
def test_pack_refuses_values_that_do_not_fit(field: str, value: object) -> None:
    with pytest.raises(ReservedError):
        packing.pack("slot", values_of("slot") | {field: value})


def test_walk_agrees_with_construct() -> None:
    for structure in STRUCTURES:
        shape: Struct = shape_of(structure.name)
        assert [f.name for f in structure.fields] == [s.name for s in shape.subcons]
        assert [f.size for f in structure.fields] == [s.sizeof() for s in shape.subcons]
        assert structure.size == shape.sizeof() == structure.fields[-1].end
        assert all(f.doc for f in structure.fields)


def test_structures_are_whole_multiples_of_the_alignment() -> None:
    assert all(s.size % schema.ALIGNMENT == 0 for s in STRUCTURES)


def test_names_are_unique() -> None:
    assert len(set(NAMES)) == len(NAMES)
    assert len({group.name for group in FORMATS}) == len(FORMATS)


@pytest.mark.parametrize("group", FORMATS, ids=lambda group: group.name)
def test_enumerations_fit_their_fields(group: vocabulary.Format) -> None:
    used = {f.enumeration: f.size for s in walk.structures(group) for f in s.fields if f.enumeration}
    assert set(used) == set(walk.enumerations(group))
    assert all(0 <= value < 1 << 8 * size for values, size in used.items() for value in values)


def test_what_python_has_by_name_is_in_the_schema() -> None:
    def fields(name: str) -> list[str]:
        shape = next(s for s in STRUCTURES if s.name == name)
        return [field.name for field in shape.fields if field.kind is not walk.Kind.RESERVED]

    assert [field.name for field in dataclasses.fields(Report)] == fields("report")
    assert [field.name for field in dataclasses.fields(Counters)] == fields("vgpu_counters")
    assert [field.name for field in dataclasses.fields(Board)] == fields("board")


def test_walk_refuses_what_is_not_in_the_vocabulary() -> None:
    with pytest.raises(TypeError, match="vocabulary has no Bytes"):
        list(walk._fields(TRACE, "odd", Struct("x" / vocabulary.Text(4).subcon)))
    with pytest.raises(TypeError, match=r"odd\.y is misaligned at offset 1"):
        list(walk._fields(TRACE, "odd", Struct("x" / vocabulary.u8, "y" / vocabulary.u16)))
