# SPDX-License-Identifier: BSD-2-Clause
"""The schedules that a search may try for a kernel, and which of them look good before any is measured.

A kernel is a nest of loops. A schedule says, axis by axis, how many steps one thread does at once (of a sum: how
far its loop is unrolled), how many items of a workgroup lie along it (of a sum: how many share it), which axis
neighbouring lanes go along, and in which order workgroups run. What a schedule is predicted to cost
(prediction.py) orders candidates and nothing else: what counts is measured (search.py).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod

MOST_AT_ONCE, MOST_STEPS = 32, 160  # results of a thread; with unrolled steps
MOST_ALONG, MOST_UNROLLED, MOST_ITEMS = 16, 16, 256
FEW_RESULTS = 8192  # up to so many, items of a workgroup may share a sum
DRAWN, BEST, GENERATIONS = 2500, 12, 3
SEED = 20261127


@dataclass(frozen=True)
class Axis:
    """A loop: tinygrad's number of it, its steps, and whether it sums up."""

    number: tuple[int, ...]
    size: int
    summed: bool


@dataclass(frozen=True)
class Access:
    """A load, or the store: bytes of an element, and how many elements a step along each axis goes."""

    itemsize: int
    strides: tuple[int, ...]
    stored: bool


@dataclass(frozen=True)
class Nest:
    """A kernel's loops and what it accesses."""

    axes: tuple[Axis, ...]
    accesses: tuple[Access, ...]

    @property
    def results(self) -> int:
        """How many values it computes."""
        return prod(axis.size for axis in self.axes if not axis.summed)


@dataclass(frozen=True, order=True)
class Point:
    """A schedule of a nest.

    Attributes:
        steps: by axis, results of a thread; of a summed axis, steps of its loop that are unrolled.
        items: by axis, items of a workgroup; of a summed axis, items that share it.
        lanes: the axis that neighbouring lanes go along.
        apart: results of a thread are as far apart as there are items, so that lanes touch what lies side by side.
        swapped: workgroups go along the second axis first.
    """

    steps: tuple[int, ...]
    items: tuple[int, ...]
    lanes: int
    apart: bool
    swapped: bool = False


@cache
def _divisors(number: int, most: int) -> tuple[int, ...]:
    return tuple(at for at in range(1, min(number, most) + 1) if number % at == 0)


def valid(nest: Nest, point: Point) -> bool:
    """Whether the steps and items divide the axes, and are not more than a GPU takes."""
    results = unrolled = 1
    for axis, steps, items in zip(nest.axes, point.steps, point.items, strict=True):
        if axis.size % (steps * items):
            return False
        if axis.summed:
            unrolled *= steps
            if items > 1 and nest.results > FEW_RESULTS:
                return False
        else:
            results *= steps
    shared = [items for axis, items in zip(nest.axes, point.items, strict=True) if axis.summed and items > 1]
    return (
        results <= MOST_AT_ONCE
        and results * unrolled <= MOST_STEPS
        and prod(point.items) <= MOST_ITEMS
        and len(shared) <= 1
        and not nest.axes[point.lanes].summed
    )


def plainest(nest: Nest, point: Point) -> Point:
    """The plainest of the schedules that give the same kernel."""
    along = [at for at, axis in enumerate(nest.axes) if not axis.summed and point.items[at] > 1]
    both = any(point.steps[at] > 1 for at in along)
    left = [axis.size // (point.steps[at] * point.items[at]) for at, axis in enumerate(nest.axes)]
    crossed = len(left) > 1 and not nest.axes[1].summed and left[0] > 1 and left[1] > 1
    lanes = point.lanes if point.lanes in along else along[0] if along else 0
    return replace(point, lanes=lanes, apart=point.apart and both, swapped=point.swapped and crossed)


def neighbours(nest: Nest, point: Point) -> Iterator[Point]:
    """Valid schedules that differ in one thing."""
    for other in _changed(nest, point):
        if valid(nest, other):
            yield plainest(nest, other)


def _changed(nest: Nest, point: Point) -> Iterator[Point]:
    for at, axis in enumerate(nest.axes):
        for steps in _divisors(axis.size, MOST_UNROLLED if axis.summed else MOST_ALONG):
            yield replace(point, steps=_with(point.steps, at, steps))
        for items in _divisors(axis.size, MOST_ITEMS):
            yield replace(point, items=_with(point.items, at, items))
        if not axis.summed:
            yield replace(point, lanes=at)
    yield replace(point, apart=not point.apart)
    yield replace(point, swapped=not point.swapped)


def _with(values: tuple[int, ...], at: int, value: int) -> tuple[int, ...]:
    return (*values[:at], value, *values[at + 1 :])


Cost = Callable[[Nest, Point], float]


def promising(nest: Nest, cost: Cost) -> list[Point]:
    """Schedules by their predicted cost, the least first; the same for the same nest."""
    generator = random.Random(SEED)
    outer = [at for at, axis in enumerate(nest.axes) if not axis.summed]
    if not outer:
        return []

    def drawn() -> Point:
        steps, items = [], []
        for axis in nest.axes:
            steps.append(generator.choice(_divisors(axis.size, MOST_UNROLLED if axis.summed else 8)))
            free = axis.size // steps[-1]
            items.append(1 if axis.summed else generator.choice(_divisors(free, 64)))
        return Point(tuple(steps), tuple(items), generator.choice(outer), generator.random() < 0.5)

    found = {}
    for _ in range(DRAWN):
        point = drawn()
        if valid(nest, point) and (point := plainest(nest, point)) not in found:
            found[point] = cost(nest, point)
    for _ in range(GENERATIONS):
        for point in sorted(found, key=lambda one: (found[one], one))[:BEST]:
            for other in neighbours(nest, point):
                if other not in found:
                    found[other] = cost(nest, other)
    return sorted(found, key=lambda one: (found[one], one))


def distance(one: Point, other: Point) -> int:
    """In how many things two schedules differ."""
    pairs = itertools.chain(zip(one.steps, other.steps, strict=True), zip(one.items, other.items, strict=True))
    rest = (one.lanes != other.lanes) + (one.apart != other.apart) + (one.swapped != other.swapped)
    return sum(a != b for a, b in pairs) + rest


def ranked(nest: Nest, candidates: Sequence[Point], measured: dict[Point, float], cost: Cost) -> list[Point]:
    """Candidates by predicted cost, corrected by how wrong the prediction was of the most similar measured one.

    Args:
        measured: time of what was measured; infinite for what does not compile.
        cost: what is predicted of a schedule.
    """

    def corrected(point: Point) -> tuple[float, Point]:
        if not measured:
            return cost(nest, point), point
        near = min(measured, key=lambda one: (distance(one, point), one))
        return cost(nest, point) * min(measured[near] / cost(nest, near), 1e3), point

    return sorted(candidates, key=corrected)
