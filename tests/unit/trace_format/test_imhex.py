# SPDX-License-Identifier: BSD-2-Clause
"""The patterns for ImHex, which is in no package registry: they are checked by a reader of the declarations of
structures and enumerations, written here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest

from trace_format import packing, schema
from trace_format.emit import imhex, imhex_capture, walk
from trace_format.schema.capture import RecordKind


def hexpat(
    text: str,
) -> tuple[dict[str, int], dict[str, tuple[int, dict[str, int]]], dict[str, list[tuple[str, int, str]]]]:
    """Read a pattern's declarations: sizes of types, enumerations, fixed structures.

    Returns:
        Bytes of every type of fixed size; size and values of every enumeration; name, size and comment of every
        member of the structures whose members all have a fixed size.
    """
    sizes = {"u8": 1, "char": 1, "u16": 2, "u32": 4, "u64": 8}
    enums: dict[str, tuple[int, dict[str, int]]] = {}
    structs: dict[str, list[tuple[str, int, str]]] = {}
    member = re.compile(r'\s*(\w+) (\w+)(?:\[(\d+)\])?(?: \[\[comment\(("(?:[^"\\]|\\.)*")\)\]\])?;')
    for kind, name, base, body in re.findall(
        r"^(enum|struct) (\w+)(?: : (\w+))? \{\n(.*?)^\};", text, re.M | re.S
    ):
        assert name not in sizes, f"{name} is declared twice"
        if kind == "enum":
            values = {n: int(v, 0) for n, v in re.findall(r"^    (\w+) = (\w+),$", body, re.M)}
            assert len(values) == len(body.splitlines())
            enums[name] = (sizes[base], values)
            sizes[name] = sizes[base]
            continue
        rows = [member.fullmatch(line) for line in body.splitlines()]
        if all(rows):
            found = [row.groups() for row in rows if row]
            structs[name] = [
                (label, sizes[of] * int(count or 1), json.loads(comment or '""'))
                for of, label, count, comment in found
            ]
            sizes[name] = sum(size for _, size, _ in structs[name])
        else:
            of = set(re.findall(r"^\s*([A-Z]\w+) \w+(?:\[.*?\])?(?: @.*)?;", body, re.M))
            assert of <= set(sizes) | {"SectionView", "Trace", "SignedTrace", "Event", "Networks"}, (
                f"{name} uses what is not declared"
            )
    return sizes, enums, structs


PATTERNS: dict[str, tuple[Callable[[], str], tuple[schema.Format, ...]]] = {
    "trace": (imhex.emit, (schema.TRACE,)),
    "capture": (imhex_capture.emit, (schema.CAPTURE, schema.COUNTERS)),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_imhex_structures_have_the_schemas_fields(name: str) -> None:
    emitter, groups = PATTERNS[name]
    _, _, structs = hexpat(emitter())
    for structure in (structure for group in groups for structure in walk.structures(group)):
        camel = "".join(part.capitalize() for part in structure.name.split("_"))
        assert structs.pop(camel) == [
            (s.name, s.sizeof(), s.docs) for s in packing.shape_of(structure.name).subcons
        ]
    assert structs == ({"ChunkHash": [("sha256", 32, "")]} if name == "trace" else {})


@pytest.mark.parametrize("name", PATTERNS)
def test_imhex_enumerations_have_the_schemas_values(name: str) -> None:
    emitter, groups = PATTERNS[name]
    sizes, enums, _ = hexpat(emitter())
    for values in (values for group in groups for values in walk.enumerations(group)):
        size, found = enums.pop(values.__name__)
        assert found == {item.name: item.value for item in values}
        assert size == sizes[values.__name__]
    assert enums == {}


@pytest.mark.parametrize("name", PATTERNS)
def test_imhex_brackets_are_in_pairs(name: str) -> None:
    code = re.sub(r'//[^\n]*|"(?:[^"\\]|\\.)*"', "", PATTERNS[name][0]())
    for left, right in ("{}", "()", "[]"):
        depth = 0
        for letter in code:
            depth += (letter == left) - (letter == right)
            assert depth >= 0
        assert depth == 0
    for item in re.findall(r"\bRecordKind::(\w+)", code):
        assert item in RecordKind.__members__


def test_imhex_pattern_is_well_formed() -> None:
    text = imhex.emit()
    code = re.sub(r'//[^\n]*|"(?:[^"\\]|\\.)*"', "", text)
    for base, item in re.findall(r"\b(Codec|SectionType)::(\w+)", code):
        assert item in getattr(schema, base).__members__
    assert f"{int.from_bytes(schema.SIGNED_MAGIC, 'little'):#018x}" in code
    for placed in re.findall(r"@ ([^;\[]+)", code):
        assert placed.strip() in ("0x00", "addressof(parent.header) + entry.offset")
