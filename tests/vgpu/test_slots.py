# SPDX-License-Identifier: BSD-2-Clause
"""Slots are found by differences, and a recording that depends on the data in any other way is refused.

The recordings compared are the committed one and copies of it in which just one thing was changed.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from host_tools.demo import RAW
from host_tools.machine.errors import RecordError
from host_tools.model.interpreter import interpreter
from host_tools.model.memory import Conflict, Memory
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from host_tools.record.layouts import of_ncnn
from host_tools.record.slots import same_stream, with_slots
from trace_format.actions import Op, action, array_of
from trace_format.schema import PAGE_BYTES, SlotKind
from trace_format.trace import Trace

Tensors = dict[str, NDArray[Any]]
# Three recordings, and the first two's inputs and outputs.
Three = tuple[tuple[Trace, Trace, Trace], tuple[Tensors, Tensors], tuple[Tensors, Tensors]]


@pytest.fixture(scope="module")
def recorded() -> Trace:
    return PASSES["map-once"](Trace.read(RAW))


@pytest.fixture(scope="module")
def bare(recorded: Trace) -> Trace:
    """As the recorder leaves it: no slots."""
    copies = np.isin(recorded.actions["op"], [int(Op.COPY_TO_GPU), int(Op.COPY_FROM_GPU)])
    return recorded.with_(actions=recorded.actions[~copies], slots=[])


def slots_of(
    traces: tuple[Trace, Trace, Trace], inputs: tuple[Tensors, Tensors], outputs: tuple[Tensors, Tensors]
) -> Trace:
    """The first recording with its slots, by the others."""
    first, second, other_weights = traces
    return with_slots(first, lambda: second, lambda: other_weights, inputs, outputs, of_ncnn)


def _with_memory(trace: Trace, address: int, values: ArrayLike) -> Trace:
    """A copy of the recording in which the CPU had put other words at a GPU address."""
    memory = Memory.of(trace)
    data = np.ascontiguousarray(values, "<f4").view(np.uint8).reshape(-1)
    for i, byte in enumerate(data):
        page = memory.pages[memory.mappings[0, (address + i) // PAGE_BYTES].frame]
        page.own()
        page.content[(address + i) % PAGE_BYTES] = byte
        page.live[(address + i) % PAGE_BYTES] = True
    return memory.emit()


def _output(recorded: Trace, bare: Trace) -> Tensors:
    with interpreter(bare) as run:
        run.run()
        return {"prob": run.read_slot(recorded.slot("prob"))}


@pytest.fixture(scope="module")
def three(recorded: Trace, bare: Trace) -> Three:
    """Two recordings with different inputs, one with different weights, and the tensors."""
    slot = recorded.slot("data")
    with interpreter(recorded) as run:
        run.run()
        first = run.read_slot(slot)
        weights = [(s, run.read_slot(s)) for s in recorded.slots if s.kind == SlotKind.PARAMETER]
    second = np.random.default_rng(4).random(slot.shape, dtype=np.float32)
    other = _with_memory(bare, slot.address, second)
    third = bare
    for parameter, values in weights:
        third = _with_memory(
            third, parameter.address, values * np.float32(1.25) + np.float32(0.001) * (values == 0)
        )
    inputs = {"data": first}, {"data": second}
    return (bare, other, third), inputs, (_output(recorded, bare), _output(recorded, other))


def test_the_slots_are_found_again(recorded: Trace, three: Three) -> None:
    traces, inputs, outputs = three
    found = slots_of(traces, inputs, outputs)
    for name in ("data", "prob"):
        assert found.slot(name) == recorded.slot(name)
    ours = [(s.address, s.shape) for s in found.slots if s.kind == SlotKind.PARAMETER]
    assert ours == [(s.address, s.shape) for s in recorded.slots if s.kind == SlotKind.PARAMETER]
    with interpreter(found) as run:
        assert np.array_equal(run.run({"data": inputs[1]["data"]})["prob"], outputs[1]["prob"])


def _with_memory_freed(trace: Trace, address: int) -> Trace:
    """The same, but a page lies elsewhere from the third job on, as where a framework frees and allocates."""
    memory = Memory.of(trace)
    page, mapping = address // PAGE_BYTES, memory.mappings[0, address // PAGE_BYTES]
    other = trace.carveout_bytes // PAGE_BYTES - 1
    assert other not in memory.frames
    source = -(-len(trace.image) // PAGE_BYTES) * PAGE_BYTES
    image = bytes(trace.image).ljust(source, bytes(1)) + memory.pages[mapping.frame].content.tobytes()
    rows = [
        action(Op.UNMAP_GPU_MEM, address_space=0, va_page=page, pages=1),
        action(Op.MAP_GPU_MEM, flags=mapping.flags, address_space=0, va_page=page, pages=1, frame=other),
        action(Op.UPLOAD, bytes=PAGE_BYTES, target=other * PAGE_BYTES, source=source),
    ]
    at = int(np.flatnonzero(trace.actions["op"] == Op.JOB)[2])
    actions = np.concatenate([trace.actions[:at], array_of(rows), trace.actions[at:]])
    return trace.with_(actions=actions, image=image)


def test_memory_that_is_mapped_again_between_jobs(recorded: Trace, three: Three) -> None:
    """A network of several outputs on a Mali ended in a traceback here."""
    traces, inputs, outputs = three
    weights = next(s for s in recorded.slots if s.kind == SlotKind.PARAMETER).address
    freed = tuple(_with_memory_freed(trace, weights) for trace in traces)
    with pytest.raises(Conflict):
        Memory.of(freed[0])
    found = slots_of((freed[0], freed[1], freed[2]), inputs, outputs)
    assert [found.slot(name) for name in ("data", "prob")] == [recorded.slot(name) for name in ("data", "prob")]
    with interpreter(build(found)) as run:
        assert np.array_equal(run.run({"data": inputs[1]["data"]})["prob"], outputs[1]["prob"])


def test_a_register_that_depends_on_the_input_is_named(three: Three) -> None:
    (first, second, third), inputs, outputs = three
    changed = second.actions.copy()
    start = first.profile.register("core0.CSD_QUEUED_CFG0").index
    row = np.flatnonzero((changed["op"] == Op.REG_WRITE) & (changed["arg"] == start))[2]
    changed["value"][row] += 1 << 16
    with pytest.raises(RecordError, match=r"depends on the inputs: access \d+ is RegWrite core0.CSD_QUEUED_CFG0"):
        slots_of((first, second.with_(actions=changed), third), inputs, outputs)


def test_a_recording_with_fewer_jobs_is_refused(three: Three) -> None:
    first = three[0][0]
    jobs = np.flatnonzero(first.actions["op"] == Op.JOB)
    shorter = first.with_(actions=first.actions[: jobs[-1]])
    with pytest.raises(RecordError, match=r"depends on the inputs: access .* its end"):
        same_stream(first, shorter, "inputs")


def test_what_is_before_the_first_job_may_come_in_another_order(three: Three) -> None:
    """The driver's own set-up follows the CPU's timing; what a job is given does not."""
    first, second, _ = three[0]
    job = int(np.flatnonzero(first.actions["op"] == Op.JOB)[0])
    writes = np.flatnonzero(second.actions["op"] == Op.REG_WRITE)
    before, after = (int(where[0]) for where in (writes[writes < job], writes[writes > job]))
    for row, fails in ((before, False), (after, True)):
        rows = np.delete(second.actions, row)
        with pytest.raises(RecordError, match="depends on the inputs") if fails else nullcontext():
            same_stream(first, second.with_(actions=rows), "inputs")


def test_memory_that_depends_on_the_input_elsewhere_is_refused(recorded: Trace, three: Three) -> None:
    """A weight that changed with the input: not part of any input, but a job reads it."""
    (first, second, third), inputs, outputs = three
    weight = next(s for s in recorded.slots if s.kind == SlotKind.PARAMETER)
    odd = _with_memory(second, weight.address, np.array([0.125], np.float32))
    with pytest.raises(RecordError, match=f"the first is at GPU address {weight.address:#x}"):
        slots_of((first, odd, third), inputs, outputs)


def test_an_input_that_is_not_in_memory_is_refused(three: Three) -> None:
    traces, inputs, outputs = three
    first, second = ({"data": x["data"] * np.float32(2)} for x in inputs)
    with pytest.raises(RecordError, match="input data does not stand in GPU memory"):
        slots_of(traces, (first, second), outputs)


def test_an_output_that_is_not_in_memory_is_refused(three: Three) -> None:
    traces, inputs, outputs = three
    first, second = ({"prob": x["prob"][::-1].copy()} for x in outputs)
    with pytest.raises(RecordError, match="does not give output prob anywhere"):
        slots_of(traces, inputs, (first, second))
