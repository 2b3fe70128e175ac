# SPDX-License-Identifier: BSD-2-Clause
"""The memory model: pages of which nothing is known, and how few actions fill the others."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from host_tools.model.frames import CLEAR_GAP, MERGE_GAP, Page
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from tests.support.mali_chains import PAGE, RW, Area, header, submit, trace
from tests.support.sampling import few
from trace_format.actions import Op
from trace_format.errors import ManifestError
from trace_format.trace import Trace

JOBS, BASE = 0x100000, 0x200000


def source(pages: int) -> Trace:
    return trace([Area(JOBS, data=header(1)), Area(BASE, pages, RW)], submit(JOBS))


def fills(made: Trace) -> list[tuple[str, int, int]]:
    """What fills the pages that start at BASE: kind, begin and end there."""
    first = Memory.of(made).mappings[0, BASE // PAGE].frame  # they move where the image grows over them
    return [
        (Op(int(row["op"])).name, int(row["a"]) - first * PAGE, int(row["a"]) + int(row["value"]) - first * PAGE)
        for row in made.actions[np.isin(made.actions["op"], [int(Op.UPLOAD), int(Op.CLEAR)])]
        if int(row["a"]) >= first * PAGE
    ]


@few(40, 200)
@given(st.lists(st.tuples(st.integers(0, PAGE - 1), st.integers(1, 600)), max_size=8))
def test_a_page_of_weights_is_filled_as_any_other(zeros: list[tuple[int, int]]) -> None:
    """The short way for pages all of whose bytes matter gives what the long one does."""
    content = np.full(PAGE, 7, np.uint8)
    for begin, size in zeros:
        content[begin : begin + size] = 0
    content.flags.writeable = False
    page = Page.blank(0)
    page.put(slice(0, PAGE), content)
    assert page.fills() == Page(0, content, np.ones(PAGE, np.bool_)).fills()


def filled(pages: int, *rows: tuple[int, int, int]) -> list[tuple[str, int, int]]:
    """Fills of pages whose bytes from `begin` to `end` have a value, the rest being unknown."""
    memory = Memory.of(source(pages))
    first = memory.mappings[0, BASE // PAGE].frame
    for begin, end, value in rows:
        for at in range(begin, end):
            page = memory.pages[first + at // PAGE]
            page.own()
            page.content[at % PAGE], page.live[at % PAGE] = value, True
    made = memory.emit()
    made.check()
    return fills(made)


G, C = MERGE_GAP, CLEAR_GAP
CASES = {
    "nothing": ([], []),
    "bytes": ([(5, 9, 1)], [("UPLOAD", 5, 9)]),
    "zeros": ([(5, 9, 0)], [("CLEAR", 5, 9)]),
    "near bytes are one": ([(0, 4, 1), (3 + G, 4 + G, 1)], [("UPLOAD", 0, 4 + G)]),
    "far bytes are two": ([(0, 4, 1), (4 + G, 5 + G, 1)], [("UPLOAD", 0, 4), ("UPLOAD", 4 + G, 5 + G)]),
    "zeros between near bytes come along": ([(0, 4, 1), (4, 100, 0), (100, 104, 1)], [("UPLOAD", 0, 104)]),
    "zeros between far bytes": (
        [(0, 4, 1), (4, 804, 0), (804, 808, 1)],
        [("CLEAR", 4, 804), ("UPLOAD", 0, 4), ("UPLOAD", 804, 808)],
    ),
    "near zeros are one": ([(0, 4, 0), (3 + C, 5 + C, 0)], [("CLEAR", 0, 5 + C)]),
    "far zeros are two": ([(0, 4, 0), (4 + C, 5 + C, 0)], [("CLEAR", 0, 4), ("CLEAR", 4 + C, 5 + C)]),
    "zeros around bytes are cleared at once": (
        [(0, 400, 0), (400, 410, 1), (410, 800, 0)],
        [("CLEAR", 0, 800), ("UPLOAD", 400, 410)],
    ),
    "bytes across a border": ([(PAGE - 4, PAGE + 4, 1)], [("UPLOAD", PAGE - 4, PAGE + 4)]),
    "zeros across a border": ([(PAGE - 4, PAGE + 4, 0)], [("CLEAR", PAGE - 4, PAGE + 4)]),
    "whole pages": (
        [(0, 2 * PAGE, 0), (2 * PAGE, 3 * PAGE, 7)],
        [("CLEAR", 0, 2 * PAGE), ("UPLOAD", 2 * PAGE, 3 * PAGE)],
    ),
    "near bytes of two pages stay two": (
        [(PAGE - 9, PAGE - 5, 1), (PAGE + 5, PAGE + 9, 1)],
        [("UPLOAD", PAGE - 9, PAGE - 5), ("UPLOAD", PAGE + 5, PAGE + 9)],
    ),
}


@pytest.mark.parametrize(("rows", "expected"), CASES.values(), ids=CASES.keys())
def test_what_fills_memory(rows: list[tuple[int, int, int]], expected: list[tuple[str, int, int]]) -> None:
    assert filled(3, *rows) == expected


@st.composite
def contents(draw: st.DrawFn) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """Three pages: bytes, zeros and unknown ones, in runs."""
    parts = []
    for length in draw(st.lists(st.one_of(st.integers(1, 40), st.integers(200, 2000)), min_size=1, max_size=30)):
        parts.append((length, draw(st.sampled_from([None, 0, 0, 3]))))
    content = np.zeros(3 * PAGE, np.uint8)
    live = np.zeros(3 * PAGE, np.bool_)
    at = draw(st.integers(0, PAGE))
    for length, value in parts:
        if value is not None:
            content[at : at + length] = value
            live[at : at + length] = True
        at += length
    return content, live


@few(40, 200)
@given(contents())
def test_every_byte_that_is_known_is_there_and_fills_are_apart(
    made: tuple[NDArray[np.uint8], NDArray[np.bool_]],
) -> None:
    content, live = made
    memory = Memory.of(source(3))
    first = memory.mappings[0, BASE // PAGE].frame
    for i in range(3):
        part = slice(i * PAGE, (i + 1) * PAGE)
        if live[part].any():
            page = memory.pages[first + i]
            page.own()
            page.content[:], page.live[:] = content[part], live[part]
    emitted = memory.emit()
    found = np.full(3 * PAGE, 0xEE, np.uint8)
    image = np.frombuffer(emitted.image, np.uint8)
    first = Memory.of(emitted).mappings[0, BASE // PAGE].frame
    ends = {"UPLOAD": -MERGE_GAP, "CLEAR": -CLEAR_GAP}
    rows = emitted.actions[np.isin(emitted.actions["op"], [int(Op.UPLOAD), int(Op.CLEAR)])]
    for row in rows[rows["a"] >= first * PAGE]:
        at, size, source_at = int(row["a"]) - first * PAGE, int(row["value"]), int(row["b"])
        kind = Op(int(row["op"])).name
        found[at : at + size] = image[source_at : source_at + size] if kind == "UPLOAD" else 0
        gap = MERGE_GAP if kind == "UPLOAD" and at % PAGE >= MERGE_GAP else 1
        assert at - ends[kind] >= (CLEAR_GAP if kind == "CLEAR" else gap)
        ends[kind] = at + size
    assert np.array_equal(found[live], content[live])
    again = Memory.of(emitted).emit()
    assert (again.actions.tolist(), again.image) == (emitted.actions.tolist(), emitted.image)


def test_blank_pages_share_what_they_do_not_have() -> None:
    memory = Memory.of(source(2))
    one, two = (memory.pages[memory.mappings[0, BASE // PAGE + i].frame] for i in range(2))
    assert one.is_blank
    assert one.content is two.content
    with pytest.raises(ValueError, match="read-only"):
        one.content[0] = 1
    one.own()
    one.content[0], one.live[0] = 1, True
    assert not one.is_blank
    assert two.is_blank
    assert two.content[0] == 0
    own = one.content
    one.own()
    assert one.content is own, "what it has stays"


def test_a_blank_page_stays_blank_through_a_trace() -> None:
    emitted = Memory.of(Memory.of(source(2)).emit())
    assert [emitted.pages[emitted.mappings[0, BASE // PAGE + i].frame].is_blank for i in range(2)] == [True] * 2


def test_saved_pages_are_known_whole() -> None:
    memory = Memory.of(source(1))
    page = memory.pages[memory.mappings[0, JOBS // PAGE].frame]
    assert page.live.all()
    assert not page.in_image, "a job writes there"


def far_apart(frame: int) -> Trace:
    """Two pages with content, one of them at the carve-out's end; nothing between them is mapped."""
    memory = Memory.of(trace([Area(JOBS, data=header(1)), Area(BASE, 1, RW, b"far")], submit(JOBS)))
    here = memory.mappings[0, BASE // PAGE].frame
    memory.move({other: frame if other == here else other for other in memory.frames})
    made = memory.emit(memory.settle((frame + 1) * PAGE))
    made.check()
    return made


def test_a_carve_out_of_almost_4_gib() -> None:
    """Regions that pages lie between keep their distance; planning brings them together."""
    source = far_apart((1 << 20) - 1000)
    moved = PASSES["relocate"](source)
    moved.check()
    memory = Memory.of(moved)
    frames = [memory.mappings[0, va // PAGE].frame for va in (JOBS, BASE)]
    assert memory.pages[frames[1]].content[:3].tobytes() == b"far"
    assert moved.carveout_bytes > 4_000_000_000
    planned = PASSES["relocate"](PASSES["plan-memory"](source))
    planned.check()
    assert planned.carveout_bytes <= 4 * PAGE
    assert b"far" in bytes(planned.image)


def test_more_than_a_carve_out_can_be_is_refused() -> None:
    memory = Memory.of(far_apart((1 << 20) - 1))
    memory.move({frame: frame + 1 for frame in memory.frames})
    with pytest.raises(ManifestError, match="needs too much memory: expected at most 4294967296 bytes, found 42"):
        memory.emit()
