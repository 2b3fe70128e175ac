# SPDX-License-Identifier: BSD-2-Clause
"""Streamed traces that go on at a checkpoint: a step reads again what a fault may have touched, and no more."""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.model.checkpoints import says_resume, steps_of
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import PASS
from host_tools.vgpu.binding import VirtualGpu
from tee_replayer.generator import hostlib
from tee_replayer.generator.status import ReplayError
from tests.support import replayer_samples as s
from tests.support.faulty_gpu import Fault, FaultyGpu, Kind
from tests.support.sampling import SomeOf
from tests.support.small_jobs import weighted
from tests.support.streamed import INPUT, WEIGHTS, expected, smallest
from tests.vgpu.test_faulty_gpu import CONTROL, LATENCY_NS, RESET
from trace_format import layout
from trace_format.actions import FLAG_REPEAT, Op
from trace_format.schema import PAGE_BYTES, SectionType
from trace_format.trace import Trace

ROOM = 1 << 20


@functools.cache
def trace(more: int = 0) -> Trace:
    """A network with a piece a job, that says where its replays go on; each look of a wait costs a call here."""
    raw = weighted(WEIGHTS)
    found = build(raw, asked={"checkpoints": True, PASS.name: smallest(raw) + more})
    actions = found.actions.copy()
    actions["value"][actions["op"] == Op.WAIT_IRQ] = 200
    return found.with_(actions=actions)


@functools.cache
def right() -> list[int]:
    """What it computes."""
    return expected(weighted(WEIGHTS))


@dataclass
class Stepped:
    """A device with the network, and what its output is bound to."""

    replayer: hostlib.HostReplayer
    file: bytearray
    taken: NDArray[np.int32]

    def stream(self) -> int:
        """Where in the file the bytes of pieces begin."""
        found = trace().build(compress=False)
        return len(self.file) - len(found) + layout.disassemble(found)[1].one(SectionType.STREAM).offset

    def finish(self) -> list[int]:
        """The rest of the replay; its output."""
        while self.replayer.step():
            pass
        return [int(value) for value in self.taken]


@contextmanager
def stepping(fault: Fault | None = None, more: int = 0, **options: Any) -> Iterator[tuple[Stepped, FaultyGpu]]:
    """A device whose replayer has steps and reads pieces, on a GPU that misbehaves once."""
    carveout = mmap.mmap(-1, ROOM)
    with VirtualGpu("v3d42", {s.CARVEOUT_PHYS: carveout}, threads=1, **options) as model:
        gpu = FaultyGpu(model, fault, carveout, CONTROL, RESET)
        library = s.library(steps=True, streaming=True)
        given = cast(VirtualGpu, gpu).c_interface
        replayer = hostlib.HostReplayer(library, s.GPU, given, carveout, s.CARVEOUT_PHYS)
        file = bytearray(s.signed(trace(more).build(compress=False)))
        replayer.load(hostlib._ffi().from_buffer("uint8_t[]", file), s.KEY)
        found = Stepped(replayer, file, np.full(16, 99, np.int32))
        replayer.bind(0, INPUT.copy())
        replayer.bind(1, found.taken)
        yield found, gpu


def test_the_trace_says_that_it_goes_on() -> None:
    jobs = trace().actions[trace().actions["op"] == Op.JOB]
    assert says_resume(trace())
    assert (jobs["flags"] & FLAG_REPEAT).any()
    assert not any(piece.resident for piece in trace().streamed)


def test_others_have_the_gpu_before_each_job() -> None:
    with stepping() as (device, _):
        for _replay in range(2):
            device.taken[:] = 99
            taken = 1
            while device.replayer.step():
                device.replayer.give_away()
                taken += 1
            assert taken == len(steps_of(trace()))
            assert device.taken.tolist() == right()


@pytest.mark.parametrize("more", [0, 4 * PAGE_BYTES])
@pytest.mark.parametrize("job", range(1, WEIGHTS + 1))
def test_a_job_that_hangs_is_done_again_with_its_pieces_alone(job: int, more: int) -> None:
    """The jobs before are not: each is started once, and the pieces are read that the one needs."""
    with stepping(more=more, hang_job=job) as (device, _):
        assert device.finish() == right()
        report = device.replayer.report
        begins_again = not trace(more).actions[trace(more).actions["op"] == Op.JOB]["flags"][job - 1] & FLAG_REPEAT
        assert (report.retries, report.jobs) == (1, WEIGHTS)
        assert begins_again or report.actions < 2 * len(trace(more).actions)


def test_a_piece_that_has_changed_when_a_job_is_done_again() -> None:
    """The device reads it again, and does not go on with what it had."""
    jobs = trace().actions[trace().actions["op"] == Op.JOB]
    job = 1 + int(np.flatnonzero(jobs["flags"] & FLAG_REPEAT)[3])
    with stepping(hang_job=job) as (device, _):
        before = 0
        while device.replayer.step() and device.replayer.report.name == "STATE":
            before += 1
        device.file[device.stream() :] = bytes(len(device.file) - device.stream())
        with pytest.raises(ReplayError) as failed:
            device.finish()
        assert (before, failed.value.report.name) == (job - 1, "CHUNK")
        assert (device.taken == 99).all()


FAULTS = [
    Fault(kind, at, value)
    for kind, value in ((Kind.MMU_FAULT, 0), (Kind.RESET, 0), (Kind.IRQ_LATE, 1 << 62), (Kind.READ_FLIP, 1))
    for at in range(1, 200, 3)
]


def test_a_gpu_that_misbehaves_once_gives_the_right_output_or_none(some_of: SomeOf) -> None:
    ends = set()
    for fault in some_of(FAULTS, 40):
        with stepping(fault, latency_ns=LATENCY_NS) as (device, _):
            try:
                assert device.finish() == right(), fault
                ends.add(device.replayer.report.retries)
            except ReplayError:
                assert (device.taken == 99).all(), fault
    assert ends >= {0, 1}
