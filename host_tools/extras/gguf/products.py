# SPDX-License-Identifier: BSD-2-Clause
"""How a matrix's words lie in the GPU's memory.

A lane computes a row, or several, and 16 rows lie side by side: for each block of 32 columns, the words that
their lanes load at the same time follow one another, so that one load of 16 lanes reads whole cache lines. A word
has fields of equal size, one a column; neighbouring columns lie 16 bits apart, so that two become floats at once
(multiply.py). Numbers of 5 and 6 bits are split into two planes: the four low bits, and the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.blocks import COLUMNS, SUPER, Blocks, Form

LANES = 16  # rows that lie side by side
PART_BYTES = 4 << 20  # of a table that data index, at most: devices with less memory read one after the other
XYZW = "xyzw"
FOURS, REST, SUPERS = "fours", "rest", "supers"  # parts of a matrix
TYPES = {FOURS: "uvec4", REST: "uint"}  # a kernel's buffers of a matrix, and their elements


@dataclass(frozen=True)
class Matrix:
    """A matrix as kernels read it.

    Attributes:
        form: what the numbers mean; None: floats of `bits`.
        bits: of a number.
        rows, columns: its size.
        parts: FOURS, REST, SUPERS -> words; the last two are one buffer, with what else a kernel has of constants.
    """

    form: Form | None
    bits: int
    rows: int
    columns: int
    parts: dict[str, NDArray[np.uint32]]

    @property
    def blocks(self) -> int:
        """Blocks of a row."""
        return self.columns // COLUMNS

    @property
    def words(self) -> int:
        """Words of a block that have numbers."""
        return self.bits * COLUMNS // 32

    @property
    def fours(self) -> int:
        """How many of them are loaded by four."""
        return self.words // 4

    @property
    def rest(self) -> int:
        """How many words of a block are loaded one by one: the last one has the scales."""
        return self.words % 4 + (self.form is not None)

    @property
    def _supers(self) -> int:
        """Where a buffer's words of REST end."""
        return self.rows * self.blocks * self.rest

    @property
    def more(self) -> int:
        """Where the buffer REST has what a kernel needs besides."""
        return self._supers + (self.rows * self.columns // SUPER if SUPERS in self.parts else 0)

    def buffers(self, more: NDArray[np.float32] | None = None) -> dict[str, NDArray[np.uint32]]:
        """What kernels have as TYPES; `more`: numbers that they need besides."""
        rest = [self.parts[name].reshape(-1) for name in (REST, SUPERS) if name in self.parts]
        rest += [] if more is None else [more.view(np.uint32)]
        return {FOURS: self.parts[FOURS], **({REST: np.concatenate(rest)} if rest else {})}

    def at(self, row: str, block: str, lane: str) -> list[str]:
        """GLSL of the words of a block, each an expression; `row`: the group of rows."""
        place = f"({row})*{self.blocks}+{block}"
        found = [
            f"fours[(({place})*{self.fours}+{at // 4})*{LANES}+{lane}].{XYZW[at % 4]}"
            for at in range(4 * self.fours)
        ]
        return found + [f"rest[(({place})*{self.rest}+{at})*{LANES}+{lane}]" for at in range(self.rest)]

    def scale(self, scales: str, row: str, block: str, lane: str) -> list[tuple[str, str]]:
        """GLSL of scale and least ("" if it is zero) of each group of a block, whose word of scales is given."""
        form = self.form
        assert form is not None
        if not form.is_super:
            return [(f"unpackHalf2x16({scales}).x", f"unpackHalf2x16({scales}).y" if form.least else "")]
        place = f"({row})*{self.columns // SUPER}+({block})/{SUPER // COLUMNS}"
        high = f"unpackHalf2x16(rest[{self._supers} + ({place})*{LANES}+{lane}])"
        if form.group == COLUMNS:
            return [(f"{high}.x * float({scales} & 255u)", f"-{high}.y * float({scales} >> 8)")]
        return [(f"{high}.x * float(bitfieldExtract(int({scales}), {8 * at}, 8))", "") for at in range(2)]


def planes(bits: int) -> list[tuple[int, float]]:
    """The planes of numbers of some bits: bits of each, and what its fields are times."""
    return [(bits, 1.0)] if bits in (4, 8) else [(4, 1.0), (bits - 4, 16.0)]


def place(column: int, bits: int) -> int:
    """The lowest bit of a word's column: neighbours lie in its two halves."""
    return bits * (column // 2) + 16 * (column % 2)


def laid_out(found: Blocks | NDArray[Any]) -> Matrix:
    """A matrix's words, from `blocks.matrix`; its rows are a multiple of LANES, its columns one of COLUMNS."""
    if not isinstance(found, Blocks):
        rows, columns = found.shape
        words = np.ascontiguousarray(found).view("<u4").reshape(rows, columns // COLUMNS, -1)
        return Matrix(None, 8 * found.itemsize, rows, columns, _parts(words))
    rows, columns = found.numbers.shape
    numbers = found.numbers.reshape(rows, columns // COLUMNS, COLUMNS)
    form = found.form
    parts, shift = [], 0
    for bits, _ in planes(form.bits):
        plane = numbers >> shift & (1 << bits) - 1
        fields = plane.astype(np.uint32).reshape(*numbers.shape[:2], bits, 32 // bits)
        places = np.array([place(column, bits) for column in range(32 // bits)], np.uint32)
        parts.append(np.bitwise_or.reduce(fields << places, axis=-1))
        shift += bits
    words = np.concatenate([*parts, found.scales[..., None]], -1)
    made = _parts(words)
    if found.supers is not None:
        made[SUPERS] = _side_by_side(found.supers[..., None])
    return Matrix(form, form.bits, rows, columns, made)


def _parts(words: NDArray[np.uint32]) -> dict[str, NDArray[np.uint32]]:
    """The buffers of (rows, blocks, words)."""
    count = words.shape[-1] // 4 * 4
    fours = words[..., :count].reshape(*words.shape[:2], -1, 4)
    found = {FOURS: _side_by_side(fours)}
    if count < words.shape[-1]:
        found[REST] = _side_by_side(words[..., count:])
    return found


def _side_by_side(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """(rows, blocks, loads, ..) as (rows / LANES, blocks, loads, LANES, ..)."""
    groups = words.reshape(len(words) // LANES, LANES, *words.shape[1:])
    return np.ascontiguousarray(np.moveaxis(groups, 1, 3))


def joined(matrices: list[Matrix]) -> Matrix:
    """Matrices of one form and as many columns, one under the other."""
    first = matrices[0]
    parts = {name: np.concatenate([one.parts[name] for one in matrices]) for name in first.parts}
    return Matrix(first.form, first.bits, sum(one.rows for one in matrices), first.columns, parts)


def parted(matrix: Matrix) -> list[Matrix]:
    """A matrix as several, one under the other, each of about PART_BYTES at most."""
    # Of rows, so that a lane can compute four, and a workgroup two such parts.
    groups = next(n for n in (8, 4, 2, 1) if matrix.rows % (n * LANES) == 0)
    count = -(-sum(words.nbytes for words in matrix.parts.values()) // PART_BYTES)
    ends = [matrix.rows // (groups * LANES) * at // count * groups for at in range(count + 1)]
    return [
        replace(
            matrix,
            rows=(end - begin) * LANES,
            parts={name: words[begin:end] for name, words in matrix.parts.items()},
        )
        for begin, end in pairwise(ends)
    ]


def row(matrix: Matrix, number: str, block: str) -> tuple[list[str], list[str]]:
    """GLSL of a block of one row: lines that come before, and its weights, an expression for each column."""
    group, lane = f"(({number}) / {LANES})", f"(({number}) % {LANES})"
    words = matrix.at(group, block, lane)
    lines = [f"  uint w{at} = {word};" for at, word in enumerate(words)]
    if matrix.form is None:
        if matrix.bits == 32:
            return lines, [f"uintBitsToFloat(w{at})" for at in range(COLUMNS)]
        return lines, [f"unpackHalf2x16(w{at // 2}).{XYZW[at % 2]}" for at in range(COLUMNS)]
    scales = matrix.scale(f"w{len(words) - 1}", group, block, lane)
    found = []
    for column in range(COLUMNS):
        first, number_ = 0, []
        for bits, factor in planes(matrix.bits):
            word = first + column * bits // 32
            shift = place(column % (32 // bits), bits)
            number_.append(f"float(w{word} >> {shift} & {(1 << bits) - 1}u) * {factor:.1f}")
            first += bits
        scale, least = scales[column // matrix.form.group]
        found.append(
            f"{scale} * ({' + '.join(number_)} - {matrix.form.zero:.1f})" + (f" + {least}" if least else "")
        )
    return lines, found
