# SPDX-License-Identifier: BSD-2-Clause
"""The kernel of a matrix times a vector, and what it does with each row's sum before anything is stored.

Two numbers become floats at once: each half of `word & mask` is a half-precision number below the least normal
one, whose value is the number itself times SMALL, exactly.

No lane takes another way than its neighbours (kernels.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from host_tools.extras.gguf.blocks import COLUMNS, Form
from host_tools.extras.gguf.products import LANES, XYZW, Matrix, planes

GROUP = 16  # elements of a vector that share sums
MOST_LANES = 256  # of a workgroup
FEWEST = 16  # subgroups of 16 lanes that a GPU is to have: two for each QPU of a V3D 4.2
SHARED = 0.6  # loading a block of the vector takes as long as so many blocks of a row
ENDS = 1.2  # what a subgroup does beside its blocks takes as long as so many blocks of a row
BARRIER = "memoryBarrierShared(); barrier();"
SMALL = 2.0**-24  # a half whose bits are the number n is n times this, while n has at most ten bits

# Of each pair of a word's fields: where it lies, which bits are kept, and what these are times.
_Unfolded = tuple[str, int, int]
UNFOLDED: dict[int, list[_Unfolded]] = {
    8: [("u", 0x00FF00FF, 1), ("u >> 8", 0x00FF00FF, 1)],
    4: [(word, 0x000F000F * factor, factor) for word in ("u", "u >> 8") for factor in (1, 16)],
    2: [(f"u >> {2 * k}", 0x00030003, 1) for k in range(8)],
    1: [(f"u >> {k}", 0x00010001, 1) for k in range(16)],
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


def tile_of(
    matrix: Matrix, most: int, units: int, *, whole: int = LANES, within: int = 0, matrices: int = 1
) -> Tile:
    """How workgroups share a product.

    Args:
        matrix: what is multiplied.
        most: rows of numbers of up to 8 bits that a lane has: they share what it loads of the vector, but it
            needs registers for all.
        units: of the GPU that each execute a subgroup; the one with most of them is waited for.
        whole: rows that no two workgroups share: LANES times a power of two.
        within: a multiple of `whole` that divides the rows, and the rows of a workgroup divide; 0: all rows.
        matrices: as `Tile.matrices`.
    """
    rows, blocks = matrix.rows // matrices, matrix.blocks
    most = min(most, 8 * most // matrix.words) // matrices

    def fits(tile: Tile) -> bool:
        return tile.count % whole == 0 and (within or rows) % tile.count == 0 and tile.lanes <= MOST_LANES

    def cost(tile: Tile) -> float:
        subgroups = rows // tile.count * tile.tiles * tile.splits
        each = blocks / tile.splits * (tile.rows * matrices + SHARED) + ENDS
        return max(-(-subgroups // units) * units, FEWEST) * each

    splits = [n for n in range(1, MOST_LANES // LANES + 1) if blocks % n == 0]
    counts = range(1, max(most, 1) + 1)
    tiles = range(1, MOST_LANES // LANES + 1)
    found = [Tile(each, n, split, matrices) for each in counts for n in tiles for split in splits]
    # Side by side, up to four find the vector in a core's cache.
    return min(filter(fits, found), key=lambda tile: (cost(tile), -min(tile.tiles, 4), tile.tiles))


def vector(elements: int) -> int:
    """Floats of a vector's buffer. Behind its elements are four a block: sums of its two groups times SMALL and,
    where a norm's root is still to divide it, the groups' squares of the residual vector."""
    return elements + 4 * (elements // COLUMNS)


def product(matrix: Matrix, tile: Tile, finish: Finish) -> str:
    """GLSL of a product; buffers: `v` of the vector (`vector`, by four), the matrix's, and the finish's.

    Args:
        matrix: what is multiplied.
        tile: a workgroup's part.
        finish: what is done with the sums.
    """
    count = matrix.blocks // tile.splits
    lines, normed = list(finish.shared(tile)), bool(finish.before())
    if tile.splits > 1:
        lines.append(f"shared float part[{tile.matrices * tile.count * tile.splits}];")
        lines += [f"shared float squared[{tile.splits}];"] if normed else []
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
    lines += ["  float squares = 0.0;"] if normed else []
    lines += [f"  for (int i = 0; i < {count}; i++) {{", *_block(matrix, rows, normed)]
    lines += [*(f"    {name} += {n * LANES};" for n, name in counters.items()), "    b++;", "  }"]
    if matrix.form is not None:
        lines += [f"  a{at}_{r} *= {1 / SMALL:.1f};" for at, r in rows]
    inside = f"int(part_ % {tile.tiles}u)*{LANES * tile.rows}"
    if tile.splits == 1:
        lines += finish.before()
        for r in range(tile.rows):
            found = ", ".join(f"y{at} = a{at}_{r}" for at in range(tile.matrices))
            lines += [f"  {{ int n = {inside} + {r * LANES} + lane; float {found};", *finish.row(), "  }"]
        return "\n".join([*lines, *finish.after(tile), "}"])
    for at, r in rows:
        place = f"(int(part_ / {tile.tiles}u)*{tile.matrices} + {at})*{tile.count} + {inside} + {r * LANES} + lane"
        lines.append(f"  part[{place}] = a{at}_{r};")
    lines += [f"  squared[part_ / {tile.tiles}u] = squares;"] if normed else []
    lines.append(f"  {BARRIER}")
    if normed:
        lines.append(f"  squares = {' + '.join(f'squared[{k}]' for k in range(tile.splits))};")
    lines += finish.before()
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


def _block(matrix: Matrix, rows: list[tuple[int, int]], normed: bool) -> list[str]:
    """A block's product with all rows of a lane."""
    half = matrix.rows // LANES // (rows[-1][0] + 1)
    counters = _counters(matrix)
    lines: list[str] = []
    words: list[list[str]] = []
    for number, (at, r) in enumerate(rows):
        beyond = (at * half + r) * matrix.blocks * LANES
        for name, buffer, n in (("f", "uvec4", matrix.fours), ("e", "uint", matrix.rest)):
            place = f"{'fours' if name == 'f' else 'rest'}[{counters.get(n)} + {beyond * n}"
            lines += [f"    {buffer} {name}{number}_{k} = {place} + {k * LANES}];" for k in range(n)]
        fours = [f"f{number}_{k}.{c}" for k in range(matrix.fours) for c in XYZW]
        words.append(fours + [f"e{number}_{k}" for k in range(matrix.rest)])
    if matrix.form is not None or normed:
        lines.append(f"    vec4 all_ = v[{matrix.columns // 4} + b];")
    lines += ["    squares += all_.z + all_.w;"] if normed else []
    names = [f"a{at}_{r}" for at, r in rows]
    if matrix.form is None:
        return lines + _floats(matrix, words, names)
    lines += _numbers(matrix.form, words)
    for number, ((at, r), name) in enumerate(zip(rows, names, strict=True)):
        terms = matrix.scale(words[number][-1], f"row+{at * half + r}", "b", "lane")
        for group, (scale, least) in enumerate(terms):
            lines.append(f"    {name} += {scale} * {_total(matrix.form, number, group)};")
            if least:
                lines.append(f"    {name} += {least} * {_sum(matrix.form, group)};")
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
    """The sums of numbers times the vector, times SMALL: s0_0_0.. by row, plane and group."""
    lines, first = [], 0
    for plane, (bits, _) in enumerate(planes(form.bits)):
        fields = 32 // bits
        for group in range(COLUMNS // form.group):
            begin = f"-{form.zero:.1f}*{_sum(form, group)}" if form.zero and plane == 0 else "0.0"
            lines += [f"    float s{row}_{plane}_{group} = {begin};" for row in range(len(words))]
        for at in range(bits):
            lines += _loaded(at * fields, fields) if plane == 0 else []
            # A field's place multiplies it. The vector is divided by that factor, once for all rows.
            for k, (_, _, factor) in enumerate(UNFOLDED[bits]):
                column = at * fields + 2 * k
                for n in range(2):
                    times = "" if factor == 1 else f" * {1 / factor}"
                    lines.append(f"    float y{plane}_{column + n} = {_x(column + n)}{times};")
            for row, found in enumerate(words):
                lines.append(f"    {{ uint u = {found[first + at]}; vec2 p;")
                for k, (word, mask, _) in enumerate(UNFOLDED[bits]):
                    column = at * fields + 2 * k
                    name = f"s{row}_{plane}_{column // form.group}"
                    both = [f"{name} += p.{half}*y{plane}_{column + n};" for n, half in enumerate("xy")]
                    lines.append(f"    p = unpackHalf2x16(({word}) & {mask:#x}u); {' '.join(both)}")
                lines.append("    }")
        first += bits
    return lines


def _sum(form: Form, group: int) -> str:
    """The sum of a group's elements of the vector, times SMALL."""
    return "(all_.x + all_.y)" if form.group == COLUMNS else f"all_.{XYZW[group]}"


def _total(form: Form, row: int, group: int) -> str:
    """The sum of a row's numbers times the vector, over all planes, times SMALL."""
    parts = [
        f"s{row}_{plane}_{group}" if times == 1 else f"{times:.1f}*s{row}_{plane}_{group}"
        for plane, (_, times) in enumerate(planes(form.bits))
    ]
    return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})"
