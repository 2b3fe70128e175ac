# SPDX-License-Identifier: BSD-2-Clause
"""A matrix times a vector on the GPU: how a matrix's words lie, and the kernel that reads them.

A lane computes a row, or several, and 16 rows lie side by side: for each block of 32 columns, the words that
their lanes load at the same time follow one another, so that one load of 16 lanes reads whole cache lines. A word
has fields of equal size, one a column. Numbers of 5 and 6 bits are split into two planes: the four low bits, and
the rest.

A word's low half has the even columns, its high half the odd ones, because two numbers become floats at once, by a
mask and an addition: a half whose bits are 0x6400 plus a number of 8 bits is 1024 plus that number, and one whose
bits are 0x5C00 plus four times the number is 256 plus it. A GPU's multiplier unpacks halves. The smaller what is
added, the fewer bits of the number are lost, so words of 4 bits are turned by two bits, and their upper bytes
turned back. In such a half lie two numbers of 4 bits, q and p. With the vector's elements x and y,

    (256 + q + 16 p) x + (256 + 16 p) (y / 16 - x) = q x + p y + 16 y

so one more mask gives the second product; behind the vector is its copy in that form (kernels.py). What is too
much is taken off by sums of the vector. Small fields are not shifted into place: `float(word & mask)` is a number
times a power of two, which is taken out of the sum over all words of a block.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from host_tools.extras.gguf.blocks import COLUMNS, SUPER, Blocks, Form

LANES = 16  # rows that lie side by side
XYZW = "xyzw"
VECTOR, PAIRS = "x", "pair"  # names of the vector's parts in a kernel
# Of numbers of 4 and of 8 bits: what a half is above its number, its bits then, the mask of two halves' numbers.
ABOVE = {4: (256.0, "0x5C005C00u", "0x03FC03FCu"), 8: (1024.0, "0x64006400u", "0x00FF00FFu")}
FOURS, REST, SUPERS = "fours", "rest", "supers"  # a kernel's buffers of a matrix
TYPES = {FOURS: "uvec4", REST: "uint", SUPERS: "uint"}  # of their elements
SECOND = "0xFFC3FFC3u"  # leaves the second number of 4 bits


@dataclass(frozen=True)
class Matrix:
    """A matrix as kernels read it.

    Attributes:
        form: what the numbers mean; None: floats of `bits`.
        bits: of a number.
        rows, columns: its size.
        parts: buffer of FOURS, REST, SUPERS -> its words.
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
        high = f"unpackHalf2x16(supers[({place})*{LANES}+{lane}])"
        if form.group == COLUMNS:
            return [(f"{high}.x * float({scales} & 255u)", f"-{high}.y * float({scales} >> 8)")]
        return [(f"{high}.x * float(bitfieldExtract(int({scales}), {8 * at}, 8))", "") for at in range(2)]


def planes(bits: int) -> list[tuple[int, float]]:
    """The planes of numbers of some bits: bits of each, and what its fields are times."""
    return [(bits, 1.0)] if bits in (4, 8) else [(4, 1.0), (bits - 4, 16.0)]


