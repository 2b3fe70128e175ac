# SPDX-License-Identifier: BSD-2-Clause
"""Structures of the schema to bytes and back."""

from __future__ import annotations

import functools
import struct
from collections import ChainMap, namedtuple
from typing import Any

from construct import Const, ConstructError, FormatField, Renamed, Struct

from trace_format.errors import MagicError, ReservedError, SectionError, TruncatedError
from trace_format.schema import FORMATS, Blob, List, Nested, Reserved, Text

_STRUCTURES = ChainMap(*(group.structures for group in FORMATS))
_NUMBERS = {1: "B", 2: "H", 4: "I", 8: "Q"}  # of `struct`, by size


def shape_of(structure: str) -> Struct:
    """The `construct` object of a structure."""
    return _STRUCTURES[structure][0]


@functools.cache
def size_of(structure: str) -> int:
    """Bytes of a structure."""
    return int(shape_of(structure).sizeof())


@functools.cache
def _fields(structure: str) -> tuple[tuple[str, Any, int, int], ...]:
    """Name, type, offset and size of each field: construct walks its objects anew for each of them."""
    found, at = [], 0
    for item in shape_of(structure).subcons:
        found.append((str(item.name), kind_of(item), at, int(item.sizeof())))
        at += found[-1][3]
    return tuple(found)


def pack(structure: str, values: dict[str, Any]) -> bytes:
    """Bytes of a structure; texts are given as str, nested structures as dict, reserved fields are left out.

    Raises:
        ReservedError: a text is too long or has a NUL, or a value does not fit its field.
    """
    parts = []
    for item in shape_of(structure).subcons:
        kind = kind_of(item)
        if isinstance(kind, (Reserved, Const)):
            parts.append(_constant(kind))
        elif isinstance(kind, Nested):
            parts.append(pack(kind.structure, values[item.name]))
        elif isinstance(kind, Text):
            parts.append(_encoded(item.name, values[item.name], kind.size))
        else:
            try:
                parts.append(bytes(kind.build(values[item.name])))
            except ConstructError as error:
                what = str(error).splitlines()[-1]
                raise ReservedError(f"{structure}: a value is out of range ({what})") from None
    return b"".join(parts)


def unpack(structure: str, data: bytes, offset: int = 0) -> dict[str, Any]:
    """The fields of a structure, which must fill `data` exactly; `offset` is where `data` lies, for errors.

    Raises:
        TruncatedError, SectionError, MagicError, ReservedError: with the offset of the field at fault.
    """
    whole = size_of(structure)
    if len(data) != whole:
        error = TruncatedError if len(data) < whole else SectionError
        raise error(f"size of the {structure}", offset=offset, expected=whole, found=len(data))
    values: dict[str, Any] = {}
    for name, kind, at, size in _fields(structure):
        field = data[at : at + size]
        where = offset + at
        if isinstance(kind, Reserved):
            if any(field):
                raise ReservedError(
                    f"{structure}: reserved bytes", offset=where, expected="zero", found=field.hex()
                )
        elif isinstance(kind, Const):
            if field != kind.value:
                raise MagicError(
                    "not a Gramophone file", offset=where, expected=kind.value.hex(), found=field.hex()
                )
        elif isinstance(kind, Text):
            values[name] = _text(structure, name, field, where)
        elif isinstance(kind, Nested):
            values[name] = unpack(kind.structure, field, where)
        elif isinstance(kind, List):
            values[name] = tuple(kind.parse(field))
        elif isinstance(kind, FormatField):  # an unsigned number
            values[name] = int.from_bytes(field, "little")
        else:
            values[name] = kind.parse(field)
    return values


class Row:
    """A structure as `struct` reads it, for where there are many: fields by name, none of them checked.

    Texts, magic and reserved fields are bytes as they lie there; so are nested structures.

    Args:
        structure: one without lists.
    """

    def __init__(self, structure: str) -> None:
        items = [(item.name, kind_of(item)) for item in shape_of(structure).subcons]
        self._struct = struct.Struct("<" + "".join(_code(structure, kind) for _, kind in items))
        self._fixed = {name: _constant(kind) for name, kind in items if isinstance(kind, (Reserved, Const))}
        self._tuple: Any = namedtuple(structure, [name for name, _ in items])  # type: ignore[misc]
        self.size = self._struct.size

    def unpack(self, data: Any, offset: int = 0) -> Any:
        """A named tuple of the fields at an offset; struct.error when they are not all there."""
        return self._tuple._make(self._struct.unpack_from(data, offset))

    def pack(self, **values: Any) -> bytes:
        """Bytes of the structure; magic and reserved fields are left out. struct.error: a value does not fit."""
        return self._struct.pack(*self._tuple(**self._fixed, **values))


def kind_of(item: Any) -> Any:
    """The field type inside construct's wrappers, one each for the name and the documentation."""
    while isinstance(item, Renamed):
        item = item.subcon
    return item


def _constant(kind: Any) -> bytes:
    return bytes(kind.size) if isinstance(kind, Reserved) else bytes(kind.value)


def _code(structure: str, kind: Any) -> str:
    if isinstance(kind, FormatField):
        return _NUMBERS[kind.sizeof()]
    if isinstance(kind, (Text, Blob, Reserved, Const, Nested)):
        return f"{kind.sizeof()}s"
    raise TypeError(f"{structure} has a {type(kind).__name__}, which a row has no place for")


def _encoded(name: str, value: str, size: int) -> bytes:
    text = value.encode()
    if len(text) > size or b"\0" in text:
        raise ReservedError(f"{name} {value!r} is longer than {size} bytes or has a NUL")
    return text.ljust(size, b"\0")


def _text(structure: str, name: str, field: bytes, offset: int) -> str:
    text = field.rstrip(b"\0")
    if b"\0" in text:
        raise ReservedError(
            f"{structure}.{name}: bytes after the text's end",
            offset=offset,
            expected="zero",
            found=field.hex(),
        )
    try:
        return text.decode()
    except UnicodeDecodeError:
        raise ReservedError(
            f"{structure}.{name} is not UTF-8", offset=offset, expected="UTF-8", found=field.hex()
        ) from None
