# SPDX-License-Identifier: BSD-2-Clause
"""Bytes in pages, against one byte after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from host_tools.support.pages import pages_of, pieces

PAGE = 4096
STARTS = st.integers(0, 3 * PAGE) | st.integers((1 << 48) - PAGE, 1 << 48)


@given(STARTS, st.integers(0, 3 * PAGE))
def test_every_byte_is_in_one_piece(start: int, size: int) -> None:
    found = list(pieces(start, size))
    places = [
        (page * PAGE + inside, part)
        for page, within, of in found
        for inside, part in zip(range(PAGE)[within], range(size)[of], strict=True)
    ]
    assert places == [(start + i, i) for i in range(size)]
    assert len({page for page, _, _ in found}) == len(found)


@given(STARTS, st.integers(1, 3 * PAGE))
def test_pages_of_bytes(start: int, size: int) -> None:
    assert list(pages_of(start, size)) == sorted({(start + i) // PAGE for i in range(size)})
