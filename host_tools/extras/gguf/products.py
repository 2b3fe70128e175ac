# SPDX-License-Identifier: BSD-2-Clause
"""A matrix times a vector on the GPU: how a matrix's words lie, and the kernel that reads them.

A lane computes a row, or several, and 16 rows lie side by side: for each block of 32 columns, the words that
their lanes load at the same time follow one another, so that one load of 16 lanes reads whole cache lines. A word
has fields of equal size, one a column. Numbers of 5 and 6 bits are split into two planes: the four low bits, and
the rest.

A field is not shifted into place. `float(word & mask)` is its number times a power of two, which is taken out of
the sum over all words of a block.
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
FOURS, REST, SUPERS = "fours", "rest", "supers"  # a kernel's buffers of a matrix
TYPES = {FOURS: "uvec4", REST: "uint", SUPERS: "uint"}  # of their elements


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
        parts.append(np.bitwise_or.reduce(fields << bits * np.arange(32 // bits, dtype=np.uint32), axis=-1))
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
    groups = 2 if matrix.rows % (2 * LANES) == 0 else 1  # of rows, so that a lane can compute two
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


def product(matrix: Matrix, rows: int, first: int, adds: bool, wide: bool) -> str:
    """GLSL of `o = matrix * v`; buffers `v` and `sums` of the vector (kernels.py), `o`, and the matrix's parts.

    Args:
        matrix: what is multiplied; its rows are a multiple of `rows` * LANES.
        rows: that a lane computes.
        first: where in `o` the product begins.
        adds: the product is added to what `o` has.
        wide: `v` has vectors of four.
    """
    lines = ["void main() {", "  int lane = int(gl_LocalInvocationID.x);"]
    lines.append(f"  int row = int(gl_WorkGroupID.x)*{rows};")
    lines += [f"  float a{r} = 0.0;" for r in range(rows)]
    lines.append(f"  for (int b = 0; b < {matrix.blocks}; b++) {{")
    if wide:
        lines += [f"    vec4 x{at} = v[b*{COLUMNS // 4}+{at}];" for at in range(COLUMNS // 4)]
    if matrix.form is not None and (matrix.form.zero or matrix.form.least):
        lines.append("    vec2 all_ = sums[b];")
    for r in range(rows):
        place = f"row+{r}"
        lines.append("    {")
        for at in range(matrix.fours):
            load = f"fours[((({place})*{matrix.blocks}+b)*{matrix.fours}+{at})*{LANES}+lane]"
            lines.append(f"    uvec4 f{at} = {load};")
        loaded = [f"f{at // 4}.{XYZW[at % 4]}" for at in range(4 * matrix.fours)]
        for at, load in enumerate(matrix.at(place, "b", "lane")[len(loaded) :]):
            lines.append(f"    uint r{at} = {load};")
            loaded.append(f"r{at}")
        add = _floats(matrix, loaded, wide) if matrix.form is None else _block(matrix, loaded, place, wide)
        lines += [*add[:-1], f"    a{r} += {add[-1]};", "    }"]
    lines.append("  }")
    lines += [f"  o[{first}+(row+{r})*{LANES}+lane] {'+=' if adds else '='} a{r};" for r in range(rows)]
    return "\n".join([*lines, "}"])


def _x(column: int, wide: bool) -> str:
    """An element of the vector's block b."""
    return f"x{column // 4}.{XYZW[column % 4]}" if wide else f"v[b*{COLUMNS}+{column}]"


def _floats(matrix: Matrix, words: list[str], wide: bool) -> list[str]:
    """A block's product where weights are floats; the last line is an expression."""
    if matrix.bits == 32:
        return [" + ".join(f"uintBitsToFloat({word})*{_x(at, wide)}" for at, word in enumerate(words))]
    lines = ["    vec2 p; float s = 0.0;"]
    for at, word in enumerate(words):
        lines.append(f"    p = unpackHalf2x16({word}); s += p.x*{_x(2 * at, wide)} + p.y*{_x(2 * at + 1, wide)};")
    return [*lines, "s"]


def _block(matrix: Matrix, words: list[str], row: str, wide: bool) -> list[str]:
    """A block's product where weights are numbers; the last line is an expression."""
    form = matrix.form
    assert form is not None
    lines: list[str] = []
    terms: list[str] = []
    for at, (scale, least) in enumerate(matrix.scale(words[-1], row, "b", "lane")):
        lines += [f"    float s{at} = 0.0;", *_group(form, words, at, wide)]
        total = "(all_.x + all_.y)" if form.group == COLUMNS else f"all_.{XYZW[at]}"
        number = f"(s{at} - {form.zero:.1f}*{total})" if form.zero else f"s{at}"
        terms.append(f"{scale} * {number}" + (f" + {least} * {total}" if least else ""))
    return [*lines, " + ".join(terms)]


def _group(form: Form, words: list[str], group: int, wide: bool) -> list[str]:
    """The sum of numbers times the vector, over a group of a block, into s0 or s1."""
    lines, first = [], 0
    for bits, factor in planes(form.bits):
        fields = 32 // bits
        count = bits * form.group // 32  # words of the group
        for k in range(fields):
            mask = (1 << bits) - 1 << bits * k
            columns = [group * form.group + j * fields + k for j in range(count)]
            sums = " + ".join(
                f"float({words[first + group * count + j]} & {mask:#x}u)*{_x(column, wide)}"
                for j, column in enumerate(columns)
            )
            lines.append(f"    s{group} += ({sums}) * {factor * 2.0 ** (-bits * k):.12e};")
        first += bits
    return lines


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
            number_.append(f"float(w{word} >> {column * bits % 32} & {(1 << bits) - 1}u) * {factor:.1f}")
            first += bits
        scale, least = scales[column // matrix.form.group]
        found.append(
            f"{scale} * ({' + '.join(number_)} - {matrix.form.zero:.1f})" + (f" + {least}" if least else "")
        )
    return lines, found
