# SPDX-License-Identifier: BSD-2-Clause
"""During which jobs units are in use."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from host_tools.passes.placement import Unit
from host_tools.passes.units import early, parts_of, used_by

JOBS = 60


@given(st.sets(st.integers(0, JOBS - 1), min_size=1))
def test_memory_is_in_use_while_it_is_used_and_in_all_gaps_but_a_wide_one(numbers: set[int]) -> None:
    jobs = used_by(numbers, JOBS)
    assert jobs[list(numbers)].all()
    unit = Unit((0,), jobs)
    assert unit.times[0][0] == min(numbers)
    assert unit.times[-1][1] == max(numbers)
    gaps = np.diff(sorted(numbers), prepend=min(numbers))
    assert len(unit.times) == (2 if gaps.max() > 16 else 1)
    if len(unit.times) == 2:
        (_, end), (begin, _) = unit.times
        assert {end, begin} <= numbers
        assert begin - end == gaps.max()


def test_each_time_begins_earlier() -> None:
    unit = Unit((4, 5, 6), used_by({1, 2, 30, 59}, JOBS))
    assert unit.times == [(1, 30), (59, 59)]
    assert Unit(unit.frames, early(unit, 2)).times == [(0, 30), (57, 59)]
    assert [part.frames for part in parts_of(unit, 2)] == [(4, 5), (6,)]
    assert all(part.times == unit.times for part in parts_of(unit, 2))
