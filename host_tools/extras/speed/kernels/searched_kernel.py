# SPDX-License-Identifier: BSD-2-Clause
"""A kernel in the search: what is known of it, and which schedules to try next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod

from host_tools.extras.speed.kernels import space
from host_tools.extras.speed.kernels.candidates import Kernel
from host_tools.extras.speed.kernels.found import Row
from host_tools.extras.speed.kernels.measuring import Bench
from host_tools.extras.speed.kernels.space import Cost, Nest, Point

EACH = 3  # schedules of a kernel in a round
GAIN = 0.99  # of the time: a round that gives no less is none
POOL = 60  # schedules that look good from the start, and stay candidates


@dataclass(eq=False)
class SearchedKernel:
    """A kernel in the search."""

    kernel: Kernel
    count: int  # calls in a replay
    bench: Bench
    cost: Cost
    rows: list[Row] = field(default_factory=list)
    pool: list[Point] = field(default_factory=list)
    is_left: bool = False  # there is nothing to compare candidates with

    @property
    def best(self) -> Row:
        return min(self.rows, key=lambda row: (row_us(row), row.turn, row.opts))

    def kept(self, cpu_gflops: float | None) -> Row:
        """The one that the network gets."""
        if cpu_gflops is None:
            return self.best
        nest = self.kernel.nest
        assert nest is not None
        return min(self.rows, key=lambda row: (shared_us(nest, row, cpu_gflops), row_us(row), row.turn, row.opts))

    @property
    def own(self) -> Row:
        """The compiler's own."""
        return next(row for row in self.rows if row.point is None)

    @property
    def share(self) -> float:
        return self.count * row_us(self.best)

    @property
    def turn(self) -> int:
        """The next round of this kernel."""
        return max(row.turn for row in self.rows) + 1

    @property
    def stalled(self) -> int:
        """Rounds since it has become faster."""
        best, since = float("inf"), 0
        for turn in range(self.turn):
            us = min((row_us(row) for row in self.rows if row.turn == turn), default=float("inf"))
            best, since = (us, 0) if us < GAIN * best else (best, since + 1)
        return since

    @property
    def hope(self) -> float:
        """Time that may be had: each round without a gain halves what is expected of the next."""
        return self.share / 2.0**self.stalled

    @property
    def loops(self) -> tuple[tuple[int, bool], ...]:
        """Sizes of the loops, and which sum up: kernels in which these are equal are alike."""
        assert self.kernel.nest is not None
        return tuple((axis.size, axis.summed) for axis in self.kernel.nest.axes)

    def next_points(self, others: Sequence[SearchedKernel]) -> list[Point]:
        """What to try next: what is best in kernels that are alike, what brought most in one whose loops have
        other sizes, and what is predicted to be good. A function of what is known."""
        nest = self.kernel.nest
        assert nest is not None
        self.pool = self.pool or space.promising(nest, self.cost)[:POOL]
        measured = {row.point: row_us(row) for row in self.rows if row.point is not None}
        near = sorted(measured, key=lambda point: (measured[point], point))[:3]
        more = {other for point in near for other in space.neighbours(nest, point)}
        candidates = sorted({*self.pool, *more} - measured.keys())
        best = {state: point for state in others if (point := state.best.point) is not None}
        theirs = {point for state, point in best.items() if state.loops == self.loops}
        found = sorted(theirs - measured.keys())[:EACH]
        like = [axis.summed for axis in nest.axes]
        gains = [
            (row_us(state.best) / row_us(state.own), state.kernel.key, point)
            for state, point in best.items()
            if [summed for _, summed in state.loops] == like and point not in measured and space.valid(nest, point)
        ]
        found += [point for *_, point in sorted(gains)[:1] if point not in found][: EACH - len(found)]
        steps = {point.steps for point in found}
        for point in space.ranked(nest, candidates, measured, self.cost):
            if len(found) == EACH:
                break
            # At first of many kinds, then around the best.
            if point in found or (not measured and point.steps in steps):
                continue
            steps.add(point.steps)
            found.append(point)
        return found


def row_us(row: Row) -> float:
    """Time of a kernel with a schedule, in microseconds; without end where it cannot be measured."""
    return float("inf") if row.measured.us is None else row.measured.us


def shared_us(nest: Nest, row: Row, cpu_gflops: float) -> float:
    """Time of a kernel of which a CPU computes the last rows of workgroups, in microseconds.

    As the pass `co-execute` divides products: along the first axis, if workgroups go along it last. What has more
    axes than a matrix, or sums nothing, is no product and stays the GPU's.
    """
    us, point = row_us(row), row.point
    free = [not axis.summed for axis in nest.axes]
    if point is None or point.swapped or not free[0] or all(free) or sum(free) > 2:
        return us
    parts = nest.axes[0].size // (point.steps[0] * point.items[0])
    cpu_us = 2e-3 * prod(axis.size for axis in nest.axes) / cpu_gflops
    return min(max(us * part / parts, cpu_us * (parts - part) / parts) for part in range(1, parts + 1))