def field(column: int, bits: int) -> int:
    """Which field of its word a column is."""
    return column % (32 // bits) // 2 + column % 2 * (16 // bits)


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
        columns_of = plane.astype(np.uint32).reshape(*numbers.shape[:2], bits, 32 // bits)
        shifts = np.array([bits * field(at, bits) for at in range(32 // bits)], np.uint32)
        made_of = np.bitwise_or.reduce(columns_of << shifts, axis=-1)
        parts.append(made_of << np.uint32(2) | made_of >> np.uint32(30) if bits == 4 else made_of)
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


def alternating(one: Matrix, other: Matrix) -> Matrix:
    """Two matrices of one form and size: LANES rows of each in turn."""
    parts = {
        name: np.stack([words, other.parts[name]], 1).reshape(-1, *words.shape[1:])
        for name, words in one.parts.items()
    }
    return Matrix(one.form, one.bits, 2 * one.rows, one.columns, parts)


@dataclass(frozen=True)
class Product:
    """A kernel's text in the making: a matrix times the vector in `v` and `sums` (kernels.py).

    Attributes:
        matrix: what is multiplied; its rows are a multiple of `rows` * LANES.
        rows: that a lane computes.
        wide: the vector is loaded by four.
    """

    matrix: Matrix
    rows: int
    wide: bool

    @property
    def firsts(self) -> dict[str, int]:
        """Where in `v` begins what it reads: the vector, PAIRS, or both."""
        form = self.matrix.form
        starts = {VECTOR: 0, PAIRS: self.matrix.columns}
        kept = {VECTOR} if form is None or form.bits == 8 else {PAIRS} if form.bits == 4 else starts
        return {name: starts[name] for name in starts if name in kept}

    def sums_of_rows(self) -> str:
        """GLSL of `a0`, `a1`, ..: the rows' products; `row` is the first one's group of LANES rows."""
        matrix, rows = self.matrix, range(self.rows)
        lines = ["  int lane = int(gl_LocalInvocationID.x);"]
        lines.append(f"  int row = int(gl_WorkGroupID.x)*{self.rows};")
        lines += [f"  float a{r} = 0.0;" for r in rows]
        lines.append(f"  for (int b = 0; b < {matrix.blocks}; b++) {{")
        if self.wide:
            every = COLUMNS // 4
            lines += [
                f"    vec4 {name}_{at} = v[{first // 4}+b*{every}+{at}];"
                for name, first in self.firsts.items()
                for at in range(every)
            ]
        for r in rows:
            lines += [f"    {kind} {name}_{r} = {load};" for kind, name, load in self._loads(r)]
        if matrix.form is None:
            lines += self._floats()
        else:
            lines += self._numbers(matrix.form)
        return "\n".join([*lines, "  }"])

    def _loads(self, r: int) -> Iterator[tuple[str, str, str]]:
        """Type, name and GLSL of what a row's block is loaded by."""
        matrix = self.matrix
        place = f"(row+{r})*{matrix.blocks}+b"
        for at in range(matrix.fours):
            yield "uvec4", f"f{at}", f"fours[(({place})*{matrix.fours}+{at})*{LANES}+lane]"
        for at in range(matrix.rest):
            yield "uint", f"r{at}", f"rest[(({place})*{matrix.rest}+{at})*{LANES}+lane]"

    def _word(self, r: int, at: int) -> str:
        """A word of a row's block."""
        fours = 4 * self.matrix.fours
        return f"f{at // 4}_{r}.{XYZW[at % 4]}" if at < fours else f"r{at - fours}_{r}"

    def _x(self, name: str, column: int) -> str:
        """An element of the vector's block b."""
        if self.wide:
            return f"{name}_{column // 4}.{XYZW[column % 4]}"
        return f"v[{self.firsts[name]}+b*{COLUMNS}+{column}]"

    def _floats(self) -> list[str]:
        """Weights that are floats."""
        lines, matrix = ["    vec2 p;"], self.matrix
        for at in range(matrix.words):
            for r in range(self.rows):
                if matrix.bits == 32:
                    lines.append(f"    a{r} += uintBitsToFloat({self._word(r, at)})*{self._x(VECTOR, at)};")
                else:
                    lines.append(f"    p = unpackHalf2x16({self._word(r, at)});")
                    lines += self._two(f"a{r}", VECTOR, 2 * at)
        return lines

    def _two(self, total: str, name: str, column: int) -> list[str]:
        """The halves `p` times two neighbours of the vector."""
        return [f"    {total} += p.{XYZW[at]}*{self._x(name, column + at)};" for at in range(2)]

    def _numbers(self, form: Form) -> list[str]:
        """Weights that are numbers: a sum for each row and group, then scales."""
        lines = ["    vec2 p; uint u;"]
        lines.append(f"    vec2 every = sums[b], odd = sums[{self.matrix.blocks}+b];")
        rows = range(self.rows)
        for at in range(COLUMNS // form.group):
            every, odd = (
                (f"{name}.x + {name}.y" if form.group == COLUMNS else f"{name}.{XYZW[at]}")
                for name in ("every", "odd")
            )
            extra = f"{ABOVE[8][0] + form.zero:.1f}*({every})" if form.bits == 8 else f"{ABOVE[4][0] / 16}*({odd})"
            if form.zero and form.bits != 8:
                extra += f" + {form.zero:.1f}*({every})"
            lines.append(f"    float every{at} = {every}, extra{at} = {extra};")
            lines += [f"    float s{at}_{r} = -extra{at};" for r in rows]
            first = 0
            for bits, factor in planes(form.bits):
                count = bits * form.group // 32  # words of the group
                for word in range(at * count, (at + 1) * count):
                    for r in rows:
                        text, total = self._word(r, first + word), f"s{at}_{r}"
                        lines += (
                            self._masked(text, total, word, bits, factor)
                            if bits < 4
                            else self._halves(text, total, word, bits)
                        )
                first += bits
        for r in rows:
            for at, (scale, least) in enumerate(
                self.matrix.scale(self._word(r, self.matrix.words), f"row+{r}", "b", "lane")
            ):
                lines.append(f"    a{r} += {scale} * s{at}_{r}" + (f" + {least} * every{at};" if least else ";"))
        return lines

    def _halves(self, text: str, total: str, word: int, bits: int) -> list[str]:
        """Numbers of 4 and 8 bits."""
        lines, column = [], word * 32 // bits
        _, above, mask = ABOVE[bits]
        for shift in (0, 8):
            moved = text if not shift else f"({text} >> 8)" if bits == 8 else f"(({text} >> 8) + ({text} << 24))"
            lines.append(f"    u = ({moved} & {mask}) + {above}; p = unpackHalf2x16(u);")
            lines += self._two(total, VECTOR if bits == 8 else PAIRS, column)
            column += 2
            if bits == 4:
                lines += [f"    p = unpackHalf2x16(u & {SECOND});", *self._two(total, PAIRS, column)]
                column += 2
        return lines

    def _masked(self, text: str, total: str, word: int, bits: int, factor: float) -> list[str]:
        """Numbers of 1 and 2 bits."""
        lines, columns = [], 32 // bits
        for column in range(columns):
            at = bits * field(column, bits)
            product = f"float({text} & {(1 << bits) - 1 << at:#x}u)*{self._x(VECTOR, word * columns + column)}"
            lines.append(f"    {total} += {product} * {factor * 2.0**-at:.12e};")
        return lines


def row(matrix: Matrix, number: str, block: str) -> tuple[list[str], list[str]]:
    """GLSL of a block of one row: lines that come before, and its weights, an expression for each column."""
    group, lane = f"(({number}) / {LANES})", f"(({number}) % {LANES})"
    words = matrix.at(group, block, lane)
    lines = [f"  uint w{at} = {word};" for at, word in enumerate(words)]
    if matrix.form is not None and matrix.bits != 8:
        lines += [f"  w{at} = (w{at} >> 2) | (w{at} << 30);" for at in range(4)]
    if matrix.form is None:
        if matrix.bits == 32:
            return lines, [f"uintBitsToFloat(w{at})" for at in range(COLUMNS)]
        return lines, [f"unpackHalf2x16(w{at // 2}).{XYZW[at % 2]}" for at in range(COLUMNS)]
    scales = matrix.scale(f"w{len(words) - 1}", group, block, lane)
    found = []
    for column in range(COLUMNS):
        first, number_ = 0, []
        for bits, factor in planes(matrix.bits):
            word, shift = first + column * bits // 32, bits * field(column, bits)
            number_.append(f"float(w{word} >> {shift} & {(1 << bits) - 1}u) * {factor:.1f}")
            first += bits
        scale, least = scales[column // matrix.form.group]
        found.append(
            f"{scale} * ({' + '.join(number_)} - {matrix.form.zero:.1f})" + (f" + {least}" if least else "")
        )
    return lines, found
