# SPDX-License-Identifier: BSD-2-Clause
"""Every pass keeps outputs and GPU-visible memory, alone and after the ones before it, on a recording a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.accesses.observe import random_inputs
from host_tools.demo import RAW
from host_tools.families.family import family_of
from host_tools.model.equivalence import difference
from host_tools.model.interpreter import interpreter
from host_tools.passes.listing import PASSES
from host_tools.passes.pipeline import build
from tests.support.networks import COMMITTED
from trace_format.actions import MAP_WRITE, Columns, Op
from trace_format.errors import GramophoneError, SlotError
from trace_format.profile import load
from trace_format.schema import SlotKind
from trace_format.trace import Trace

Tensors = dict[str, NDArray[Any]]
OVER_MEMORY = "read-only", "dead-memory", "preparation", "plan-memory"


# A V3D 7.1's has the same jobs as a 4.2's, of another compiler; test_cutting.py builds it in each run.
RAWS = [pytest.param(name, marks=[pytest.mark.exhaustive] if name == "v3d71" else []) for name in COMMITTED]


@pytest.fixture(scope="module", params=RAWS)
def raw(request: pytest.FixtureRequest) -> Trace:
    return Trace.read(COMMITTED[request.param])


@pytest.fixture(scope="module")
def inputs(raw: Trace) -> Tensors:
    return random_inputs(raw, seed=99)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PASSES)
def test_a_pass_alone_changes_nothing_that_can_be_seen(raw: Trace, inputs: Tensors, name: str) -> None:
    after = PASSES[name](raw)
    assert difference(raw, after, inputs) == ""
    assert Trace.parse(after.build(compress=False)).trace_id == after.trace_id


def test_every_pass_after_the_ones_before_it(raw: Trace, inputs: Tensors) -> None:
    trace = raw
    for item in PASSES.values():
        after = item(trace)
        assert difference(trace, after, inputs) == "", item.name
        trace = after
        if item.name == "no-op-lists":
            jobs_alone = after  # after this, memory that only the dropped lists read need not be there
    assert difference(jobs_alone, trace, inputs, replays=2) == ""


@pytest.mark.parametrize("gpu", COMMITTED)
def test_a_trace_names_no_pass_of_another_family(gpu: str) -> None:
    family = family_of(load(gpu))
    others = {name for name, item in PASSES.items() if item.family not in (None, family)}
    assert others
    assert not others & set(build(Trace.read(COMMITTED[gpu])).notes["passes"])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", PASSES)
def test_leaving_out_one_pass_still_gives_a_working_trace(raw: Trace, inputs: Tensors, name: str) -> None:
    trace = build(raw, skip=[name])
    assert name not in trace.notes["passes"]
    with interpreter(raw) as one, interpreter(trace) as two:
        assert np.array_equal(one.run(inputs)["prob"], two.run(inputs)["prob"])


def test_the_comparison_sees_a_changed_weight(raw: Trace, inputs: Tensors) -> None:
    slot = next(s for s in raw.slots if s.kind == SlotKind.PARAMETER)
    changed = build(raw, parameters={slot.name: np.zeros(slot.shape, np.float32)}, skip=["relocate"])
    assert "differs" in difference(build(raw, skip=["relocate"]), changed, inputs)


def test_parameters_travel_into_the_trace(raw: Trace, inputs: Tensors) -> None:
    """Weights read out of the recording and bound again give the recording's results."""
    with interpreter(PASSES["map-once"](raw)) as run:  # the recording itself unmaps its weights at the end
        expected = run.run(inputs)["prob"]
        weights = {s.name: run.read_slot(s) for s in raw.slots if s.kind == SlotKind.PARAMETER}
    trace = build(raw, parameters=weights)
    assert all(s.kind != SlotKind.PARAMETER for s in trace.slots)
    with interpreter(trace) as run:
        assert np.array_equal(run.run(inputs)["prob"], expected)


def test_a_parameter_of_another_shape_is_refused(raw: Trace) -> None:
    slot = next(s for s in raw.slots if s.kind == SlotKind.PARAMETER)
    with pytest.raises(SlotError, match="shape of parameter"):
        build(raw, parameters={slot.name: np.zeros(3, np.float32)})


def test_an_input_cannot_be_bound_as_a_parameter(raw: Trace) -> None:
    with pytest.raises(SlotError, match="not a parameter"):
        build(raw, parameters={"data": np.zeros((1, 28, 28), np.float32)})


def test_a_built_trace_can_be_built_again(raw: Trace, inputs: Tensors) -> None:
    once = build(raw)
    twice = build(once)
    assert difference(once, twice, inputs, replays=2) == ""
    assert twice.carveout_bytes <= once.carveout_bytes


def test_an_unknown_pass_is_named(raw: Trace) -> None:
    with pytest.raises(GramophoneError, match="no pass called unroll"):
        build(raw, skip=["unroll"])


def test_what_the_passes_leave(raw: Trace) -> None:
    """The finished trace: no idle time, no handler marks, and the image read-only."""
    trace = build(raw)
    ops = trace.actions["op"]
    for gone in (Op.INTERVAL, Op.IRQ_ENTER, Op.IRQ_EXIT, Op.UNMAP_GPU_MEM):
        assert not (ops == gone).any(), gone
    maps = trace.actions[ops == Op.MAP_GPU_MEM]
    read_only = maps["b"] < -(-len(trace.image) // 4096)
    assert (maps["flags"][read_only] & MAP_WRITE == 0).all()
    assert read_only.any()
    assert trace.jobs == raw.jobs
    assert len(trace.build()) < len(raw.build())


def test_what_the_passes_leave_on_a_v3d() -> None:
    """One flush, memory in a few pages: what shaders reach is seen there."""
    trace = build(Trace.read(RAW))
    assert trace.carveout_bytes < 1 << 20
    flush = trace.profile.register("hub.MMUC_CONTROL").index
    writes = (trace.actions["op"] == Op.REG_WRITE) & (trace.actions["arg"] == flush)
    assert writes.sum() <= 2  # enable, flush


def test_what_the_passes_leave_on_a_mali() -> None:
    """What jobs access is seen there too: most of the recorded pools, 26 MB, is not touched."""
    trace = build(Trace.read(COMMITTED["mali_g71"]))
    columns = Columns(trace.actions)
    assert trace.carveout_bytes < 1 << 20
    assert columns.bytes[columns.is_op(Op.UPLOAD, Op.CLEAR)].sum() < 1 << 14


@pytest.mark.sampled(2)
@pytest.mark.parametrize("given", ["recorded weights", "other weights"])
def test_twenty_replays_in_a_row(raw: Trace, given: str) -> None:
    """Each with an input of its own. Weights stay a caller's to give where no pass makes them constant."""
    trace, reference = build(raw, skip=["constants"]), build(raw, skip=["constants", *OVER_MEMORY])
    weights, seen = {}, []
    if given == "other weights":  # small ones of both signs: else the softmax gives 0 and 1
        weights = {
            name: (x - np.float32(0.5)) / 4 for name, x in random_inputs(raw, 7, [SlotKind.PARAMETER]).items()
        }
    with interpreter(reference) as one, interpreter(trace) as two:
        for replay in range(20):
            values = {**weights, **random_inputs(raw, 100 + replay)}
            expected, found = one.run(values)["prob"], two.run(values)["prob"]
            assert np.array_equal(found, expected), replay
            seen.append(found)
    assert any(not np.array_equal(seen[0], other) for other in seen[1:])
