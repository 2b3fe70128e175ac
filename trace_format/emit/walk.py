"""Walks the `construct` schema: the one reader of its objects, so that the emitters see plain data only."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from dataclasses import dataclass

from construct import Const, Construct, FormatField, Renamed, Struct

from trace_format import schema
from trace_format.actions import ACTIONS, Op
from trace_format.schema import ENUMERATIONS, STRUCTURES, Blob, List, Reserved, Text


class Kind(enum.Enum):
    """What a field is, in the schema's vocabulary."""

    NUMBER = "number"
    MAGIC = "magic"
    TEXT = "text"
    BLOB = "blob"
    RESERVED = "reserved"
    LIST = "list"


@dataclass(frozen=True)
class Field:
    """A field of a structure.

    Attributes:
        name: its name in the schema.
        offset: bytes from the start of the structure.
        size: bytes in all.
        kind: what it is.
        item_size: bytes of a number, or of one item of a list; 1 for bytes.
        doc: what it means, in one line.
        magic: the bytes that a `Kind.MAGIC` must be.
        enumeration: the enumeration that its values are from, if any.
        flags: bits that may be set, by name, where the field is a set of flags of the structure; None elsewhere.
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

    @property
    def count(self) -> int:
        """Number of items: 1 for a number."""
        return self.size // self.item_size

    @property
    def end(self) -> int:
        """Offset of the first byte behind the field."""
        return self.offset + self.size


@dataclass(frozen=True)
class Structure:
    """A structure of fixed size."""

    name: str
    doc: str
    size: int
    fields: tuple[Field, ...]


def structures() -> list[Structure]:
    """All structures, in the order of the schema."""
    return [
        Structure(name, doc, struct.sizeof(), tuple(_fields(name, struct)))
        for name, (struct, doc) in STRUCTURES.items()
    ]


def enumerations() -> list[type[enum.IntEnum]]:
    """All enumerations: those of the schema, then the opcodes."""
    return [*ENUMERATIONS, Op]


def constants() -> dict[str, int]:
    """The schema's numbers by name, in the order of the schema."""
    return {name: value for name, value in vars(schema).items() if name.isupper() and type(value) is int}


def op_rule(op: Op) -> tuple[list[str], int]:
    """Fields of `action` that `op` uses (besides `op` and `flags`) and the mask of its flags."""
    row = ACTIONS[op]
    return [name for name in ("arg", "value", "a", "b") if name in row.fields], sum(row.flags)


def snake(name: str) -> str:
    """`SlotKind` -> `slot_kind`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _fields(structure: str, struct: Struct) -> Iterator[Field]:
    offset = 0
    for renamed in struct.subcons:
        field = _field(structure, renamed, offset)
        if field.offset % field.item_size:
            raise TypeError(f"{structure}.{field.name} is misaligned at offset {field.offset}")
        yield field
        offset = field.end


def _field(structure: str, renamed: Renamed, offset: int) -> Field:
    inner: Construct = renamed.subcon
    while isinstance(inner, Renamed):  # `"name" / x * "doc"` wraps twice
        inner = inner.subcon
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
                enumeration=_enumeration(structure, name, doc),
                flags=_flags(structure) if name == "flags" and structure != "action" else None,
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
    raise TypeError(f"{structure}.{name}: the schema's vocabulary has no {type(inner).__name__}")


def _enumeration(structure: str, name: str, doc: str) -> type[enum.IntEnum] | None:
    """A field's enumeration: the schema names it as the whole description."""
    if (structure, name) == ("action", "op"):
        return Op
    return next((e for e in ENUMERATIONS if e.__name__ == doc), None)


def _flags(structure: str) -> dict[str, int]:
    prefix = f"{structure.upper()}_FLAG_"
    names = (name for name in constants() if name.startswith(prefix))
    return {name.removeprefix(prefix).lower(): constants()[name] for name in names}
