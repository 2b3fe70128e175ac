# SPDX-License-Identifier: BSD-2-Clause
"""Columns of mappings against a dictionary with an entry a page."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.model.frames import Mapping
from host_tools.model.mappings import Mappings, MapRun

runs = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 30), st.integers(0, 40), st.sampled_from([1, 3]), st.integers(1, 6)
    ),
    max_size=8,
)


def by_page(found: list[MapRun]) -> dict[tuple[int, int], Mapping] | None:
    """A dictionary of the same; None: a page is mapped in two ways."""
    pages: dict[tuple[int, int], Mapping] = {}
    for space, page, frame, flags, count in found:
        for i in range(count):
            if pages.setdefault((space, page + i), Mapping(frame + i, flags)) != (frame + i, flags):
                return None
    return pages


@given(runs)
def test_pages_are_those_of_the_runs(given: list[MapRun]) -> None:
    expected = by_page(given)
    if expected is None:
        with pytest.raises(ValueError, match=r"\(\d+, \d+\)"):
            Mappings.of(given)
        return
    found = Mappings.of(given)
    assert dict(found.items()) == expected
    assert list(found) == sorted(expected)
    assert {page: found[page] for page in expected} == expected
    again = found.runs()
    assert Mappings.of(reversed(again)) == found
    assert by_page(again) == expected
    joined = [(s, p + n, f + n, flags) for s, p, f, flags, n in again]
    assert not {row[:4] for row in again}.intersection(joined), "runs are as long as they can be"


@given(runs, st.integers(0, 2), st.integers(0, 35), st.integers(1, 8))
def test_parts(given: list[MapRun], space: int, page: int, count: int) -> None:
    expected = by_page(given)
    if expected is None:
        return
    found = Mappings.of(given)
    wanted = range(page, page + count)
    left = {key: m for key, m in expected.items() if key[0] != space or key[1] not in wanted}
    assert dict(found.without(space, page, count).items()) == left
    missing = [(space, at) for at in wanted if (space, at) not in expected]
    if missing:
        with pytest.raises(KeyError) as error:
            found.find(space, wanted)
        assert error.value.args == (missing[0],)
        with pytest.raises(KeyError):
            found[missing[0]]
    else:
        frames = found.frames[found.find(space, wanted)]
        assert frames.tolist() == [expected[space, at].frame for at in wanted]


@given(runs)
def test_changes(given: list[MapRun]) -> None:
    expected = by_page(given)
    if expected is None:
        return
    found = Mappings.of(given)
    even = found.frames_that(lambda frame: frame % 2 == 0)
    assert dict(found.where(even).items()) == {k: m for k, m in expected.items() if m.frame % 2 == 0}
    moved = found.with_(frames=found.frames + 7, flags=np.zeros_like(found.flags))
    assert dict(moved.items()) == {key: Mapping(m.frame + 7, 0) for key, m in expected.items()}
    assert found == Mappings.of(given)
    assert (found == moved) == (not expected)
