# SPDX-License-Identifier: BSD-2-Clause
"""Operators between jobs: found by what the CPU has changed in two recordings, computed in every replay.

The recordings are the committed one, in which the CPU turns a part of a tensor round between two jobs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.accesses.job_starts import JobStarts
from host_tools.demo import RAW
from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import Interpreter, interpreter
from host_tools.model.memory import Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.parameters import store
from host_tools.passes.pipeline import build
from host_tools.passes.program import Program
from host_tools.record.layouts import of_ncnn
from host_tools.record.ncnn.cpu_layers import cpu_end
from host_tools.record.ncnn.param import layers_of
from host_tools.record.operating_between import with_operators_between
from host_tools.record.slots import CpuWork, with_slots
from host_tools.vgpu.binding import ACCESS_READ_FIRST, ACCESS_WRITTEN
from tests.support import ncnn_text
from trace_format.actions import Action, Columns, Op, action, actions_of, array_of
from trace_format.operators import Operator, operations
from trace_format.schema import PAGE_BYTES
from trace_format.trace import Trace

Floats = NDArray[np.float32]
NUMBERS = 32  # of the tensor
LAYERS = ["Input data 0 1 data", "ReLU a 1 1 data x", "Flip flip 1 1 x y -23300=1,0", "ReLU b 1 1 y prob"]
BESIDE, CONSTANT = PAGE_BYTES - 8, np.float32(0.25)  # what the CPU writes behind the tensor, always the same


class Place(NamedTuple):
    """A tensor that the job before this one has written, and this one reads: offset in the carve-out."""

    job: int
    at: int


@dataclass(frozen=True)
class Run:
    """A recording, its input, what the CPU has taken, and the output."""

    trace: Trace
    data: Floats
    taken: Floats
    output: Floats


class _Turning(Interpreter):
    """Turns a tensor round before a job; `page`: what is there then."""

    def __init__(self, trace: Trace, place: Place) -> None:
        super().__init__(trace)
        self.place = place
        self.taken = np.zeros(0, np.float32)
        self.page = b""

    def _step(self, row: Action) -> None:
        if row.op == Op.JOB and row.number == self.place.job:
            page = self.memory[self.place.at :][:PAGE_BYTES]
            tensor = page[: 4 * NUMBERS].view("<f4")
            self.taken = tensor.copy()
            tensor[:] = self.taken[::-1]
            page[BESIDE:][:4].view("<f4")[:] = CONSTANT
            self.page = page.tobytes()
        super()._step(row)


@pytest.fixture(scope="module")
def slots() -> Trace:
    return PASSES["map-once"](Trace.read(RAW))


@pytest.fixture(scope="module")
def bare(slots: Trace) -> Trace:
    """As the recorder leaves it."""
    copies = Columns(slots.actions).is_op(Op.COPY_TO_GPU, Op.COPY_FROM_GPU)
    return slots.with_(actions=slots.actions[~copies], slots=[])


@pytest.fixture(scope="module")
def place(bare: Trace) -> Place:
    starts = JobStarts(bare.profile)
    kinds = [start.kind for row in actions_of(bare.actions) if (start := starts.of(row))]
    jobs = [job for job, kind in zip(Program(bare).jobs(), kinds, strict=True) if kind == "compute"]
    for number in range(len(jobs) - 1, 0, -1):
        before, job = jobs[number - 1].accesses, jobs[number].accesses
        for frame in sorted(before.keys() & job.keys()):
            both = (before[frame] & ACCESS_WRITTEN != 0) & (job[frame] & ACCESS_READ_FIRST != 0)
            if both[: 4 * NUMBERS].all() and not (before[frame] | job[frame])[BESIDE:].any():
                return Place(number, frame * PAGE_BYTES)
    raise AssertionError("there is none")


def recorded(slots: Trace, bare: Trace, place: Place, seed: int) -> Run:
    """A run with an input of this seed; of what the CPU has written the recorder keeps the whole page."""
    data = np.random.default_rng(seed).random(slots.slot("data").shape, dtype=np.float32)
    run = _Turning(slots, place)
    try:
        output = run.run({"data": data})["prob"]
    finally:
        run.close()
    memory = Memory.of(bare)
    store(memory, slots.slot("data"), data)
    trace = memory.emit()
    return Run(uploading(trace, slots, bare, place, run.page), data, run.taken, output)


def uploading(trace: Trace, slots: Trace, bare: Trace, place: Place, page: bytes) -> Trace:
    """The trace with a page that the CPU writes before the job."""
    va = next(key for key, m in Memory.of(bare).mappings.items() if m.frame == place.at // PAGE_BYTES)
    target = Memory.of(trace).mappings[va].frame * PAGE_BYTES
    source = -(-len(trace.image) // PAGE_BYTES) * PAGE_BYTES
    upload = action(Op.UPLOAD, bytes=PAGE_BYTES, target=target, source=source)
    at = int(np.flatnonzero(Columns(trace.actions).is_op(Op.JOB))[place.job])
    actions = np.concatenate([trace.actions[:at], array_of([upload]), trace.actions[at:]])
    return trace.with_(actions=actions, image=bytes(trace.image).ljust(source, b"\0") + page, raw=True)


@pytest.fixture(scope="module")
def runs(slots: Trace, bare: Trace, place: Place) -> list[Run]:
    return [recorded(slots, bare, place, seed) for seed in (1, 2, 3)]


def found(one: Run, two: Run, **changes: Any) -> Trace:
    """The first recording with its slots and the operator, by the second one."""
    end = cpu_end(layers_of(ncnn_text.param(LAYERS).decode()), [], {"x": (NUMBERS,), "y": (NUMBERS,)})
    work = CpuWork(
        ({"x": one.taken}, {"x": two.taken}),
        ({"y": one.taken[::-1].copy()}, {"y": two.taken[::-1].copy()}),
        lambda trace, handed: with_operators_between(trace, end, handed, {}),
    )
    return with_slots(
        one.trace,
        lambda: two.trace,
        None,
        ({"data": one.data}, {"data": two.data}),
        ({"prob": one.output}, {"prob": two.output}),
        of_ncnn,
        work=replace(work, **changes),
    )


def test_what_the_cpu_did_is_done_in_each_replay(runs: list[Run], place: Place) -> None:
    """After all passes, too; with an input of which nothing is in the recording."""
    raw = found(*runs[:2])
    assert [row.operator for _, row in operations(raw.actions)] == [Operator.FLIP, Operator.COPY]
    markers = np.flatnonzero(Columns(raw.actions).is_op(Op.JOB))
    assert all(markers[place.job - 1] < index < markers[place.job] for index, _ in operations(raw.actions))
    for trace in (raw, build(raw)):
        with interpreter(trace) as run:
            for each in runs:
                np.testing.assert_array_equal(run.run({"data": each.data})["prob"], each.output)


def test_nothing_that_the_cpu_has_computed_is_in_what_is_built(runs: list[Run]) -> None:
    """But for what it writes beside, which is the same each time."""
    built = bytes(build(found(*runs[:2])).image)
    assert runs[0].taken[::-1].tobytes() not in built
    assert runs[0].taken.tobytes() not in built
    assert CONSTANT.tobytes() in built


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_keeps_what_is_computed(runs: list[Run], name: str) -> None:
    trace = build(found(*runs[:2]), skip=[name])
    with interpreter(trace) as run:
        np.testing.assert_array_equal(run.run({"data": runs[2].data})["prob"], runs[2].output)


def test_without_a_word_on_the_cpus_work_it_is_refused(runs: list[Run]) -> None:
    one, two = runs[:2]
    with pytest.raises(RecordError, match=r"memory that the CPU changes between jobs depends on the inputs$"):
        with_slots(
            *(one.trace, lambda: two.trace, None),
            *(({"data": one.data}, {"data": two.data}), ({"prob": one.output}, {"prob": two.output}), of_ncnn),
        )


def test_what_the_cpu_has_written_must_be_a_tensor_of_the_layers(runs: list[Run]) -> None:
    other = ({"y": runs[0].taken[::-1] + 1}, {"y": runs[1].taken[::-1] + 1})
    with pytest.raises(RecordError, match=r"is no tensor of its own: \d+ words before job \d+, the first"):
        found(*runs[:2], returned=other)


def test_what_the_cpu_has_read_must_be_somewhere(runs: list[Run]) -> None:
    other = ({"x": runs[0].taken + 1}, {"x": runs[1].taken + 1})
    with pytest.raises(RecordError, match="blob x, which the CPU reads between jobs, was found nowhere in memory"):
        found(*runs[:2], taken=other)
