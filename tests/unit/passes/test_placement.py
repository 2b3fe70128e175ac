# SPDX-License-Identifier: BSD-2-Clause
"""Places for pages that share frames."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from host_tools.passes.placement import Unit, place, pressure, runs, spread

JOBS = 6
SPANS = st.lists(st.booleans(), min_size=JOBS, max_size=JOBS).filter(any)
SIZES = st.lists(st.tuples(SPANS, st.integers(1, 9)), min_size=1, max_size=12)


def units_of(rows: list[tuple[list[bool], int]]) -> list[Unit]:
    """Units whose frames count from 0."""
    first = np.cumsum([0, *(size for _, size in rows)]).tolist()
    return [
        Unit(tuple(range(at, at + size)), np.array(jobs)) for at, (jobs, size) in zip(first, rows, strict=False)
    ]


@given(SIZES)
def test_no_frame_has_two_pages_at_a_time(rows: list[tuple[list[bool], int]]) -> None:
    units = units_of(rows)
    placed = place(units, JOBS)
    used = np.zeros((placed.pages, JOBS), np.int64)
    for unit, frames in zip(units, placed.at, strict=True):
        assert len({*frames.tolist()}) == len(unit.frames)
        used[np.ix_(frames, unit.jobs)] += 1
    assert used.max() == 1
    assert (placed.busy == (used > 0).T).all()
    assert placed.pages >= pressure(units, JOBS).max()


@given(
    st.lists(st.tuples(st.integers(0, JOBS - 1), st.integers(0, 3), st.integers(1, 9)), min_size=1, max_size=12)
)
def test_what_is_used_without_a_gap_takes_no_page_too_many(rows: list[tuple[int, int, int]]) -> None:
    spans = [([first <= job <= first + more for job in range(JOBS)], size) for first, more, size in rows]
    units = units_of(spans)
    assert place(units, JOBS).pages == pressure(units, JOBS).max()


@given(SIZES, SIZES, st.integers(0, 9))
def test_spread_gives_no_frame_to_two_and_leaves_others_where_they_fit(
    one: list[tuple[list[bool], int]], other: list[tuple[list[bool], int]], more: int
) -> None:
    fixed, others = units_of(one), units_of(other)
    pages = place([*fixed, *others], JOBS).pages + more
    placed = spread(fixed, others, JOBS, pages)
    if placed is None:
        return
    used = np.zeros((JOBS, pages), np.int64)
    for unit, frames in zip([*fixed, *others], placed.at, strict=True):
        used[np.ix_(unit.jobs, frames)] += 1
        assert len({*frames.tolist()}) == len(unit.frames)
    assert used.max() == 1
    assert (placed.busy == (used > 0)).all()


def test_spread_takes_what_has_been_free_the_longest() -> None:
    """As a ring: each of six lies where the one before the one before was."""
    others = [Unit((number,), np.arange(6) == number) for number in range(6)]
    placed = spread([], others, 6, 2)
    assert placed is not None
    assert [int(frames[0]) for frames in placed.at] == [0, 1, 0, 1, 0, 1]


def test_runs_are_frames_that_follow_one_another() -> None:
    assert list(runs(np.array([3, 4, 5, 9, 7, 8]))) == [slice(0, 3), slice(3, 4), slice(4, 6)]
