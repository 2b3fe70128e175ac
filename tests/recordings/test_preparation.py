# SPDX-License-Identifier: BSD-2-Clause
"""Jobs that prepare parameters run once: replays in a row give what they give when all jobs run in each."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from host_tools.accesses.observe import random_inputs
from host_tools.extras.importers.gpureplay_trace import import_gpureplay
from host_tools.model.interpreter import interpreter
from host_tools.passes.parameters import bind
from host_tools.passes.pipeline import build
from host_tools.passes.streaming import secure_bytes
from tests.support.streamed import accesses_outside, made, smallest
from trace_format.actions import Columns, Op
from trace_format.errors import SlotError, TraceError
from trace_format.schema import SlotKind
from trace_format.trace import Trace

ONCE = {"mnist": 5, "mobilenet": 50, "alexnet": 15}
REPLAYS = {"mnist": 20, "mobilenet": 3, "alexnet": 3}
OTHERS = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("mobilenet", "alexnet")]


@functools.cache
def built(folder: Path, *skip: str) -> Trace:
    return build(import_gpureplay(folder, folder.name), skip=skip)


def parameters(trace: Trace, seed: int) -> dict[str, NDArray[Any]]:
    values = random_inputs(trace, seed, (SlotKind.PARAMETER,))
    return {name: (array - np.float32(0.5)) / 4 for name, array in values.items()}


@pytest.mark.parametrize("name", ["mnist", *OTHERS])
def test_replays_in_a_row_and_other_parameters_before_the_last(recordings: Path, name: str) -> None:
    before, after = built(recordings / name, "preparation"), built(recordings / name)
    values, seen = parameters(before, 1), []
    with interpreter(before) as one, interpreter(after) as two:
        for replay in range(REPLAYS[name]):
            if replay == REPLAYS[name] - 1:
                values = parameters(before, 2)
            given = {**values, **random_inputs(before, 100 + replay)}
            expected, found = one.run(given)["output"], two.run(given)["output"]
            assert np.array_equal(found, expected), replay
            seen.append(found)
        jobs = two.gpu.counters().jobs
    assert any(not np.array_equal(seen[0], other) for other in seen[1:])
    spared = (REPLAYS[name] - 2) * ONCE[name]  # the last replay has parameters of its own
    assert jobs == REPLAYS[name] * before.jobs - spared


@pytest.mark.parametrize("name", ["mnist", *OTHERS])
def test_a_replay_copies_its_input_only(recordings: Path, name: str) -> None:
    trace = built(recordings / name)
    columns = Columns(trace.actions)
    start = int(np.flatnonzero(columns.is_op(Op.REPLAY_START))[0])
    copied = columns.slot[start:][columns.is_op(Op.COPY_TO_GPU)[start:]]
    assert [trace.slots[number].kind for number in copied] == [SlotKind.INPUT]
    assert np.count_nonzero(columns.is_op(Op.JOB)[:start]) == ONCE[name]


def test_parameters_are_bound_before_or_not_at_all(recordings: Path) -> None:
    """The prologue would fill them too late."""
    trace = built(recordings / "mnist")
    slot = next(slot for slot in trace.slots if slot.kind == SlotKind.PARAMETER)
    with pytest.raises(SlotError, match="jobs of the prologue use them"):
        bind(trace, {slot.name: np.zeros(slot.shape, np.float32)})


@pytest.mark.parametrize("name", ["mnist", *OTHERS])
def test_bound_parameters_are_prepared_when_the_trace_is_built(recordings: Path, name: str) -> None:
    """Less memory, none of the jobs, the same bits; it can be streamed, with each piece where its jobs need it."""
    raw = import_gpureplay(recordings / name, name)
    values = parameters(raw, 1)
    each_time, built_once = build(raw, parameters=values, skip=["preparation"]), build(raw, parameters=values)
    assert built_once.jobs == raw.jobs - ONCE[name]
    assert secure_bytes(built_once) < secure_bytes(each_time)
    streamed = made(raw, smallest(raw, parameters=values), parameters=values)
    assert secure_bytes(streamed) < secure_bytes(built_once)
    assert not accesses_outside(streamed)
    given = random_inputs(raw, 3)
    with interpreter(each_time) as run:
        expected = run.run(given)["output"]
    for trace in (built_once, streamed):
        with interpreter(trace) as run:
            assert all(np.array_equal(run.run(given)["output"], expected) for _ in range(2))


def test_what_a_caller_may_give_is_prepared_on_the_device(recordings: Path) -> None:
    """One parameter that is not bound is enough; and such a trace is not streamed."""
    raw = import_gpureplay(recordings / "mnist", "mnist")
    _, *others = parameters(raw, 1).items()
    assert build(raw, parameters=dict(others)).jobs == raw.jobs
    with pytest.raises(TraceError, match="'gramophone build --param' runs these itself"):
        made(raw, 1 << 20, parameters=dict(others))
