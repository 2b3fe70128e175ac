# SPDX-License-Identifier: BSD-2-Clause
"""The kernel of a matrix times a vector, and what it does with each row's sum before anything is stored.

Two numbers become floats at once: each half of `(word & mask) + constant` is a half-precision number, a power of
two plus the number itself, exactly. What these powers add to a block's sum is taken from it before it is scaled;
`offset` tells the vector's maker how much that is for numbers of four bits.

No lane takes another way than its neighbours (kernels.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from host_tools.extras.gguf.blocks import COLUMNS, Form
from host_tools.extras.gguf.products import LANES, XYZW, Matrix, planes

GROUP = 16  # elements of a vector that share sums
MOST_LANES = 256  # of a workgroup
SIDE_BY_SIDE = 8  # subgroups of 16 lanes that a GPU executes: a V3D 4.2 has as many QPUs
WORDS = 16  # of weights that a lane has at a time: with more, it has no registers for the rest
ENDS = 0.3  # blocks of four rows that take as long as a subgroup's work beside its blocks
BARRIER = "memoryBarrierShared(); barrier();"

# Of each pair of a word's fields: where it lies, which bits are kept, the constant, and what that adds to each.
# The number is in the upper bits of the half's ten, so that little of a float's precision is lost to the sum.
_Unfolded = tuple[str, int, int, int]
UNFOLDED: dict[int, list[_Unfolded]] = {
    4: [
        ("u << 2", 0x003C003C, 0x5C005C00, 256),
        ("u << 2", 0x03C003C0, 0x4C004C00, 16),
        ("u >> 6", 0x003C003C, 0x5C005C00, 256),
        ("u >> 6", 0x03C003C0, 0x4C004C00, 16),
    ],
    8: [("u", 0x00FF00FF, 0x64006400, 1024), ("u >> 8", 0x00FF00FF, 0x64006400, 1024)],
    2: [(f"u << {8 - 2 * k}" if k < 5 else f"u >> {2 * k - 8}", 0x03000300, 0x44004400, 4) for k in range(8)],
    1: [(f"u << {9 - k}" if k < 10 else f"u >> {k - 9}", 0x02000200, 0x40004000, 2) for k in range(16)],
}


@dataclass(frozen=True)
class Tile:
    """A workgroup's part of a product.

    Attributes:
        rows: that a lane computes, of each of the matrices that lie one under the other.
        tiles: LANES * `rows` rows, side by side.
        splits: parts of the columns, whose sums are added at the end.
        matrices: how many lie one under the other; a lane computes the same rows of each.
    """

    rows: int
    tiles: int
    splits: int
    matrices: int = 1

    @property
    def lanes(self) -> int:
        """Of the workgroup."""
        return LANES * self.tiles * self.splits

    @property
    def count(self) -> int:
        """Rows of each matrix that the workgroup computes."""
        return LANES * self.rows * self.tiles


class Finish(Protocol):
    """What is done with the sums of rows: GLSL, in lines.

    `row` has a row's number in the workgroup's `n`, the first one's in `first`, and the sums `y0` of each matrix;
    several lanes may have the same row, so that it stores nothing twice that it reads.
    """

    def shared(self, tile: Tile) -> list[str]:
        """Declarations."""

    def before(self) -> list[str]:
        """What is computed once."""

    def row(self) -> list[str]:
        """What is done with a row."""

    def after(self, tile: Tile) -> list[str]:
        """What is done when all rows are."""


def tile_of(matrix: Matrix, *, whole: int = LANES, within: int = 0, matrices: int = 1) -> Tile:
    """How workgroups share a product.

    Args:
        matrix: what is multiplied.
        whole: rows that no two workgroups share: LANES times a power of two.
        within: a multiple of `whole` that divides the rows, and the rows of a workgroup divide; 0: all rows.
        matrices: as `Tile.matrices`.
    """
    rows, blocks, step = matrix.rows // matrices, matrix.blocks, whole // LANES
    most = max(WORDS // (matrix.words * matrices), 1)
    each = next(
        n
        for n in range(most, 0, -1)
        if (n % step == 0 or step % n == 0) and (within or rows) % (LANES * n * max(step // n, 1)) == 0
    )
    tiles = max(step // each, 1)
    tiles *= 2 if tiles == 1 and rows % (2 * LANES * each) == 0 and not within else 1
    groups = rows // (LANES * each * tiles)

    def cost(splits: int) -> float:
        subgroups = groups * tiles * splits
        return max(-(-subgroups // SIDE_BY_SIDE), 2) * (blocks / splits + ENDS)

    most_splits = MOST_LANES // (LANES * tiles)
    splits = min((n for n in range(1, most_splits + 1) if blocks % n == 0), key=cost)
    return Tile(each, tiles, splits, matrices)


def added(columns: Sequence[str]) -> tuple[str, str]:
    """GLSL of what a vector's maker stores of GROUP elements: what the constants add to a sum of numbers of four
    bits, and the elements' sum."""
    parts: dict[int, list[str]] = {}
    for at, column in enumerate(columns):
        parts.setdefault(UNFOLDED[4][at % 8 // 2][3], []).append(column)
    sums = {factor: f"({' + '.join(found)})" for factor, found in parts.items()}
    return " + ".join(f"{factor}.0*{found}" for factor, found in sums.items()), " + ".join(sums.values())


def vector(elements: int) -> int:
    """Floats of a vector's buffer: behind its elements, `added` of its groups; then, of those that a norm's root
    is still to divide, the groups' squares of the residual vector."""
    return elements + 3 * (elements // GROUP)


def product(matrix: Matrix, tile: Tile, finish: Finish) -> str:
    """GLSL of a product; buffers: `v` of the vector (`vector`, by four), the matrix's, and the finish's.

    Args:
        matrix: what is multiplied.
        tile: a workgroup's part.
        finish: what is done with the sums.
    """
    count = matrix.blocks // tile.splits
    lines = list(finish.shared(tile))
    if tile.splits > 1:
        lines.append(f"shared float part[{tile.matrices * tile.count * tile.splits}];")
    lines += ["void main() {", "  uint t_ = gl_LocalInvocationID.x, part_ = t_ / 16u;"]
    lines.append(f"  int t = int(t_), first = int(gl_WorkGroupID.x)*{tile.count}, lane = int(t_ % 16u);")
    # Where a lane's number decides it, the vector is loaded by the units that load words: its elements arrive
    # together, and the compiler's order wastes fewer instructions than with a load of uniforms for each.
    row = f"first/{LANES} + int(part_ % {tile.tiles}u)*{tile.rows}"
    lines.append(f"  int row = {row}, b = int(part_ / {tile.tiles}u)*{count};")
    counters = _counters(matrix)
    lines += [f"  int {name} = (row*{matrix.blocks} + b)*{n * LANES} + lane;" for n, name in counters.items()]
    rows = [(at, r) for at in range(tile.matrices) for r in range(tile.rows)]
    lines += [f"  float a{at}_{r} = 0.0;" for at, r in rows]
    lines += [f"  for (int i = 0; i < {count}; i++) {{", *_block(matrix, rows)]
    lines += [*(f"    {name} += {n * LANES};" for n, name in counters.items()), "    b++;", "  }"]
    lines += finish.before()
    inside = f"int(part_ % {tile.tiles}u)*{LANES * tile.rows}"
    if tile.splits == 1:
        for r in range(tile.rows):
            found = ", ".join(f"y{at} = a{at}_{r}" for at in range(tile.matrices))
            lines += [f"  {{ int n = {inside} + {r * LANES} + lane; float {found};", *finish.row(), "  }"]
        return "\n".join([*lines, *finish.after(tile), "}"])
    for at, r in rows:
        place = f"(int(part_ / {tile.tiles}u)*{tile.matrices} + {at})*{tile.count} + {inside} + {r * LANES} + lane"
        lines.append(f"  part[{place}] = a{at}_{r};")
    lines.append(f"  {BARRIER}")
    for i in range(-(-tile.count // tile.lanes)):
        lines.append(f"  {{ int n = ({i * tile.lanes}+t) % {tile.count}; float {_zeros(tile)};")
        for at in range(tile.matrices):
            each = [f"part[{(k * tile.matrices + at) * tile.count} + n]" for k in range(tile.splits)]
            lines.append(f"  y{at} = {' + '.join(each)};")
        lines += [*finish.row(), "  }"]
    return "\n".join([*lines, *finish.after(tile), "}"])


def _zeros(tile: Tile) -> str:
    return ", ".join(f"y{at} = 0.0" for at in range(tile.matrices))


def _counters(matrix: Matrix) -> dict[int, str]:
    """By how many elements of a buffer a block of a lane has: what counts them."""
    return {matrix.fours: "f", **({matrix.rest: "e"} if matrix.rest not in (0, matrix.fours) else {})}


def _block(matrix: Matrix, rows: list[tuple[int, int]]) -> list[str]:
    """A block's product with all rows of a lane."""
    lines: list[str] = []
    half = matrix.rows // LANES // (rows[-1][0] + 1)
    counters = _counters(matrix)
    for number, (at, r) in enumerate(rows):
        beyond = (at * half + r) * matrix.blocks * LANES
        for name, buffer, n in (("f", "uvec4", matrix.fours), ("e", "uint", matrix.rest)):
            place = f"{'fours' if name == 'f' else 'rest'}[{counters.get(n)} + {beyond * n}"
            lines += [f"    {buffer} {name}{number}_{k} = {place} + {k * LANES}];" for k in range(n)]
    names = [f"a{at}_{r}" for at, r in rows]
    words = [[f"f{number}_{n // 4}.{XYZW[n % 4]}" for n in range(4 * matrix.fours)] for number in range(len(rows))]
    for number, found in enumerate(words):
        found += [f"e{number}_{n}" for n in range(matrix.rest)]
    if matrix.form is None:
        return lines + _floats(matrix, words, names)
    lines.append(f"    vec4 all_ = v[{matrix.columns // 4} + b];")
    lines += _numbers(matrix.form, words)
    for number, ((at, r), name) in enumerate(zip(rows, names, strict=True)):
        terms = matrix.scale(words[number][-1], f"row+{at * half + r}", "b", "lane")
        for group, (scale, least) in enumerate(terms):
            lines.append(f"    {name} += {scale} * {_total(matrix.form, number, group)};")
            if least:
                lines.append(f"    {name} += {least} * sum{group};")
    return lines


def _x(column: int) -> str:
    """An element of the vector's block b, which `_loaded` has named."""
    return f"x{column // 4}.{XYZW[column % 4]}"


def _loaded(first: int, count: int) -> list[str]:
    """Four elements of the vector by name, from those whose first is among these: a Mali's driver would load each
    element wherever it is used."""
    return [
        f"    vec4 x{at} = v[b*{COLUMNS // 4}+{at}];" for at in range(-(-first // 4), -(-(first + count) // 4))
    ]


def _floats(matrix: Matrix, words: list[list[str]], names: list[str]) -> list[str]:
    """A block's product where weights are floats."""
    lines = []
    for at in range(matrix.words):
        lines += _loaded(at * 32 // matrix.bits, 32 // matrix.bits)
        for name, found in zip(names, words, strict=True):
            if matrix.bits == 32:
                lines.append(f"    {name} += uintBitsToFloat({found[at]}) * {_x(at)};")
                continue
            pair = [f"p.{half} * {_x(2 * at + n)}" for n, half in enumerate("xy")]
            lines.append(f"    {{ vec2 p = unpackHalf2x16({found[at]}); {name} += {' + '.join(pair)}; }}")
    return lines


def _numbers(form: Form, words: list[list[str]]) -> list[str]:
    """The sums of numbers times the vector, s0_0.. by row, plane and group; they begin below zero by what the
    constants, and the number whose weight is least, add to them."""
    groups = COLUMNS // form.group
    lines, first = [], 0
    for group in range(groups):
        each = "all_.xy + all_.zw" if groups == 1 else f"all_.{'xyzw'[2 * group : 2 * group + 2]}"
        lines += [f"    vec2 both{group} = {each}; float sum{group} = both{group}.y;"]
    for plane, (bits, _) in enumerate(planes(form.bits)):
        fields = 32 // bits
        for group in range(groups):
            zero = form.zero if plane == 0 else 0
            constant = UNFOLDED[bits][0][3] + zero
            begin = f"-{constant:.1f}*sum{group}"
            if bits == 4:
                begin = f"-both{group}.x" + (f" - {zero:.1f}*sum{group}" if zero else "")
            lines.append(f"    float begin{plane}_{group} = {begin};")
            lines += [f"    float s{row}_{plane}_{group} = begin{plane}_{group};" for row in range(len(words))]
        for at in range(bits):
            lines += _loaded(at * fields, fields) if plane == 0 else []
            for row, found in enumerate(words):
                lines.append(f"    {{ uint u = {found[first + at]}; vec2 p;")
                for k, (shift, mask, constant_, _) in enumerate(UNFOLDED[bits]):
                    column = at * fields + 2 * k
                    name = f"s{row}_{plane}_{column // form.group}"
                    both = [f"{name} += p.{half}*{_x(column + n)};" for n, half in enumerate("xy")]
                    lines.append(
                        f"    p = unpackHalf2x16((({shift}) & {mask:#x}u) + {constant_:#x}u); {' '.join(both)}"
                    )
                lines.append("    }")
        first += bits
    return lines


def _total(form: Form, row: int, group: int) -> str:
    """The sum of a row's numbers times the vector, over all planes."""
    parts = [
        f"s{row}_{plane}_{group}" if factor == 1 else f"{factor:.1f}*s{row}_{plane}_{group}"
        for plane, (_, factor) in enumerate(planes(form.bits))
    ]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
