# SPDX-License-Identifier: BSD-2-Clause
"""What the CPU writes between jobs, over bytes that no job has touched by then, is there from the start."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.passes.early_uploads import upload_early
from host_tools.passes.program import Program
from tests.support.networks import COMMITTED
from tests.support.observation import before_observation
from tests.support.small_jobs import IMAGE_PAGES, INPUT, OUTPUT, SCRATCH, Job, small
from trace_format.actions import Columns, Op, action, array_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

BYTES = 32


@pytest.fixture(scope="module")
def recording() -> Trace:
    return before_observation(Trace.read(COMMITTED["v3d42"])).trace()


def with_upload(trace: Trace, target: int, before: int, size: int = BYTES) -> Trace:
    """Bytes of the image to the target, just before the marker of a job."""
    at = int(np.flatnonzero(Columns(trace.actions).is_op(Op.JOB))[before])
    row = array_of([action(Op.UPLOAD, source=0, target=target, bytes=size)])
    return trace.with_(actions=np.concatenate([trace.actions[:at], row, trace.actions[at:]]))


def left(trace: Trace) -> tuple[int, bytes]:
    """CPU writes after the pass, and the digest of memory."""
    program = Program(trace)
    assert upload_early.edit(program) == ""
    frames = program.memory.pages
    return len(program.memory.cpu_writes), b"".join(frames[frame].digest() for frame in sorted(frames))


READS: Job = ("add", INPUT, SCRATCH, OUTPUT)
SCRATCH_FRAME = IMAGE_PAGES + 1


def writes(trace: Trace, *before: int, size: int = BYTES) -> list[int]:
    """Sizes of what stays between jobs, if SCRATCH is written before these jobs."""
    for job in before:
        trace = with_upload(trace, SCRATCH_FRAME * PAGE_BYTES, job, size)
    program = Program(trace)
    assert upload_early.edit(program) == ""
    return [len(item.data) for item in program.memory.cpu_writes]


def test_what_comes_late_is_there_from_the_start() -> None:
    raw = small(("add", INPUT, INPUT, OUTPUT), READS)
    at_first = left(with_upload(raw, SCRATCH_FRAME * PAGE_BYTES, 0))
    assert at_first[0] == 0
    assert left(with_upload(raw, SCRATCH_FRAME * PAGE_BYTES, 1)) == at_first
    assert at_first != left(raw)


def test_bytes_that_a_job_has_touched_stay_as_they_are() -> None:
    assert writes(small(READS, READS, READS), 1) == [BYTES]
    assert writes(small(READS, READS, READS), 1, 2) == [BYTES] * 2, "what comes after it over the same bytes, too"


def test_what_no_job_reads_goes() -> None:
    assert writes(small(READS, READS, READS), 1, 1) == [BYTES], "it is written again"
    assert writes(small(READS, ("add", INPUT, INPUT, SCRATCH), READS), 1) == [], "a job writes there first"
    assert writes(small(READS, ("add", INPUT, INPUT, OUTPUT)), 1) == [], "none comes to it any more"
    assert writes(small(READS, READS), 1, size=4 * BYTES) == [2 * BYTES], "of more than jobs read"


def test_a_job_that_is_not_proved_may_read_it() -> None:
    table: Job = ("gather", INPUT, SCRATCH, OUTPUT)
    assert writes(small(READS, ("add", INPUT, INPUT, SCRATCH), table), 1) == [BYTES]


def test_a_slot_stays_the_callers(recording: Trace) -> None:
    frame = min(Program(recording).memory.frames_of(recording.slots[:1]))
    assert left(with_upload(recording, frame * PAGE_BYTES, 1))[0] == 1
