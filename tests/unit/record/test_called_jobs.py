# SPDX-License-Identifier: BSD-2-Clause
"""Calls of command streams as a raw trace: one that waits for another queue stands where it has ended."""

from __future__ import annotations

import pytest

from host_tools.gpus.mali_csf.conversion import STREAMS_VA, Calls
from host_tools.record.called_jobs import CalledJobs
from host_tools.vgpu import capture
from host_tools.vgpu.capture import Call, JobEnd, JobStart, Map, NewPage, Unmap
from trace_format import profile
from trace_format.actions import Action, Op, actions_of
from trace_format.schema.capture import CAPTURE_REGISTERS

GPU = profile.load("mali_g610")
NONE = (0,) * CAPTURE_REGISTERS
PAGE = 0x4000


def call(queue: int, ordinal: int, *, is_rest: bool = False, first: int = 0) -> list[capture.Event]:
    """A job: a call whose first register has a value, by which it is told from others."""
    registers = (first, *NONE[1:])
    called = Call(0, PAGE << 12, 64, queue, is_rest, registers)
    return [called, JobStart(0, 0, ordinal), JobEnd(0, 0, ordinal)]


def built(*events: capture.Event) -> tuple[list[Action], bytes]:
    jobs = CalledJobs(GPU, Calls(GPU), 1 << 32)
    for at, event in enumerate(events):
        jobs.take(at, event)
    actions, image, _ = jobs.finish()
    return list(actions_of(actions)), image


def memory() -> list[capture.Event]:
    return [Map(0, PAGE, 1, 0x8000, True, False), NewPage(0, PAGE, 0, bytes(4096))]


def test_a_call_that_waits_stands_where_it_has_ended() -> None:
    rows, image = built(
        *memory(), *call(0, 1, first=7), *call(2, 2, first=9), *call(0, 3, is_rest=True, first=1), *call(2, 4)
    )
    jobs = [row for row in rows if row.op in (Op.JOB, Op.RUN_STREAM)]
    assert [row.op for row in jobs] == [Op.JOB, Op.RUN_STREAM] * 3
    assert [row.number for row in jobs[::2]] == [0, 1, 2]
    size = jobs[1].instructions * 8
    # The stream that was made first is queue 0's: it is called second, with the registers that it began with.
    assert [row.stream for row in jobs[1::2]] == [STREAMS_VA + size, STREAMS_VA, STREAMS_VA + 2 * size]
    assert b"\x07\0\0\0\0\0\0\x02" in image


def test_a_rest_of_nothing() -> None:
    with pytest.raises(capture.CaptureError, match="the rest of a call that did not begin"):
        built(*memory(), *call(0, 1, is_rest=True))


def test_a_job_without_a_call() -> None:
    with pytest.raises(capture.CaptureError, match="no stream was called"):
        built(*memory(), JobStart(0, 0, 1))


def frames(rows: list[Action]) -> dict[int, int]:
    return {row.va_page: row.frame for row in rows if row.op == Op.MAP_GPU_MEM and row.va_page != STREAMS_VA >> 12}


def test_a_page_that_is_mapped_twice_has_one_frame() -> None:
    rows, _ = built(*memory(), Map(0, PAGE + 8, 1, 0x8000, True, False), *call(0, 1))
    assert frames(rows)[PAGE] == frames(rows)[PAGE + 8]


def test_memory_that_is_used_again_is_not_what_it_was() -> None:
    """The page of memory is another GPU page's now, whose old one the recorder names afterwards."""
    again = [Map(0, PAGE + 8, 1, 0x8000, True, False), NewPage(0, PAGE + 8, 1, bytes(4096))]
    rows, _ = built(*memory(), *call(0, 1), again[0], Unmap(0, PAGE, 1), again[1], *call(0, 2))
    assert frames(rows)[PAGE] != frames(rows)[PAGE + 8]
