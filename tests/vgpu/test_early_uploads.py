# SPDX-License-Identifier: BSD-2-Clause
"""What the CPU writes between jobs, over bytes that no job has touched by then, is there from the start."""

from __future__ import annotations

import numpy as np
import pytest

from host_tools.passes.early_uploads import upload_early
from host_tools.passes.program import Program
from host_tools.vgpu.binding import ACCESS_WRITTEN
from tests.support.networks import COMMITTED
from tests.support.observation import before_observation
from trace_format.actions import Columns, Op, action, array_of
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

BYTES = 32
AFTER = 4  # a job that one may come before, and another after


@pytest.fixture(scope="module")
def recording() -> Trace:
    return before_observation(Trace.read(COMMITTED["v3d42"])).trace()


def with_upload(trace: Trace, target: int, before: int) -> Trace:
    """Bytes of the image to the target, just before the marker of a job."""
    at = int(np.flatnonzero(Columns(trace.actions).is_op(Op.JOB))[before])
    row = array_of([action(Op.UPLOAD, source=0, target=target, bytes=BYTES)])
    return trace.with_(actions=np.concatenate([trace.actions[:at], row, trace.actions[at:]]))


def with_content(trace: Trace, target: int, before: int) -> Trace:
    """The bytes that the target has at the first job, written once more just before the marker of another."""
    page = Program(trace).memory.pages[target // PAGE_BYTES].content
    at = int(np.flatnonzero(Columns(trace.actions).is_op(Op.JOB))[before])
    image = bytes(trace.image) + page[:BYTES].tobytes()
    row = array_of([action(Op.UPLOAD, source=len(trace.image), target=target, bytes=BYTES)])
    return trace.with_(image=image, actions=np.concatenate([trace.actions[:at], row, trace.actions[at:]]))


def first_touched(trace: Trace, job: int) -> int:
    """Where no job reads or writes, on a page that this job is the first to touch, and that no slot is on."""
    program = Program(trace)
    jobs = program.jobs()
    earlier = {frame for other in jobs[:job] for frame in other.accesses}
    slots = program.memory.frames_of(trace.slots)
    for frame in sorted(jobs[job].accesses.keys() - earlier - slots):
        read = np.any([other.accesses[frame] != 0 for other in jobs if frame in other.accesses], axis=0)
        if not read[-BYTES:].any():
            return (frame + 1) * PAGE_BYTES - BYTES
    raise AssertionError("there is none")


def read_again(trace: Trace, job: int) -> int:
    """Bytes that this job and a later one read, and no job writes, in a page's middle."""
    jobs = Program(trace).jobs()
    for frame, flags in sorted(jobs[job].accesses.items()):
        every = np.bitwise_or.reduce([other.accesses[frame] for other in jobs if frame in other.accesses])
        later = [other.accesses[frame] for other in jobs[job + 1 :] if frame in other.accesses]
        both = (flags != 0) & (every & ACCESS_WRITTEN == 0) & np.any([seen != 0 for seen in later], axis=0)
        if both[:BYTES].all():
            return frame * PAGE_BYTES
    raise AssertionError("there is none")


def left(trace: Trace) -> tuple[int, bytes]:
    """CPU writes after the pass, and the digest of memory."""
    program = Program(trace)
    assert upload_early.edit(program) == ""
    frames = program.memory.pages
    return len(program.memory.cpu_writes), b"".join(frames[frame].digest() for frame in sorted(frames))


def test_code_that_comes_late_is_there_from_the_start(recording: Trace) -> None:
    place = first_touched(recording, AFTER)
    at_first = left(with_upload(recording, place, 0))
    assert at_first[0] == 0
    assert left(with_upload(recording, place, AFTER)) == at_first
    assert at_first != left(recording)


def test_bytes_that_a_job_has_touched_stay_as_they_are(recording: Trace) -> None:
    place = read_again(recording, 0)
    late = with_content(recording, place, 1)
    assert left(late)[0] == 1
    # What comes first stays, and so must what comes after it over the same bytes.
    assert left(with_content(late, place, 2))[0] == 2


def test_a_slot_stays_the_callers(recording: Trace) -> None:
    frame = min(Program(recording).memory.frames_of(recording.slots[:1]))
    assert left(with_upload(recording, frame * PAGE_BYTES, 1))[0] == 1
