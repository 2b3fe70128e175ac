# SPDX-License-Identifier: BSD-2-Clause
"""Clauses of a Bifrost v6 program: how quadwords hold them, and what is in one.

A clause is 1 to 8 tuples of a register block (35 bits), an FMA (23) and an ADD operation (20), and up to 6
constants of 60 bits. Sources: Mesa 22.3.6 src/panfrost/bifrost (disassemble.c, ISA.xml), C. Abbott's notes on
Bifrost, recordings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

QUADWORD = 16
MAX_TUPLES, MAX_CLAUSES = 8, 1 << 16
WIDE = 15  # message type of a clause with operands of 64 bits
_BLOCK, _FMA, _ADD_LOW, _MAIN, _SPLIT = 35, 23, 17, 75, 45
# Of a quadword with two constants: which is the first, and how many tuples the clause has, by the tag's low bits.
_CONSTANTS = (
    (0, 1),
    (0, 2),
    (0, 4),
    (1, 3),
    (1, 5),
    (2, 4),
    (0, 7),
    (1, 6),
    (3, 5),
    (1, 8),
    (2, 7),
    (3, 6),
    (3, 8),
    (4, 7),
    (5, 6),
)


@dataclass(frozen=True)
class Tuple:
    """Register block, FMA and ADD operation, as encoded."""

    block: int
    fma: int
    add: int


@dataclass
class Clause:
    """A clause: its size in bytes, header, tuples, and constants by number, without their low 4 bits."""

    size: int = 0
    header: int = 0
    tuples: list[Tuple] = field(default_factory=list)
    constants: dict[int, int] = field(default_factory=dict)

    @property
    def ends_thread(self) -> bool:
        """Whether no clause follows it."""
        return bits(self.header, 11, 3) == 0

    @property
    def is_wide(self) -> bool:
        """Whether its operands have 64 bits."""
        return bits(self.header, 35, 5) == WIDE


class ClauseError(Exception):
    """Quadwords that are no clause; the message says which and why."""


def bits(word: int, low: int, width: int) -> int:
    """A field."""
    return word >> low & (1 << width) - 1


class _Builder:
    """Takes the quadwords of a clause, one after the other."""

    def __init__(self) -> None:
        self.clause = Clause()
        self.main: dict[int, int] = {}  # number of a tuple -> its low 75 bits
        self.high: dict[int, int] = {}  # -> the 3 high bits of its ADD
        self.low: dict[int, int] = {}  # of one in two quadwords: its low 45 bits
        self.split = 0  # low 15 bits of constant 0
        self.count = 0
        self.done = False

    def take(self, word: int) -> None:
        """The next quadword; ClauseError."""
        tag = word & 0xFF
        text = f"{tag:08b}"
        for pattern, action in _TAGS:
            found = re.fullmatch(pattern, text)
            if found:
                self.done = found.groupdict().get("z") == "1"
                action(self, word, *(int(group, 2) for name, group in found.groupdict().items() if name != "z"))
                self.clause.size += QUADWORD
                return
        raise ClauseError(f"a quadword with the unknown tag {tag:#04x}")

    def tuple(self, number: int, word: int, high: int) -> None:
        """A whole tuple but for the 3 high bits, which are given."""
        self.main[number], self.high[number] = bits(word, 8, _MAIN), high

    def rest(self, number: int, word: int, high: int) -> None:
        """What is missing of a tuple in two quadwords."""
        if number not in self.low:
            raise ClauseError(f"the rest of tuple {number}, which has not begun")
        fma, add = bits(word, 83, 13), bits(word, 96, _ADD_LOW)
        self.main[number] = self.low[number] | fma << _SPLIT | add << _BLOCK + _FMA
        self.high[number] = high

    def end(self) -> Clause:
        """The clause; ClauseError: something is missing."""
        if set(self.main) != set(range(self.count)):
            raise ClauseError(f"tuples {sorted(self.main)} of {self.count}")
        for number in range(self.count):
            main = self.main[number]
            add = bits(main, _BLOCK + _FMA, _ADD_LOW) | self.high[number] << _ADD_LOW
            self.clause.tuples.append(Tuple(bits(main, 0, _BLOCK), bits(main, _BLOCK, _FMA), add))
        return self.clause


def _first(b: _Builder, word: int, high: int) -> None:
    b.tuple(0, word, high)
    b.clause.header = bits(word, 83, 45)


def _only(b: _Builder, word: int, high: int) -> None:
    _first(b, word, high)
    b.count = 1


def _second(b: _Builder, word: int) -> None:
    b.tuple(1, word, bits(word, 125, 3))
    b.count = 2


def _and_low(number: int) -> Callable[[_Builder, int, int], None]:
    def take(b: _Builder, word: int, high: int) -> None:
        b.tuple(number, word, high)
        b.low[number + 1] = bits(word, 83, _SPLIT)

    return take


def _rest_and_constant(number: int) -> Callable[[_Builder, int], None]:
    def take(b: _Builder, word: int) -> None:
        b.rest(number, word, bits(word, 125, 3))
        b.clause.constants[0] = bits(word, 8, 60)
        b.count = number + 1

    return take


def _and_rest(number: int, last: bool) -> Callable[[_Builder, int], None]:
    def take(b: _Builder, word: int) -> None:
        b.tuple(number, word, bits(word, 122, 3))
        b.rest(number - 1, word, bits(word, 125, 3))
        b.count = number + 1 if last else b.count

    return take


def _and_rest_and_half(number: int) -> Callable[[_Builder, int, int, int], None]:
    def take(b: _Builder, word: int, high: int, rest_high: int) -> None:
        b.tuple(number, word, high)
        b.rest(number - 1, word, rest_high)
        b.split = bits(word, 113, 15)

    return take


def _and_half(number: int) -> Callable[[_Builder, int, int], None]:
    def take(b: _Builder, word: int, high: int) -> None:
        b.tuple(number, word, high)
        b.clause.constants[0] = b.split | bits(word, 83, 45) << 15
        b.count = number + 1

    return take


def _constants(b: _Builder, word: int, place: int) -> None:
    if place >= len(_CONSTANTS):
        raise ClauseError(f"constants at the unknown place {place}")
    first, count = _CONSTANTS[place]
    if b.count not in (0, count):
        raise ClauseError(f"constants of a clause of {count} tuples, after {b.count}")
    b.count = count
    b.clause.constants[first], b.clause.constants[first + 1] = bits(word, 8, 60), bits(word, 68, 60)


_TAGS: tuple[tuple[str, Callable[..., None]], ...] = (
    (r"00101(?P<i>...)", _first),
    (r"0(?P<z>.)001(?P<i>...)", _only),
    (r"0(?P<z>.)000011", _second),
    (r"00100(?P<i>...)", _and_low(1)),
    (r"0(?P<z>.)000100", _rest_and_constant(2)),
    (r"00000001", _and_rest(3, last=False)),
    (r"0(?P<z>.)000101", _and_rest(3, last=True)),
    (r"10(?P<i>...)(?P<j>...)", _and_rest_and_half(3)),
    (r"0(?P<z>.)010(?P<i>...)", _and_half(4)),
    (r"01100(?P<i>...)", _and_low(4)),
    (r"0(?P<z>.)000110", _rest_and_constant(5)),
    (r"0(?P<z>.)000111", _and_rest(6, last=True)),
    (r"11(?P<i>...)(?P<j>...)", _and_rest_and_half(6)),
    (r"0(?P<z>.)011(?P<i>...)", _and_half(7)),
    (r"0(?P<z>.)11(?P<p>....)", _constants),
)


def clause_at(read: Callable[[int], bytes | None]) -> Clause:
    """The clause that begins with quadword 0; `read`: the quadword with a number, None: there is none.

    Raises:
        ClauseError: the quadwords are none.
    """
    builder = _Builder()
    number = 0
    while not builder.done:
        data = read(number)
        if data is None:
            raise ClauseError("a quadword that is not known")
        builder.take(int.from_bytes(data, "little"))
        number += 1
        if number > MAX_TUPLES + 4:
            raise ClauseError("a clause without an end")
    return builder.end()
