# SPDX-License-Identifier: BSD-2-Clause
"""When pieces are read, and how long a replay takes then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from host_tools.model.reading import Read, reading
from trace_format.assembly import STREAMED_CHUNK_BYTES
from trace_format.schema import PAGE_BYTES
from trace_format.streamed import Piece


def piece(begin: int, first: int, last: int, *, pages: int = 1, resident: bool = False) -> Piece:
    return Piece(0, begin, first, last, bytes(pages * PAGE_BYTES), resident)


def test_what_is_not_there_is_waited_for() -> None:
    found = reading([piece(0, 0, 0), piece(1, 1, 1)], [10.0, 20.0], PAGE_BYTES / 5)
    assert found.reads == [Read(0, 0, False), Read(1, 1, False)]
    assert (found.us, found.reading_us, found.computing_us) == (40.0, 10.0, 30.0)
    assert found.held_bytes == [PAGE_BYTES, PAGE_BYTES]


def test_what_may_be_read_earlier_costs_nothing_while_a_job_runs() -> None:
    found = reading([piece(0, 0, 0), piece(0, 1, 1)], [10.0, 20.0], PAGE_BYTES / 5)
    assert found.reads == [Read(0, 0, False), Read(1, 0, True)]
    assert found.us == 35.0
    assert found.binds == "computing"
    assert found.more == pytest.approx(1 / 6)
    assert found.held_bytes == [2 * PAGE_BYTES, PAGE_BYTES]


def test_a_piece_that_is_being_read_is_read_to_its_end_and_no_other_is_begun() -> None:
    pieces = [piece(0, 1, 1, pages=4), piece(0, 1, 1)]
    found = reading(pieces, [10.0, 1.0], PAGE_BYTES / 5)
    assert found.reads == [Read(0, 0, True), Read(1, 1, False)]
    assert found.us == 20.0 + 5.0 + 1.0
    assert found.binds == "reading"


def test_a_piece_is_read_to_the_end_of_a_chunk_and_on_later() -> None:
    pages = 2 * STREAMED_CHUNK_BYTES // PAGE_BYTES
    found = reading([piece(0, 1, 1, pages=pages)], [10.0, 1.0], STREAMED_CHUNK_BYTES / 20)
    assert found.reads == [Read(0, 1, False)]
    assert found.us == 20.0 + 20.0 + 1.0
    assert found.held_bytes == [pages * PAGE_BYTES] * 2


def test_a_resident_piece_is_held_from_then_on() -> None:
    assert reading([piece(0, 1, 2, resident=True)], [1.0] * 3, 1.0).held_bytes == [PAGE_BYTES] * 3


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5), st.integers(1, 9)), max_size=9),
    st.lists(st.floats(0.5, 1e4), min_size=6, max_size=6),
    st.floats(0.1, 1e4),
)
def test_each_is_read_once_and_time_lies_between_the_larger_part_and_the_sum(
    rows: list[tuple[int, int, int, int]], job_us: list[float], rate: float
) -> None:
    pieces = [piece(*sorted(jobs), pages=pages) for *jobs, pages in rows]
    pieces.sort(key=lambda one: one.first_job)
    found = reading(pieces, job_us, rate)
    assert sorted(one.piece for one in found.reads) == list(range(len(pieces)))
    assert all(one.job <= pieces[one.piece].first_job for one in found.reads)
    low, high = max(found.reading_us, found.computing_us), found.reading_us + found.computing_us
    assert low * (1 - 1e-9) <= found.us <= high * (1 + 1e-9)
