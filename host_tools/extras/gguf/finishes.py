# SPDX-License-Identifier: BSD-2-Clause
"""What kernels do with a product's rows before they are stored (`multiply.Finish`).

The kernel that makes the residual vector also makes the vector after a norm: times the norm's gain, and not yet
divided by its root of the mean square. The squares' sums are stored beside it, and products' rows are divided.
"""

from __future__ import annotations

from dataclasses import dataclass

from host_tools.extras.gguf.multiply import BARRIER, GROUP, SMALL, Tile


@dataclass(frozen=True)
class Norm:
    """A norm that is still to be done: width of the residual vector, and what is added to its mean square."""

    width: int
    epsilon: float

    def lines(self) -> list[str]:
        """GLSL of `norm`, by the sum of all `squares`."""
        return [f"  float norm = 1.0 / sqrt(squares * {1 / self.width:.9e} + {self.epsilon:.9e});"]


def sums(elements: int, count: int, lanes: int, first: str, *, squares: bool = False) -> list[str]:
    """GLSL of what lies behind the vector `made` (`multiply.vector`), by the shared `mine`, and of `square`.

    Args:
        elements: of the vector.
        count: elements that the workgroup has: a multiple of GROUP.
        lanes: of the workgroup. Neighbours sum the same group, whose elements they load at once.
        first: GLSL of the first one's number.
        squares: there is `square`.
    """
    lines = [
        f"  {BARRIER}",
        f"  {{ int g = int(uint(t) * {count // GROUP}u / {lanes}u), at = {first}/{GROUP} + g;",
    ]
    place = f"{elements} + at/2*4 + at%2"
    for name, at in (("mine", place), *([("square", f"{place} + 2")] if squares else [])):
        all_ = " + ".join(f"{name}[g*{GROUP}+{k}]" for k in range(GROUP))
        lines.append(f"    made[{at}] = {f'({all_}) * {SMALL:.9e}' if name == 'mine' else all_};")
    return [*lines, "  }"]


@dataclass(frozen=True)
class Store:
    """Rows are stored in `o`, from the element `begin` on."""

    norm: Norm
    begin: int = 0

    def shared(self, tile: Tile) -> list[str]:
        """Nothing."""
        return []

    def before(self) -> list[str]:
        """The norm."""
        return self.norm.lines()

    def row(self) -> list[str]:
        """Store it."""
        return [f"  o[{self.begin} + first + n] = y0 * norm;"]

    def after(self, tile: Tile) -> list[str]:
        """Nothing."""
        return []


@dataclass(frozen=True)
class Gate:
    """The vector `made`: the first matrix's row by SiLU (times its own logistic function), times the second's.

    Attributes:
        norm: of the residual vector.
        hidden: elements of the vector.
    """

    norm: Norm
    hidden: int

    def shared(self, tile: Tile) -> list[str]:
        """The vector's part."""
        return [f"shared float mine[{tile.count}];"]

    def before(self) -> list[str]:
        """The norm."""
        return self.norm.lines()

    def row(self) -> list[str]:
        """An element."""
        return [
            "  y0 *= norm; y1 *= norm; y0 = y0 / (1.0 + exp(-y0)) * y1;",
            "  made[first + n] = y0; mine[n] = y0;",
        ]

    def after(self, tile: Tile) -> list[str]:
        """Its sums."""
        return sums(self.hidden, tile.count, tile.lanes, "first")


@dataclass(frozen=True)
class Add:
    """The residual vector `more`: rows, added to `x`; and `made`, what the next norm has of it, by its gain.

    Attributes:
        width: of the residual vector.
        gain: where the gain begins in `rest`.
    """

    width: int
    gain: int

    def shared(self, tile: Tile) -> list[str]:
        """The vector's part, and squares of the residual one's."""
        return [f"shared float mine[{tile.count}];", f"shared float square[{tile.count}];"]

    def before(self) -> list[str]:
        """Nothing."""
        return []

    def row(self) -> list[str]:
        """An element."""
        return [
            "  y0 += x[first + n]; more[first + n] = y0; square[n] = y0*y0;",
            f"  y0 *= uintBitsToFloat(rest[{self.gain} + first + n]); made[first + n] = y0; mine[n] = y0;",
        ]

    def after(self, tile: Tile) -> list[str]:
        """The sums."""
        return sums(self.width, tile.count, tile.lanes, "first", squares=True)


