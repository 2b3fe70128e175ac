# SPDX-License-Identifier: BSD-2-Clause
"""Schedules that a search may try."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.extras.speed.kernels import space
from host_tools.extras.speed.kernels.prediction import predicted
from host_tools.extras.speed.kernels.space import Access, Axis, Cost, Nest, Point
from host_tools.families.kernel_costs import KernelCosts
from host_tools.gpus.mali.timing import KERNEL_COSTS as MALI_COSTS
from host_tools.gpus.v3d.timing import KERNEL_COSTS as V3D_COSTS
from tests.support.searches import cost

# A product of matrices: 64 by 196, summed over 32, and its loads and store.
POINTWISE = Nest(
    (Axis((1,), 64, False), Axis((2,), 196, False), Axis((0,), 32, True)),
    (
        Access(4, (32, 0, 1), False),
        Access(4, (0, 1, 196), False),
        Access(4, (196, 1, 0), True),
    ),
)
VECTOR = Nest((Axis((0,), 49, True),), (Access(4, (1,), False), Access(4, (0,), True)))


@st.composite
def points(draw: st.DrawFn) -> Point:
    """Valid ones: what is left of each limit goes to the axes that follow."""
    steps: list[int] = []
    items: list[int] = []
    for axis in POINTWISE.axes:
        most = space.MOST_STEPS if axis.summed else space.MOST_AT_ONCE
        fitting = range(1, min(16, most // prod(steps)) + 1)
        steps.append(draw(st.sampled_from([at for at in fitting if axis.size % at == 0])))
        left = axis.size // steps[-1]
        # So many results that no items share a sum.
        sharing = range(1, 2 if axis.summed else min(64, space.MOST_ITEMS // prod(items)) + 1)
        items.append(draw(st.sampled_from([at for at in sharing if left % at == 0])))
    point = Point(tuple(steps), tuple(items), draw(st.integers(0, 1)), draw(st.booleans()), draw(st.booleans()))
    assert space.valid(POINTWISE, point)
    return point


@given(points())
def test_neighbours_can_be_had(point: Point) -> None:
    for other in space.neighbours(POINTWISE, point):
        assert space.valid(POINTWISE, other)
        for axis, steps, items in zip(POINTWISE.axes, other.steps, other.items, strict=True):
            assert axis.size % (steps * items) == 0
        assert prod(other.items) <= space.MOST_ITEMS


@given(points())
def test_the_plainest_schedule_is_one(point: Point) -> None:
    plain = space.plainest(POINTWISE, point)
    assert space.plainest(POINTWISE, plain) == plain
    assert (plain.steps, plain.items) == (point.steps, point.items)


def test_the_same_nest_has_the_same_schedules_in_the_same_order() -> None:
    found = space.promising(POINTWISE, cost)
    predicted.cache_clear()
    assert space.promising(POINTWISE, cost) == found
    assert len(found) == len(set(found)) > 100
    costs = [cost(POINTWISE, point) for point in found]
    assert costs == sorted(costs)


def test_a_sum_to_one_value_has_none() -> None:
    assert space.promising(VECTOR, cost) == []


@pytest.mark.parametrize("costs", [V3D_COSTS, MALI_COSTS], ids=["v3d", "mali"])
def test_lanes_side_by_side_cost_fewer_lines(costs: KernelCosts) -> None:
    """All lanes along the axis that is contiguous in memory load one line, along the other one a line each."""
    cost: Cost = partial(predicted, costs=costs)
    along = Point((4, 4, 1), (1, 49, 1), 1, True)
    across = Point((4, 4, 1), (16, 1, 1), 0, True)
    assert cost(POINTWISE, along) < cost(POINTWISE, across)


@pytest.mark.parametrize("costs", [V3D_COSTS, MALI_COSTS], ids=["v3d", "mali"])
def test_what_does_not_fit_into_registers_costs_more(costs: KernelCosts) -> None:
    cost: Cost = partial(predicted, costs=costs)
    few = Point((4, 7, 1), (1, 28, 1), 1, True)
    many = replace(few, steps=(8, 14, 4))
    assert cost(POINTWISE, few) < cost(POINTWISE, many)


def test_candidates_are_ranked_by_what_was_measured_of_similar_ones() -> None:
    """Where the prediction was wrong, it is taken to be wrong of similar schedules, too."""
    one, other = Point((4, 4, 1), (1, 49, 1), 1, True), Point((4, 2, 1), (16, 1, 1), 0, True)
    like_one = Point((4, 4, 2), (1, 49, 1), 1, True)
    like_other = Point((4, 2, 2), (16, 1, 1), 0, True)
    same = lambda nest, point: 1.0  # noqa: E731
    found = space.ranked(POINTWISE, [like_other, like_one], {one: 1.0, other: 2.0}, same)
    assert found == [like_one, like_other]
    found = space.ranked(POINTWISE, [like_one, like_other], {one: float("inf"), other: 2.0}, same)
    assert found == [like_other, like_one]
