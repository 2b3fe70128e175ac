# SPDX-License-Identifier: BSD-2-Clause
"""What an operand of an action can be, and where it lies in an action's 16 bytes.

What follows from an operand's type is said once for each type: the rule in words here, the host's check in
`trace_format.validate`, the C core's in `trace_format.emit.c_actions` and core/check.c, the words of a dump in
`host_tools.model.description`. So an opcode that takes operands of these types is one row of the action table.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FIELD_BITS = {"arg": 16, "value": 32, "a": 32, "b": 32}  # fields of `Action` that operands lie in


class Type(enum.Enum):
    """What an operand is."""

    REGISTER_READ = enum.auto()
    REGISTER_WRITTEN = enum.auto()
    EXPECTED = enum.auto()
    BITS = enum.auto()
    MASK = enum.auto()
    KEEP = enum.auto()
    LINE = enum.auto()
    SLOT = enum.auto()
    TIMEOUT = enum.auto()
    MICROSECONDS = enum.auto()
    NUMBER = enum.auto()
    ADDRESS_SPACE = enum.auto()
    VA_PAGE = enum.auto()
    FRAME = enum.auto()
    PAGES = enum.auto()
    TARGET = enum.auto()
    SOURCE = enum.auto()
    BYTES = enum.auto()
    OPERATOR = enum.auto()
    OPERANDS = enum.auto()
    STREAM = enum.auto()
    INSTRUCTIONS = enum.auto()


REGISTERS = (Type.REGISTER_READ, Type.REGISTER_WRITTEN)
NOT_ZERO = (Type.TIMEOUT, Type.PAGES, Type.BYTES, Type.INSTRUCTIONS)
# Operands that begin a range, and what counts its items.
COUNTED_BY = {
    Type.VA_PAGE: Type.PAGES,
    Type.FRAME: Type.PAGES,
    Type.TARGET: Type.BYTES,
    Type.SOURCE: Type.BYTES,
    Type.STREAM: Type.INSTRUCTIONS,
}
# What docs/FORMAT.md demands of operands of a type; a type without a rule may have any value.
RULES = {
    Type.REGISTER_READ: "inside the register window of the GPU's profile, and one that a trace may read there",
    Type.REGISTER_WRITTEN: (
        "inside the register window of the GPU's profile; which of them a trace may write, and with which bits, "
        "is the profile's to say, and replayers enforce it, signature or not"
    ),
    Type.KEEP: "less than {keep}",
    Type.LINE: "one of the GPU's interrupt lines, by its profile",
    Type.SLOT: "one of the trace's slots",
    Type.TIMEOUT: "not zero",
    Type.NUMBER: "counts from 0 without a gap",
    Type.ADDRESS_SPACE: "one of the GPU's address spaces, by its profile",
    Type.PAGES: "not zero",
    Type.VA_PAGE: "the pages end at or below `va_bytes`",
    Type.FRAME: (
        "the pages lie inside the carve-out; those that the GPU may write, after the image's last page; those "
        "that it may execute, in the image, where page tables can forbid execution (replayers enforce that)"
    ),
    Type.BYTES: "not zero",
    Type.TARGET: "the bytes lie after the image's last page and inside the carve-out",
    Type.SOURCE: "the bytes lie inside the image",
    Type.OPERATOR: "one of the operators below; a device refuses one that its firmware was not generated with",
    Type.OPERANDS: "as many as the operator takes, and there are so many slots from `slot` on",
    Type.STREAM: "a multiple of 8; the instructions, of 8 bytes, end at or below `va_bytes`",
    Type.INSTRUCTIONS: "not zero",
}


@dataclass(frozen=True)
class Bits:
    """Some bits of a field of `Action`: `width` of them (0: all that it has), starting at bit `low`."""

    field: str
    low: int = 0
    width: int = 0

    @property
    def count(self) -> int:
        """How many bits."""
        return self.width or FIELD_BITS[self.field] - self.low

    @property
    def is_whole(self) -> bool:
        """It is all of the field."""
        return self.count == FIELD_BITS[self.field]

    def __str__(self) -> str:
        return self.field if self.is_whole else f"{self.field}[{self.low + self.count - 1}:{self.low}]"


@dataclass(frozen=True)
class Operand:
    """An operand of an action.

    Attributes:
        name: by which programs read it, as in `action.register`.
        type: what it is.
        what: its meaning, in one line.
        places: where its bits lie, the lowest first.
    """

    name: str
    type: Type
    what: str
    places: tuple[Bits, ...]

    @property
    def bits(self) -> int:
        """How many bits it has."""
        return sum(place.count for place in self.places)

    @property
    def field(self) -> str:
        """The field that it is all of; "" where it shares one, or lies in two."""
        return self.places[0].field if len(self.places) == 1 and self.places[0].is_whole else ""

    def decode(self, fields: Mapping[str, Any]) -> Any:
        """Its value, from a mapping of an action's fields: numbers, or arrays of integers of 64 bits."""
        value, at = 0, 0
        for place in self.places:
            value |= (fields[place.field] >> place.low & (1 << place.count) - 1) << at
            at += place.count
        return value

    def put(self, fields: dict[str, Any], value: Any) -> None:
        """Change its bits in an action's fields; the inverse of `decode`. Whether a number fits is not checked."""
        for place in self.places:
            mask = (1 << place.count) - 1
            fields[place.field] = fields[place.field] & ~(mask << place.low) | (value & mask) << place.low
            value = value >> place.count

    def fits(self, value: int) -> bool:
        """Whether a number can be encoded."""
        return 0 <= value < 1 << self.bits


def operand(name: str, type: Type, what: str, *places: Bits | str) -> Operand:
    """An operand; a place that is a whole field is given by the field's name."""
    return Operand(name, type, what, tuple(Bits(p) if isinstance(p, str) else p for p in places))