@dataclass(frozen=True)
class Heads:
    """Queries and this position's keys turned by its angles, keys and values put into the caches where they lie.

    A workgroup has whole heads of one kind, so that it takes one way.

    Attributes:
        norm: of the residual vector.
        begin: the first row among those of queries, keys and values.
        heads, groups: of queries; of keys and of values.
        size: of a head.
        positions: of the caches.
        apart: a pair is (i, i + size / 2), not (2 i, 2 i + 1).
        biases: where these begin in `rest`, which are added to rows; below 0: there are none.
        gains: where these begin in `rest`, a head's of queries and one of keys, which a head is times after it was
            divided by its root of the mean square; below 0: it is not.
    """

    norm: Norm
    begin: int
    heads: int
    groups: int
    size: int
    positions: int
    apart: bool
    biases: int = -1
    gains: int = -1

    def shared(self, tile: Tile) -> list[str]:
        """The heads."""
        return [f"shared float mine[{tile.count}];"]

    def before(self) -> list[str]:
        """The norm."""
        return self.norm.lines()

    def row(self) -> list[str]:
        """An element."""
        bias = f" + uintBitsToFloat(rest[{self.biases + self.begin} + first + n])" if self.biases >= 0 else ""
        return [f"  mine[n] = y0 * norm{bias};"]

    def after(self, tile: Tile) -> list[str]:
        """Pairs turned, and stored."""
        size, half, positions = self.size, self.size // 2, self.positions
        scale, turned = f"{size**-0.5:.9e}", ("a*c.x - b*c.y", "a*c.y + b*c.x")
        one, two = ("c_", f"c_+{half}") if self.apart else ("2*c_", "2*c_+1")
        lines = [f"  {BARRIER}", f"  int at = clamp(position[0], 0, {positions - 1});"]
        lines.append(f"  int head = ({self.begin} + first) / {size};")
        for i in range(-(-tile.count // 2 // tile.lanes)):
            lines += [
                f"  {{ int m = ({i * tile.lanes}+t) % {tile.count // 2}, h = m / {half}, c_ = m % {half};",
                f"  float a = mine[h*{size}+{one}], b = mine[h*{size}+{two}];",
                f"  vec2 c = angles[at*{half}+c_];",
                f"  if (head < {self.heads}) {{",
                *self._normed(0, one, two),
                f"    q[(head+h)*{size}+{one}] = ({turned[0]}) * {scale};",
                f"    q[(head+h)*{size}+{two}] = ({turned[1]}) * {scale};",
                f"  }} else if (head < {self.heads + self.groups}) {{",
                *self._normed(size, one, two),
                f"    int k = (head - {self.heads} + h)*{size};",
                f"    keys[(k+{one})*{positions}+at] = {turned[0]};",
                f"    keys[(k+{two})*{positions}+at] = {turned[1]};",
                "  } else {",
                f"    int k = ((head - {self.heads + self.groups} + h)*{positions}+at)*{size};",
                f"    values[k+{one}] = a;",
                f"    values[k+{two}] = b;",
                "  } }",
            ]
        return lines

    def _normed(self, first: int, one: str, two: str) -> list[str]:
        if self.gains < 0:
            return []
        every = " + ".join(f"mine[h*{self.size}+k+{n}]*mine[h*{self.size}+k+{n}]" for n in range(4))
        return [
            "    float s = 0.0;",
            f"    for (int k = 0; k < {self.size}; k += 4) s += {every};",
            f"    s = 1.0 / sqrt(s * {1 / self.size:.9e} + {self.norm.epsilon:.9e});",
            *(
                f"    {name} *= s * uintBitsToFloat(rest[{self.gains + first}+{at}]);"
                for name, at in (("a", one), ("b", two))
            ),
        ]
