# SPDX-License-Identifier: BSD-2-Clause
"""Walks the `construct` schema: the one reader of its objects, so that the emitters see plain data only."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from construct import Const, FormatField, Struct

from trace_format.actions import ACTIONS, Op
from trace_format.operands import FIELD_BITS
from trace_format.packing import kind_of
from trace_format.schema import ENUMERATIONS, TRACE, Blob, Format, List, Nested, Reserved, Text


class Kind(enum.Enum):
    """What a field is, in the schema's vocabulary."""

    NUMBER = "number"
    MAGIC = "magic"
    TEXT = "text"
    BLOB = "blob"
    RESERVED = "reserved"
    LIST = "list"
    STRUCTURE = "structure"


@dataclass(frozen=True)
class Field:
    """A field of a structure.

    Attributes:
        name: its name in the schema.
        offset: bytes from the start of the structure.
        size: bytes in all.
        kind: what it is.
        item_size: bytes of a number, or of one item of a list; 1 for bytes; all of a structure.
        doc: what it means, in one line.
        magic: the bytes that a `Kind.MAGIC` must be.
        enumeration: the enumeration that its values are from, if any.
        flags: bits that may be set, by name, where the field is a set of flags of the structure; None elsewhere.
        structure: name of the structure that a `Kind.STRUCTURE` is.
    """

    name: str
    offset: int
    size: int
    kind: Kind
    item_size: int
    doc: str
    magic: bytes = b""
    enumeration: type[enum.IntEnum] | None = None
    flags: dict[str, int] | None = None
    structure: str = ""

    @property
    def count(self) -> int:
        """Number of items: 1 for a number."""
        return self.size // self.item_size

    @property
    def end(self) -> int:
        """Offset of the first byte after the field."""
        return self.offset + self.size


@dataclass(frozen=True)
class Structure:
    """A structure of fixed size."""

    name: str
    doc: str
    size: int
    fields: tuple[Field, ...]


def structures(group: Format = TRACE) -> list[Structure]:
    """All structures of a format, in the order of the schema."""
    return [
        Structure(name, doc, struct.sizeof(), tuple(_fields(group, name, struct)))
        for name, (struct, doc) in group.structures.items()
    ]


def enumerations(group: Format = TRACE) -> list[type[enum.IntEnum]]:
    """All enumerations of a format; those of the trace end with the opcodes."""
    return [*group.enumerations, *((Op,) if group is TRACE else ())]


def constants(group: Format = TRACE) -> dict[str, int]:
    """The format's numbers by name, in the order of the schema."""
    return dict(group.constants)


def op_rule(op: Op) -> tuple[list[str], int]:
    """Fields of `action` that `op` uses (besides `op` and `flags`) and the mask of its flags."""
    row = ACTIONS[op]
    return [name for name in FIELD_BITS if name in row.fields], sum(row.flags)


def snake(name: str) -> str:
    """`SlotKind` -> `slot_kind`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _fields(group: Format, structure: str, struct: Struct) -> Iterator[Field]:
    offset = 0
    for renamed in struct.subcons:
        field = _field(group, structure, renamed, offset)
        if field.offset % _alignment(kind_of(renamed)):
            raise TypeError(f"{structure}.{field.name} is misaligned at offset {field.offset}")
        yield field
        offset = field.end


def _alignment(kind: Any) -> int:
    match kind:
        case FormatField():
            return int(kind.sizeof())
        case List():
            return int(kind.item.sizeof())
        case Nested():
            return max(_alignment(kind_of(item)) for item in kind.shape.subcons)
    return 1


def _field(group: Format, structure: str, renamed: Any, offset: int) -> Field:
    inner = kind_of(renamed)
    name, doc, size = renamed.name, renamed.docs, inner.sizeof()
    match inner:
        case FormatField():
            return Field(
                name,
                offset,
                size,
                Kind.NUMBER,
                size,
                doc,
                enumeration=_enumeration(group, structure, name, doc),
                flags=_flags(group, structure) if name == "flags" else None,
            )
        case List():
            return Field(name, offset, size, Kind.LIST, inner.item.sizeof(), doc)
        case Text():
            return Field(name, offset, size, Kind.TEXT, 1, doc)
        case Blob():
            return Field(name, offset, size, Kind.BLOB, 1, doc)
        case Reserved():
            return Field(name, offset, size, Kind.RESERVED, 1, doc)
        case Const():
            return Field(name, offset, size, Kind.MAGIC, 1, doc, magic=inner.value)
        case Nested():
            return Field(name, offset, size, Kind.STRUCTURE, size, doc, structure=inner.structure)
    raise TypeError(f"{structure}.{name}: the schema's vocabulary has no {type(inner).__name__}")


def _enumeration(group: Format, structure: str, name: str, doc: str) -> type[enum.IntEnum] | None:
    """A field's enumeration: the schema names it as the whole description."""
    if (structure, name) == ("action", "op"):
        return Op
    return next((e for e in (*group.enumerations, *ENUMERATIONS) if e.__name__ == doc), None)


def _flags(group: Format, structure: str) -> dict[str, int] | None:
    """Flags of a structure that the format has numbers for; None: the field says itself which there are."""
    prefix = f"{structure.upper()}_FLAG_"
    return {
        n.removeprefix(prefix).lower(): bit for n, bit in group.constants.items() if n.startswith(prefix)
    } or None
