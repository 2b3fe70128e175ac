# SPDX-License-Identifier: BSD-2-Clause
"""What is kept or joined to pack memory fast, against the same from nothing and one by one."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from host_tools.model.alike import Alike
from host_tools.model.frames import Bytes, Page, Pages, dense_pages
from host_tools.model.joined import joined
from host_tools.model.memory import Memory
from host_tools.model.packing import Packing, without
from tests.support.mali_chains import PAGE, RW, Area, header, submit, trace
from tests.support.sampling import few
from trace_format.actions import Action, Actions, Op, action, array_of
from trace_format.codec import Buffer

JOBS, BASE, PAGES = 0x100000, 0x200000, 5


def read_only(content: Bytes) -> Bytes:
    content.flags.writeable = False
    return content


@st.composite
def weights(draw: st.DrawFn) -> Bytes:
    """A page of bytes, with runs of zeros at its ends and within."""
    content = np.full(PAGE, draw(st.integers(1, 2)), np.uint8)
    places = st.one_of(st.sampled_from([0, PAGE - 1, PAGE - 128]), st.integers(0, PAGE - 1))
    for begin, size in draw(
        st.lists(st.tuples(places, st.sampled_from([1, 127, 128, 256, 300, PAGE])), max_size=3)
    ):
        content[begin : begin + size] = 0
    return read_only(content)


@few(40, 200)
@given(st.lists(weights(), min_size=1, max_size=4))
def test_pages_that_are_dense_are_uploaded_whole(pages: list[Bytes]) -> None:
    for content, dense in zip(pages, dense_pages(np.concatenate(pages)), strict=True):
        if dense:
            assert Page(0, content, np.ones(PAGE, np.bool_)).fills() == ([(0, PAGE)], [])


def test_a_page_does_not_share_bytes_that_may_change() -> None:
    content = np.full(PAGE, 1, np.uint8)
    page = Page.blank(0)
    page.put_whole(content, True)
    page.put(slice(0, 1), np.array([2], np.uint8))
    assert content[0] == 1
    content[1] = 3
    assert page.content[1] == 1


# What a pass may do to a page: a content, zeros, bytes let go, nothing at all.
CHANGES = st.lists(
    st.tuples(
        st.integers(0, PAGES - 1),
        st.one_of(weights(), st.none(), st.tuples(st.integers(0, PAGE), st.integers(0, PAGE))),
    ),
    max_size=8,
)


def change(page: Page, what: Bytes | tuple[int, int] | None) -> None:
    if isinstance(what, tuple):
        dead = np.zeros(PAGE, np.bool_)
        dead[min(what) : max(what)] = True
        page.drop(dead)
    else:
        page.put(slice(0, PAGE), 0 if what is None else what)


def anew(pages: Pages) -> Pages:
    """The same pages, with nothing that was found out about them."""
    found = Pages()
    for frame, page in pages.items():
        live = page.live if page.is_blank else page.live.copy()
        found[frame] = Page(frame, page.content.copy(), live, page.in_image, page.state)
    return found


def said(packing: Packing) -> tuple[object, ...]:
    return (packing.image(), packing.fills(), packing.state_fills(), packing.image_bytes)


# A clear of two pages brings along a byte of the second that need not be filled; then the first has other content.
@example([[(2, None), (3, None), (3, (0, 1))], [(2, np.ones(PAGE, np.uint8))]], False)
@few(15, 60, deadline=None)
@given(st.lists(CHANGES, min_size=1, max_size=3), st.booleans())
def test_a_program_after_passes_is_packed_as_one_from_nothing(
    passes: list[list[tuple[int, Bytes | tuple[int, int] | None]]], aligned: bool
) -> None:
    memory = Memory.of(trace([Area(JOBS, data=header(1)), Area(BASE, PAGES, RW)], submit(JOBS)))
    for changes in passes:
        frames = [memory.mappings[0, BASE // PAGE + i].frame for i in range(PAGES)]
        for number, what in changes:
            change(memory.pages[frames[number]], what)
        packing = memory.settle()
        assert said(packing) == said(Packing(anew(memory.pages), []))
        assert said(memory.packing(aligned=aligned)) == said(Packing(anew(memory.pages), [], aligned=aligned))
        for frame, page in memory.pages.items():
            filled = np.zeros(PAGE, np.bool_)
            for start, end in packing.filled(frame):
                filled[start:end] = True
            assert page.in_image or np.array_equal(page.live, filled)
        emitted = memory.emit(packing)
        again = replace(memory, pages=anew(memory.pages)).emit()  # settled once more
        assert (again.actions.tolist(), again.image) == (emitted.actions.tolist(), emitted.image)
        read = Memory.of(emitted)
        assert {f: p.digest() for f, p in read.pages.items()} == {f: p.digest() for f, p in memory.pages.items()}


@st.composite
def fills(draw: st.DrawFn) -> Actions:
    """UPLOADs and CLEARs, many of which go on where the one before ends, with other actions between."""
    rows, target, source = [], 0, 0
    for _ in range(draw(st.integers(1, 30))):
        kind = draw(st.sampled_from([Op.UPLOAD, Op.UPLOAD, Op.UPLOAD, Op.CLEAR, Op.CLEAR, Op.JOB]))
        if kind == Op.JOB:
            rows.append(action(Op.JOB))
            continue
        target += draw(st.sampled_from([0, 0, 0, 8]))
        source += draw(st.sampled_from([0, 0, 0, 8]))
        size = draw(st.sampled_from([4, 8, PAGE]))
        rows.append(action(kind, bytes=size, target=target, **({"source": source} if kind == Op.UPLOAD else {})))
        target += size
        source += size
    return array_of(rows)


def effect(row: Action) -> tuple[int, int, int, int]:
    return row.op, row.target, row.source if row.op == Op.UPLOAD else 0, row.bytes


@few(40, 300)
@given(fills(), st.data())
def test_joined_actions_do_what_they_did_one_by_one(rows: Actions, data: st.DataObject) -> None:
    joins = np.array(data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows))), np.bool_)
    at = np.arange(len(rows))
    made = list(joined(rows, at, joins))
    begins = [index for index, _ in made]
    assert set(np.flatnonzero(~joins).tolist()) <= set(begins)
    for (index, row), end in zip(made, [*begins[1:], len(rows)], strict=True):
        parts = [Action.of(part) for part in rows[index:end]]
        if row.op == Op.JOB:
            assert parts == [row]
            continue
        op, target, source, size = effect(row)
        for part in parts:
            assert effect(part) == (op, target, source, part.bytes)
            target += part.bytes
            source += part.bytes if op == Op.UPLOAD else 0
            size -= part.bytes
        assert size == 0
    for (_, one), (index, two) in pairwise(made):  # none is left that could have been joined
        if one.op == two.op != Op.JOB and joins[index] and one.target + one.bytes == two.target:
            assert two.op == Op.UPLOAD
            assert one.source + one.bytes != two.source


@few(40, 300)
@given(
    st.lists(st.tuples(st.sampled_from([b"a" * 64, b"a" * 70, b"b"]), st.binary(max_size=2), st.integers(0, 64)))
)
def test_the_first_of_equal_bytes_is_found(pieces: list[tuple[bytes, bytes, int]]) -> None:
    alike, first = Alike(), dict[bytes, int]()
    for place, (begin, end, cut) in enumerate(pieces):
        data: list[Buffer] = [(begin + end)[:cut], memoryview((begin + end)[cut:])]
        assert alike.first(data, place) == first.setdefault(begin + end, place)


def test_where_no_sheet_is_left_the_image_is_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    packing = Memory.of(trace([Area(JOBS, data=header(1)), Area(BASE, PAGES, RW)], submit(JOBS))).settle()
    whole = packing.sheet()
    monkeypatch.setattr("host_tools.support.sheet._given", [])
    assert type(packing.sheet()) is bytes
    assert packing.sheet() == bytes(whole) == packing.image() != b""


@pytest.mark.parametrize("seed", range(20))
def test_runs_without_others(seed: int) -> None:
    """As sets of bytes say; what is left are runs in ascending order."""
    random = np.random.default_rng(seed)

    def runs() -> list[tuple[int, int]]:
        ends = np.sort(random.choice(400, 2 * int(random.integers(0, 40)), replace=False)).tolist()
        return list(zip(ends[::2], ends[1::2], strict=True))

    spans, holes = runs(), runs()
    left = list(without(spans, holes))
    of = [{byte for start, end in some for byte in range(start, end)} for some in (spans, holes, left)]
    assert of[2] == of[0] - of[1]
    assert left == sorted(left)
    assert sum(end - start for start, end in left) == len(of[2])


def test_many_runs_are_looked_up() -> None:
    """A look-up for each run, and none for each pair: caches that begin with a text have thousands of both."""

    class Counted(list[tuple[int, int]]):
        reads = 0

        def __getitem__(self, at: Any) -> Any:
            self.reads += 1
            return super().__getitem__(at)

    holes = Counted((100 * at + 50, 100 * at + 60) for at in range(5000))
    left = list(without([(100 * at, 100 * at + 100) for at in range(5000)], holes))
    assert len(left) == 10000
    assert holes.reads < 15000
