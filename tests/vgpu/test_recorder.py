# SPDX-License-Identifier: BSD-2-Clause
"""The recorder in the device: what a capture says is what happened, and what memory held at each job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from host_tools.vgpu import VgpuError, capture
from tests.support.recorder_model import Recorder, library
from tests.support.vgpu_model import DATA, READ, TABLE, WRITE, Board

PAGE = 4096


@pytest.fixture
def board() -> Iterator[Board]:
    made = Board(library=library())
    yield made
    made.gpu.close()


class Memory:
    """GPU-visible memory as a reader of a capture rebuilds it."""

    def __init__(self) -> None:
        self.frames: dict[int, tuple[int, bool]] = {}
        self.pages: dict[int, bytearray] = {}
        self.contents: list[bytes] = []

    def take(self, event: capture.Event) -> None:
        match event:
            case capture.Map():
                for i in range(event.pages):
                    self.frames[event.page + i] = (event.pa + i * PAGE, event.writable)
                    self.pages.pop(event.page + i, None)
            case capture.Unmap():
                for page in range(event.page, event.page + event.pages):
                    del self.frames[page], self.pages[page]
            case capture.ZeroPages():
                for page in range(event.page, event.page + event.pages):
                    self.pages[page] = bytearray(PAGE)
            case capture.NewPage():
                self.contents.append(event.data)
                self.pages[event.page] = bytearray(event.data)
            case capture.KnownPage():
                self.pages[event.page] = bytearray(self.contents[event.content])
            case capture.Bytes():
                page, at = divmod(event.va, PAGE)
                assert self.pages[page][at : at + len(event.data)] != event.data
                self.pages[page][at : at + len(event.data)] = event.data

    def gpu_writes(self, pa: int, data: bytes) -> None:
        for page, (frame, _) in self.frames.items():
            if frame == pa - pa % PAGE:
                self.pages[page][pa % PAGE : pa % PAGE + len(data)] = data


def test_accesses_and_interrupts(board: Board, tmp_path: Path) -> None:
    recorder = Recorder(board, tmp_path / "a.cap")
    recorder.time = 7
    board.hub(0xC)
    recorder.time += 6_000_000_000
    board.core(0x54, 0x80)
    recorder.time += 1
    board.core(0x58, 0x80)
    assert not (tmp_path / "a.cap").exists()
    assert recorder.close()
    assert capture.read_header(tmp_path / "a.cap") == capture.Header("v3d42", 0xC000, 1)
    *events, end = capture.read_capture(tmp_path / "a.cap")
    assert events == [
        capture.Read(7, 0xC, 0x000E1124),
        capture.Write(6_000_000_000, 0x4054, 0x80),
        capture.Interrupt(0, 0, True),
        capture.Write(1, 0x4058, 0x80),
        capture.Interrupt(0, 0, False),
    ]
    assert isinstance(end, capture.End)
    assert not end.failed
    assert end.counters["interrupts"] == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "a.cap"]


def test_contents_are_written_once(board: Board, tmp_path: Path) -> None:
    for page in (0, 2, 3):
        board.ram.put(DATA + page * PAGE, b"same" * 1024)
    recorder = Recorder(board, tmp_path / "a.cap")
    board.dispatch(WRITE, 0x11010)
    board.ram.put(DATA + 100, b"AB")
    board.ram.put(DATA + 200, b"C")
    board.dispatch(READ, 0x11010)
    recorder.close()
    events = list(capture.read_capture(tmp_path / "a.cap"))
    assert [e for e in events[:-1] if not isinstance(e, (capture.Read, capture.Write))] == [
        capture.Map(0, 0x10, 4, DATA, True, True),
        capture.NewPage(0, 0x10, 0, b"same" * 1024),
        capture.ZeroPages(0, 0x11, 1),
        capture.KnownPage(0, 0x12, 0),
        capture.KnownPage(0, 0x13, 0),
        capture.Map(0, 0x14, 1, DATA + 4 * PAGE, False, True),
        capture.ZeroPages(0, 0x14, 1),
        capture.JobStart(0, 0, 1),
        capture.JobEnd(0, 0, 1),
        capture.Interrupt(0, 0, True),
        # not what the GPU wrote at 0x11010
        capture.Bytes(0, 0x10000 + 100, b"AB"),
        capture.Bytes(0, 0x10000 + 200, b"C"),
        capture.JobStart(0, 0, 2),
        capture.JobEnd(0, 0, 2),
    ]


def test_failure_is_in_the_end_record(board: Board, tmp_path: Path) -> None:
    recorder = Recorder(board, tmp_path / "a.cap")
    with pytest.raises(VgpuError):
        board.hub(0x18)
    recorder.close()
    (end,) = capture.read_capture(tmp_path / "a.cap")
    assert isinstance(end, capture.End)
    assert end.failed


def test_no_folder(board: Board, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Recorder(board, tmp_path / "none" / "a.cap")


steps = st.lists(
    st.one_of(
        st.tuples(st.just("poke"), st.integers(0, 8 * PAGE - 1), st.binary(min_size=1, max_size=40)),
        st.tuples(st.just("map"), st.integers(0, 15), st.integers(0, 7)),
        st.tuples(st.just("unmap"), st.integers(0, 15), st.just(0)),
        st.tuples(st.just("job"), st.integers(0, 16 * PAGE // 4 - 1), st.sampled_from([0, READ, WRITE])),
    ),
    max_size=25,
)


@dataclass
class Job:
    """What a job found and did: GPU page -> (physical address, writable) and content, and the word it wrote."""

    frames: dict[int, tuple[int, bool]]
    pages: dict[int, bytes]
    wrote: int | None  # physical address


@settings(max_examples=50, deadline=None)
@given(steps)
def test_memory_at_each_job(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, Any]]) -> None:
    """Whatever CPU and GPU do in turn, the capture gives mappings and content as each job finds them."""
    path = tmp_path_factory.mktemp("capture") / "a.cap"
    board = Board(library=library())
    frames = {0x10 + i: (DATA + i * PAGE, i < 4) for i in range(5)}
    recorder = Recorder(board, path)
    jobs: list[Job] = []
    for kind, where, what in [*steps, ("job", 0, 0)]:
        page = 0x10 + where
        if kind == "poke":
            board.ram.put(DATA + where, what)
        elif kind == "map":
            board.ram.map(TABLE, page * PAGE, [DATA + what * PAGE])
            frames[page] = (DATA + what * PAGE, True)
            board.flush()
        elif kind == "unmap":
            board.ram.map(TABLE, page * PAGE, [0], 0)
            frames.pop(page, None)
            board.flush()
        else:
            va = 0x10000 + 4 * where
            pa, writable = frames.get(va // PAGE, (0, False))
            action = what if pa and (writable or what != WRITE) else 0
            pages = {p: board.ram.bytes[f - board.ram.base :][:PAGE].tobytes() for p, (f, _) in frames.items()}
            jobs.append(Job(dict(frames), pages, pa + va % PAGE if action == WRITE else None))
            board.dispatch(action, va)
    assert recorder.close()
    board.gpu.close()
    memory, todo = Memory(), iter(jobs)
    for event in capture.read_capture(path):
        memory.take(event)
        if isinstance(event, capture.JobStart):
            job = next(todo)
            assert memory.frames == job.frames
            assert {p: bytes(data) for p, data in memory.pages.items()} == job.pages
            if job.wrote is not None:
                memory.gpu_writes(job.wrote, (0xC0FFEE).to_bytes(4, "little"))
    assert next(todo, None) is None
