# SPDX-License-Identifier: BSD-2-Clause
"""The recorder in a Mali: the memory of each job, in the job's address space."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from host_tools.model.interpreter import Interpreter
from host_tools.record.convert import convert
from host_tools.vgpu import capture
from tests.support import mali_model as m
from tests.support.mali_model import AARCH64, DATA, LEAF, NX, PAGE, RO, RW, TABLE_ROOT, MaliBoard
from tests.support.mali_samples import job_header
from tests.support.recorder_model import Recorder, library
from tests.support.visible import visible
from trace_format.trace import Trace

NAME = "mali_g71-arch60"
LOW = 0xA000000  # as panfrost maps


@pytest.fixture
def board() -> Iterator[MaliBoard]:
    """The pages at LOW are those at DATA, three of them: code, data, constants."""
    made = MaliBoard(gpu=NAME, mmu=False, library=library())
    made.ram.put(TABLE_ROOT, bytes(PAGE))  # nothing is mapped above 4 GiB
    for i, bits in enumerate((RO, RW | NX, RO | NX)):
        made.tables.set(LOW + i * PAGE, DATA + i * PAGE | LEAF | bits)
    made.table(AARCH64, TABLE_ROOT)
    yield made
    made.gpu.close()


def events(path: Path) -> list[capture.Event]:
    """All but register accesses and the end."""
    return [e for e in list(capture.read_capture(path))[:-1] if not isinstance(e, (capture.Read, capture.Write))]


def test_a_job_and_what_the_cpu_changes_after_it(board: MaliBoard, tmp_path: Path) -> None:
    job = LOW + PAGE
    board.ram.put(DATA + PAGE, job_header(kind=1))
    recorder = Recorder(board, tmp_path / "a.cap", NAME)
    board.submit(job)
    assert board.ram.word(DATA + PAGE) == 1  # done: the GPU's, so no change of the CPU's
    board.ram.put(DATA + PAGE + 512, b"new")
    board.write(0x1004, 2)
    board.ram.put(DATA + PAGE, bytes(4))  # what a driver does that submits a job again
    board.submit(job)
    assert recorder.close()
    assert capture.read_header(tmp_path / "a.cap") == capture.Header(NAME, 0x4000, 3)
    content = job_header(kind=1).ljust(PAGE, b"\0")
    assert events(tmp_path / "a.cap") == [
        capture.Map(0, LOW >> 12, 1, DATA, writable=False, executable=True),
        capture.ZeroPages(0, LOW >> 12, 1),
        capture.Map(0, job >> 12, 1, DATA + PAGE, writable=True, executable=False),
        capture.NewPage(0, job >> 12, 0, content),
        capture.Map(0, (LOW >> 12) + 2, 1, DATA + 2 * PAGE, writable=False, executable=False),
        capture.ZeroPages(0, (LOW >> 12) + 2, 1),
        capture.JobStart(0, 0, 1),
        capture.JobEnd(0, 0, 1),
        capture.Interrupt(0, 0, True),
        capture.Interrupt(0, 0, False),
        capture.Bytes(0, job, b"\0"),
        capture.Bytes(0, job + 512, b"new"),
        capture.JobStart(0, 0, 2),
        capture.JobEnd(0, 0, 2),
        capture.Interrupt(0, 0, True),
    ]


def test_the_first_job_is_in_another_address_space(board: MaliBoard, tmp_path: Path) -> None:
    other = TABLE_ROOT + 64 * PAGE
    board.ram.put(other, bytes(PAGE))
    board.ram.put(other, board.ram.bytes[TABLE_ROOT - board.ram.base :][:8].tobytes())
    board.table(1, 0)  # space 0 is off
    board.table(AARCH64, other, space=3)
    board.ram.put(DATA + PAGE, job_header())
    recorder = Recorder(board, tmp_path / "a.cap", NAME)
    board.submit(LOW + PAGE, config=m.FLUSHES | 3)
    assert recorder.close()
    maps = [e for e in events(tmp_path / "a.cap") if isinstance(e, capture.Map)]
    assert [(e.page, e.pa) for e in maps] == [((LOW >> 12) + i, DATA + i * PAGE) for i in range(3)]


def test_a_mapping_above_4_gib_is_refused(board: MaliBoard, tmp_path: Path) -> None:
    board.ram.put(DATA + PAGE, job_header())
    recorder = Recorder(board, tmp_path / "a.cap", NAME)
    board.tables.set((1 << 32) - PAGE, DATA | LEAF | RW)
    board.submit(LOW + PAGE)
    assert recorder.error == ""
    board.tables.set(1 << 32, DATA + PAGE | LEAF | RW)  # follows, also in physical memory
    board.write(0x1004, 2)
    board.ram.put(DATA + PAGE, bytes(4))
    board.submit(LOW + PAGE)
    assert not recorder.close()
    assert recorder.error == "a GPU address above 4 GiB is mapped"
    assert list(tmp_path.iterdir()) == []


def serve(board: MaliBoard) -> None:
    """What a driver does when a job of slot 1 has ended."""
    assert board.read(0x100C) == 2
    board.write(0x1008, 0)
    board.write(0x1004, 2)
    board.write(0x1008, 0x70007)


def test_memory_that_moves_between_jobs_replays_again_and_again(tmp_path: Path) -> None:
    """The second job's header is at the same address in other memory; each replay finds both without a status."""
    board = MaliBoard(gpu=NAME, power=False, mmu=False, library=library())
    board.ram.put(TABLE_ROOT, bytes(PAGE))
    board.tables.set(LOW, DATA | LEAF | RW | NX)
    board.ram.put(DATA, job_header(kind=1))
    recorder = Recorder(board, tmp_path / "a.cap", NAME)
    for register, value in ((0x1A0, 1), (0x180, 0xFF), (0x1008, 0x70007)):
        board.write(register, value)
    board.table(AARCH64, TABLE_ROOT)
    board.submit(LOW)
    serve(board)
    board.tables.set(LOW, DATA + PAGE | LEAF | RW | NX)
    board.ram.put(DATA + PAGE, job_header(kind=1, index=2))
    board.submit(LOW)
    serve(board)
    assert recorder.close()
    board.gpu.close()
    trace = convert(tmp_path / "a.cap", ram_end=DATA + 8 * PAGE, meta={}, notes={})
    device = Interpreter(Trace.parse(trace.build()))
    for replays in range(1, 4):
        device.run()
        assert device.gpu.counters().jobs == 2 * replays
    assert [content[:20] for content in visible(device).values()] == [job_header(status=1, kind=1, index=2)[:20]]
    device.close()
