# SPDX-License-Identifier: BSD-2-Clause
"""The words that every structure is described in; the emitters and the readers know these and no others."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from construct import Array, Bytes, Const, Construct, Int8ul, Int16ul, Int32ul, Int64ul, Struct, Subconstruct

u8, u16, u32, u64 = Int8ul, Int16ul, Int32ul, Int64ul


class Text(Subconstruct):  # type: ignore[misc]
    """UTF-8 of at most `size` bytes, filled up with NUL; no NUL inside."""

    def __init__(self, size: int) -> None:
        super().__init__(Bytes(size))
        self.size = size


class Blob(Subconstruct):  # type: ignore[misc]
    """`size` raw bytes (an identifier or a hash)."""

    def __init__(self, size: int) -> None:
        super().__init__(Bytes(size))
        self.size = size


class Reserved(Subconstruct):  # type: ignore[misc]
    """`size` bytes that must be zero."""

    def __init__(self, size: int) -> None:
        super().__init__(Const(bytes(size)))
        self.size = size


class List(Array):  # type: ignore[misc]
    """A fixed number of numbers."""

    def __init__(self, count: int, item: Construct) -> None:
        super().__init__(count, item)
        self.count = count
        self.item = item


class Nested(Subconstruct):  # type: ignore[misc]
    """Another structure, by the name that it has in its format."""

    def __init__(self, structure: str, shape: Struct) -> None:
        super().__init__(shape)
        self.structure = structure
        self.shape = shape


class Described(enum.IntEnum):
    """An enumeration whose members say what they mean: `NAME = value, "meaning"`."""

    text: str

    def __new__(cls, value: int, text: str) -> Self:
        member = int.__new__(cls, value)
        member._value_ = value
        member.text = text
        return member


@dataclass(frozen=True)
class Format:
    """Structures that belong together: a kind of file, or what two programs hand each other in memory.

    Attributes:
        name: of the C header, gramophone_NAME.h.
        title: what it is, in one line.
        structures: name -> (structure, one line of what it is), in the order of the documents.
        enumerations: those of its fields.
        constants: numbers, by name.
        byte_strings: what C has as initialisers of arrays, by name.
        prefix: of names in C.
        includes: C headers of ours that its own needs.
        listed: structures whose fields C has as a list macro, too.
    """

    name: str
    title: str
    structures: dict[str, tuple[Any, str]]
    enumerations: tuple[type[enum.IntEnum], ...] = ()
    constants: Mapping[str, int] = field(default_factory=dict)
    byte_strings: Mapping[str, bytes] = field(default_factory=dict)
    prefix: str = "gr_"
    includes: tuple[str, ...] = ()
    listed: tuple[str, ...] = ()


def numbers(namespace: Mapping[str, Any]) -> dict[str, int]:
    """The constants of a module: its numbers with names in capitals, in order."""
    return {name: value for name, value in namespace.items() if name.isupper() and type(value) is int}
