# SPDX-License-Identifier: BSD-2-Clause
"""Tables of structures and enumerations for the documents."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from trace_format.emit.walk import Field, Kind, Structure
from trace_format.schema.vocabulary import Described


def structure_table(structure: Structure) -> str:
    """A structure's fields as a table, under its name and size."""
    title = f"**`{structure.name}`**, {structure.size} bytes: {structure.doc}.\n"
    rows = (
        (f"{field.offset}", f"{field.size}", f"`{field.name}`", f"`{_type(field)}`", _meaning(field))
        for field in structure.fields
    )
    return title + "\n" + table(("offset", "size", "field", "type", "meaning"), rows)


def enumeration_text(values: type[enum.IntEnum], notes: Mapping[Any, str] = MappingProxyType({})) -> str:
    """An enumeration's values in one paragraph; `notes` go into brackets after them."""
    title = f"**`{values.__name__}`**: {' '.join((values.__doc__ or '').split())}\n"
    items = (f"{v.value} = `{v.name}`" + (f" ({notes[v]})" if v in notes else "") for v in values)
    return f"{title}\n{', '.join(items)}.\n"


def described_table(values: type[Described]) -> str:
    """An enumeration whose members have meanings, as a table."""
    title = f"**`{values.__name__}`**: {' '.join((values.__doc__ or '').split())}\n\n"
    digits = 10 if max(values) > 0xFFFF else 0
    rows = ((f"`{item:#0{digits}x}`" if digits else f"{item}", f"`{item.name}`", item.text) for item in values)
    return title + table(("value", "name", "meaning"), rows)


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of Markdown."""

    def lines() -> Iterator[str]:
        yield f"| {' | '.join(head)} |"
        yield f"|{'|'.join(' --- ' for _ in head)}|"
        for row in rows:
            yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"

    return "\n".join(lines()) + "\n"


def _meaning(field: Field) -> str:
    name = field.enumeration.__name__ if field.enumeration else None
    return f"see `{name}` below" if field.doc == name else field.doc


def _type(field: Field) -> str:
    match field.kind:
        case Kind.NUMBER:
            return f"u{8 * field.size}"
        case Kind.LIST:
            return f"u{8 * field.item_size}[{field.count}]"
        case Kind.TEXT:
            return f"text[{field.size}]"
        case Kind.RESERVED:
            return f"zero[{field.size}]"
        case Kind.STRUCTURE:
            return field.structure
        case Kind.MAGIC:
            return field.magic.hex(" ")
        case _:
            return f"bytes[{field.size}]"
